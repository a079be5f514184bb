"""The error tree is what its drawing says, and every error has its own row."""

import inspect
import re

from parley.protocol import errors as e
from parley.protocol.messages import Message, Role, TextPart, UrlPart


def test_the_drawing_in_the_docstring_is_the_tree() -> None:
    drawn = re.findall(r"^[ │├└─]*([A-Z]\w+Error)\b", e.__doc__ or "", re.MULTILINE)
    defined = [name for name, value in vars(e).items() if inspect.isclass(value) and issubclass(value, e.ParleyError)]
    assert sorted(drawn) == sorted(defined)


def test_every_error_on_the_wire_has_a_code_and_a_text_of_its_own() -> None:
    assert len({error.row.code for error in e.WIRE_ERRORS}) == len(e.WIRE_ERRORS)
    assert len({error.row.reason for error in e.WIRE_ERRORS}) == len(e.WIRE_ERRORS)
    assert len({error().message for error in e.WIRE_ERRORS}) == len(e.WIRE_ERRORS)
    without_code = {e.IdempotencyKeyReusedError, e.TaskFinishedError, e.TaskBusyError, e.UnknownRemoteError}
    assert set(e.WIRE_ERRORS) | without_code == {x for x in _subclasses(e.A2AError) if x.__module__ == e.__name__}


def _subclasses(error: type[e.A2AError]) -> set[type[e.A2AError]]:
    return {found for child in error.__subclasses__() for found in {child, *_subclasses(child)}}


def test_an_error_without_a_message_says_its_docstring() -> None:
    assert str(e.TaskNotFoundError.for_task("t1")) == "Task not found"
    assert e.TaskNotFoundError.for_task("t1").details == {"taskId": "t1"}
    assert str(e.LocalProtocolError()) == "This side tried to send something that A2A does not allow."


def test_an_error_says_where_it_happened() -> None:
    assert str(e.InvalidParamsError("Too long", path="$.message")) == "Too long (at $.message)"
    assert str(e.PeerProtocolError("Too long", path="$.message")) == "Too long (at $.message)"
    assert str(e.PeerProtocolError()).startswith("The peer sent something")


def test_the_text_of_a_message_is_that_of_its_text_parts() -> None:
    message = Message("m", Role.USER, (TextPart("one"), UrlPart("http://x"), TextPart("two")))
    assert message.text == "one\ntwo"


def test_no_error_quotes_a_peer_at_length() -> None:
    long = "x" * 10_000
    for error in (e.InvalidParamsError(long, path=long, details={"a": long}), e.UnknownRemoteError(long, code=1)):
        assert len(error.message) == e.MAX_TEXT
        assert all(len(value) == e.MAX_TEXT for value in error.details.values())
    assert len(e.InvalidParamsError(long, path=long).path or "") == e.MAX_TEXT
    assert len(e.PeerProtocolError(long, path=long).path or "") == e.MAX_TEXT
    assert len(e.LocalProtocolError(long).message) == e.MAX_TEXT
