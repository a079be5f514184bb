"""Hostile and sloppy JSON: what is read, what is refused, and with which path."""

from typing import Any

import pytest

from parley.dialects import v0_3, v1_0
from parley.dialects.fields import MAX_DEPTH
from parley.protocol import operations as ops
from parley.protocol.errors import MAX_TEXT, InvalidParamsError, ParseError, PeerProtocolError
from parley.protocol.messages import DataPart, RawPart, TextPart
from parley.protocol.requests import ListTasksRequest, SendMessageRequest
from parley.protocol.tasks import TaskState


def send(message_tail: bytes = b"", *, parts: bytes = b'[{"text": "hi"}]', head: bytes = b"") -> bytes:
    """The params of a 1.0 SendMessage."""
    return b'{%s"message": {"messageId": "m1", "role": "ROLE_USER", "parts": %s%s}}' % (head, parts, message_tail)


def read(raw: bytes) -> SendMessageRequest:
    request = v1_0.DIALECT.decode_request(ops.SEND_MESSAGE, raw)
    assert isinstance(request, SendMessageRequest)
    return request


def refused(raw: bytes) -> tuple[str, str | None]:
    with pytest.raises(InvalidParamsError) as caught:
        v1_0.DIALECT.decode_request(ops.SEND_MESSAGE, raw)
    return caught.value.message, caught.value.path


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"nonsense",
        b'{"message": NaN}',
        send(parts=b'[{"text": "\xff"}]'),
        send(parts=rb'[{"text": "\ud800"}]'),
        send() + b"x",
        b"\xef\xbb\xbf" + send(),
    ],
    ids=["empty", "cut", "word", "NaN", "no UTF-8", "lone surrogate", "trailing", "byte order mark"],
)
def test_what_is_no_json_is_a_parse_error(raw: bytes) -> None:
    with pytest.raises(ParseError):
        v1_0.DIALECT.decode_request(ops.SEND_MESSAGE, raw)


@pytest.mark.parametrize(
    ("raw", "message", "path"),
    [
        (b"{}", "Object missing required field `message`", "$"),
        (b"[]", "Expected `object`, got `array`", "$"),
        (b'{"message": 5}', "Expected `object`, got `int`", "$.message"),
        (send(parts=b"[]"), "Expected `array` of length >= 1", "$.message.parts"),
        (
            send(parts=b'[{"text": "a"}, {}]'),
            "Invalid part: expected exactly one of text, raw, url and data, found 0",
            "$.message.parts[1]",
        ),
        (
            send(parts=b'[{"text": "a", "url": "b"}]'),
            "Invalid part: expected exactly one of text, raw, url and data, found 2",
            "$.message.parts[0]",
        ),
        (
            send(parts=b'[{"text": null}]'),
            "Invalid part: expected exactly one of text, raw, url and data, found 0",
            "$.message.parts[0]",
        ),
        (send(parts=b'[{"raw": "*"}]'), "Invalid base64 encoded string", "$.message.parts[0].raw"),
        (send(parts=b'[{"raw": "A"}]'), "Invalid base64 encoded string", "$.message.parts[0].raw"),
        (send(b', "role": "ROLE_ROBOT"'), "Invalid enum value 'ROLE_ROBOT'", "$.message.role"),
        (send(b', "role": 9'), "Expected `str`, got `int`", "$.message.role"),
        (send(b', "metadata": [1]'), "Expected `object | null`, got `array`", "$.message.metadata"),
        (
            send(head=b'"configuration": {"historyLength": -1}, '),
            "Expected `int` >= 0",
            "$.configuration.historyLength",
        ),
        (
            send(head=b'"configuration": {"historyLength": 1.5}, '),
            "Expected `int | null`, got `float`",
            "$.configuration.historyLength",
        ),
        (send(b', "metadata": {"n": 1e999}'), "Number out of range", "$.message.metadata[...]"),
        (send(b', "metadata": {"n": [18446744073709551616]}'), "Integer beyond 64 bits", "$.message.metadata.n[0]"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_path(raw: bytes, message: str, path: str) -> None:
    assert refused(raw) == (message, path)


def test_the_whole_range_of_64_bits_is_read_as_it_is() -> None:
    metadata = b'{"least": -9223372036854775808, "most": 18446744073709551615, "pi": 3.14159265358979323846}'

    message = read(send(b', "metadata": ' + metadata)).message

    assert message.metadata == {"least": -(2**63), "most": 2**64 - 1, "pi": 3.141592653589793}


def test_nesting_is_bounded_and_the_bound_is_exact() -> None:
    # Two levels around the message's metadata: the params and the message.
    fits = MAX_DEPTH - 3
    deep = b"[" * fits + b"]" * fits
    assert read(send(b', "metadata": {"deep": ' + deep + b"}")).message.metadata

    message, path = refused(send(b', "metadata": {"deep": [' + deep + b"]}"))

    assert message == f"Nested deeper than {MAX_DEPTH} levels"
    assert path is not None
    assert path.startswith("$.message.metadata.deep[0][0]")


def test_a_hundred_thousand_brackets_are_refused() -> None:
    brackets = b"[" * 100_000
    assert refused(send(b', "metadata": {"deep": ' + brackets))[0] == f"Nested deeper than {MAX_DEPTH} levels"
    assert refused(brackets)[0] == f"Nested deeper than {MAX_DEPTH} levels"


def test_an_endless_value_is_not_quoted_back_whole() -> None:
    message, _ = refused(send(b', "role": "%s"' % (b"x" * 10_000)))
    assert len(message) == MAX_TEXT

    _, path = refused(send(b', "metadata": {"%s": 99999999999999999999}' % (b"y" * 10_000)))
    assert path is not None
    assert len(path) == MAX_TEXT


def test_many_wide_members_need_no_more_than_a_walk() -> None:
    wide = b",".join(b'"%d": [{}]' % i for i in range(500))
    assert len(read(send(b', "metadata": {%s}' % wide)).message.metadata) == 500


def test_of_members_given_twice_the_last_counts() -> None:
    assert read(send(b', "messageId": "m2"')).message.message_id == "m2"


def test_unknown_members_are_ignored() -> None:
    assert read(send(b', "mood": {"level": [1, {"x": null}]}', head=b'"weather": "\xc3\xa9", ')) == read(send())


def test_null_for_an_optional_member_is_the_same_as_absence() -> None:
    nulls = b', "contextId": null, "metadata": null, "extensions": null, "taskId": null'
    assert read(send(nulls, head=b'"configuration": null, "tenant": null, ')) == read(send())
    assert read(send(head=b'"configuration": {"returnImmediately": null}, ')) == read(send())


def test_null_as_data_is_a_value() -> None:
    assert read(send(parts=b'[{"data": null}]')).message.parts == (DataPart(None),)
    # The tolerant reading keeps it, too.
    assert read(send(b', "context_id": "c"', parts=b'[{"data": null}]')).message.parts == (DataPart(None),)


@pytest.mark.parametrize("spelling", [b"-_8=", b"-_8", b"+/8=", b"+/8"])
def test_base64_is_read_in_either_alphabet_with_or_without_padding(spelling: bytes) -> None:
    assert read(send(parts=b'[{"raw": "%s"}]' % spelling)).message.parts == (RawPart(b"\xfb\xff"),)


def test_protojson_names_enums_and_numbers_may_be_spelled_otherwise() -> None:
    usual = read(send(b', "contextId": "c"', head=b'"configuration": {"historyLength": 7}, '))

    odd = b"""{"configuration": {"history_length": "7"},
        "message": {"message_id": "m1", "role": 1, "parts": [{"text": "hi"}], "context_id": "c"}}"""
    assert read(odd) == usual
    assert read(odd.replace(b'"7"', b"7.0")) == usual


def test_of_two_spellings_of_a_name_the_usual_one_counts() -> None:
    assert read(send(b', "message_id": "other"')).message.message_id == "m1"


def test_snake_case_inside_metadata_is_nobodys_business() -> None:
    assert read(send(b', "metadata": {"snake_case": 1}')).message.metadata == {"snake_case": 1}


def test_a_text_of_underscores_is_not_searched_from_each_of_them() -> None:
    text = "_" * 2_000_000  # the square of that takes more than the deadline of a test
    assert read(send(parts=b'[{"text": "%s"}]' % text.encode())).message.parts == (TextPart(text),)


def test_an_enum_number_that_nobody_knows_is_refused() -> None:
    for number in (99, -1):
        with pytest.raises(InvalidParamsError) as caught:
            v1_0.DIALECT.decode_request(ops.LIST_TASKS, b'{"status": %d}' % number)
        assert caught.value.path == "$.status"

    request = v1_0.DIALECT.decode_request(ops.LIST_TASKS, b'{"status": 6, "pageSize": "5", "include_artifacts": true}')
    assert request == ListTasksRequest(state=TaskState.INPUT_REQUIRED, page_size=5, include_artifacts=True)


def test_dialects_that_are_no_protojson_take_no_other_spelling() -> None:
    raw = (
        b'{"message": {"role": "user", "messageId": "m", "context_id": "c", "parts": [{"kind": "text", "text": "x"}]}}'
    )
    request: Any = v0_3.DIALECT.decode_request(ops.SEND_MESSAGE, raw)
    assert request.message.context_id is None


def test_a_part_of_an_answer_without_its_kind_is_known_by_its_members() -> None:
    raw = b'{"role": "agent", "messageId": "m", "parts": [{"text": "x"}, {"file": {"bytes": "aGk"}}]}'
    message: Any = v0_3.DIALECT.decode_result(ops.SEND_MESSAGE, raw)
    assert message.parts == (TextPart("x"), RawPart(b"hi"))


@pytest.mark.parametrize(
    ("parts", "path"),
    [
        (b'[{"kind": "smell"}]', "$.message.parts[0].kind"),
        (b'[{"mystery": 1}]', "$.message.parts[0]"),
        (b'["text"]', "$.message.parts[0]"),
        (b'[{"kind": "data", "data": [1]}]', "$.message.parts[0].data"),
    ],
)
def test_a_part_of_no_known_kind_is_refused(parts: bytes, path: str) -> None:
    with pytest.raises(InvalidParamsError) as caught:
        v0_3.DIALECT.decode_request(
            ops.SEND_MESSAGE, b'{"message": {"role": "user", "messageId": "m", "parts": %s}}' % parts
        )
    assert caught.value.path == path


def test_a_reply_that_makes_no_sense_is_the_peers_fault() -> None:
    with pytest.raises(PeerProtocolError) as caught:
        v1_0.DIALECT.decode_result(ops.GET_TASK, b'{"id": "t", "status": {"state": "DREAMING"}}')
    assert caught.value.path == "$.status.state"
    assert str(caught.value) == "Invalid enum value 'DREAMING' (at $.status.state)"


def test_the_path_of_a_fault_is_the_last_thing_msgspec_says() -> None:
    message, path = refused(send(b', "role": "x - at `$.elsewhere`"'))
    assert message.startswith("Invalid enum value 'x - at `$.elsewhere`'")
    assert path == "$.message.role"
