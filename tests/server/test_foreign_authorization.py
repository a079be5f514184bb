"""In-task authorization with clients that do not know Parley's extension: they read parts, and answer with parts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from parley import Agent, Authorized, Client, Turn
from parley.client.reply import Reply
from parley.engine.credentials import CREDENTIALS, TaskCredentials
from parley.protocol.authorization import GivenCredential, without_description
from parley.protocol.cards import Binding
from parley.protocol.extensions import AUTHORIZATION_REQUEST
from parley.protocol.masking import MASK
from parley.protocol.messages import DataPart, text_of
from parley.protocol.tasks import TaskState
from parley.protocol.versions import Version
from parley.server.app import App
from parley.server.bindings.grpc import GrpcServer
from parley.stores.interface import TaskKey
from parley.stores.sqlite.store import SqliteStore
from tests.server.authorization_server import authorization_server
from tests.server.serving import SPOKEN, send
from tests.server.test_in_task_authorization import SECRET, Calendar, delegating_to, served

pytestmark = pytest.mark.anyio

KEYS = "https://calendar.example/keys"


def signing_agent(heard: list[str], **wanted: Any) -> Agent:
    """An agent that reads only what the caller says."""
    agent = Agent("Bank")

    @agent.on_message
    async def handle(turn: Turn) -> str:
        require: Any = turn.require_auth  # the overloads cannot be told apart by a dictionary
        answer: Authorized = await require("Please log in", **wanted)
        heard.append(answer.text)
        return "done"

    return agent


@pytest.mark.parametrize("answer", [SECRET, f" {SECRET}\n", {"credentials": SECRET, "schemes": ["ApiKey"]}], ids=str)
@pytest.mark.parametrize(("version", "binding"), SPOKEN)
async def test_parts_say_what_is_needed_and_give_the_credential(
    version: Version, binding: Binding, answer: Any, tmp_path: Path
) -> None:
    calendar = Calendar(url=KEYS, scheme="ApiKey", scopes=["read"])
    app = App(calendar.agent, store=SqliteStore(tmp_path / "tasks.db"))
    async with served(app) as (url, _):
        grpc = GrpcServer(app, http_url=url)
        await grpc.start("127.0.0.1", 0)
        try:
            async with Client(url, versions=[version], bindings=[binding]) as client:
                asked = await client.send("What is on?")
                assert asked.message is not None
                data = [part.data for part in asked.message.parts if isinstance(part, DataPart)]
                assert data == [{"schemes": ["ApiKey"], "url": KEYS, "scopes": ["read"]}]
                assert asked.question == f"Sign in to the calendar\n{KEYS}"
                day = await asked.answer(answer)
                assert day.question == "Which day?"
                done = await day.answer("Monday")
                seen = [str(done.task), str((await client.get(done.task or "")).task)]
        finally:
            await grpc.stop()
        assert await app.store.records.count(CREDENTIALS, "") == 0
    assert done.text == "read 1 for Monday"
    assert calendar.got == [SECRET]
    assert SECRET not in "".join(seen)
    assert SECRET.encode() not in b"".join(file.read_bytes() for file in tmp_path.glob("*.db*"))


@pytest.mark.parametrize("answer", [(SECRET,), ({"credentials": SECRET}, f"It is {SECRET}.")], ids=str)
async def test_a_store_that_encrypts_nothing_has_a_mask_too(answer: tuple[Any, ...]) -> None:
    calendar = Calendar(scheme="Bearer")
    async with served(App(calendar.agent)) as (url, _), Client(url) as client:
        asked = await client.send("What is on?")
        day = await asked.answer(*answer)
        done = await day.answer("Monday")
        read = str((await client.get(done.task or "")).task)
    assert calendar.got == [SECRET]
    assert SECRET not in read
    assert MASK in read


async def test_a_client_of_0_3_reads_the_demand_as_parts_and_metadata() -> None:
    calendar = Calendar(url=KEYS, scheme="ApiKey", scopes=["read"])
    async with served(App(calendar.agent)) as (_, http):
        body = {
            "kind": "message",
            "messageId": "m-1",
            "role": "user",
            "parts": [{"kind": "text", "text": "What is on?"}],
        }
        request = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": body}}
        message = (await http.post("/", json=request)).json()["result"]["status"]["message"]
        card = (await http.get("/.well-known/agent-card.json")).json()
    assert message["parts"] == [
        {"kind": "text", "text": "Sign in to the calendar"},
        {"kind": "text", "text": f"\n{KEYS}"},
        {"kind": "data", "data": {"schemes": ["ApiKey"], "url": KEYS, "scopes": ["read"]}},
    ]
    described = message["metadata"][AUTHORIZATION_REQUEST]
    assert (described["scheme"], described["answer"], described["text"]) == ("ApiKey", "credential", True)
    assert AUTHORIZATION_REQUEST in [extension["uri"] for extension in card["capabilities"]["extensions"]]


@pytest.mark.parametrize("scheme", ["ApiKey", "bearer", "Basic"])
async def test_the_handler_gets_it_once_with_the_scheme_that_it_asked_for(scheme: str) -> None:
    agent, got = Agent("Once"), list[tuple[str, str]]()

    @agent.on_message
    async def handle(turn: Turn) -> str:
        authorized = await turn.require_auth("Your key, please", scheme=scheme)
        got.append((authorized.scheme, authorized.credential) if authorized.has_credential else ("", authorized.text))
        return (await turn.ask("Sure?")).text

    async with served(App(agent)) as (url, _), Client(url) as client:
        sure = await (await client.send("go")).answer(SECRET)
        await sure.answer("yes")
    assert got == [(scheme, SECRET), ("", MASK)]


@pytest.mark.parametrize("wanted", [{}, {"url": KEYS}, {"url": KEYS, "scopes": ["read"]}, {"scheme": "Code"}], ids=str)
async def test_a_text_that_says_that_a_person_has_logged_in_is_no_credential(wanted: dict[str, Any]) -> None:
    heard = list[str]()
    async with served(App(signing_agent(heard, **wanted))) as (url, _), Client(url) as client:
        done = await (await client.send("go")).answer("done")
    assert (done.text, heard) == ("done", ["done"])


async def test_a_text_gets_another_url_of_an_authorization_server_and_data_is_the_token() -> None:
    async with authorization_server() as issuer:
        calendar = Calendar(issuer)
        async with served(App(calendar.agent)) as (url, _), Client(url) as client:
            asked = await client.send("What is on?")
            again = await asked.answer("done")
            assert (again.needs_auth, calendar.got) == (True, [])
            assert again.authorization != asked.authorization
            day = await again.answer({"credentials": SECRET})
            assert day.question == "Which day?"
    assert calendar.got == [SECRET]


HOW = 'Send it as one text part without spaces, or as a data part: {"credentials": "…"}'


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (("I do not have one",), f"The answer has no credential. {HOW}"),
        ((MASK,), f"The answer has no credential. {HOW}"),
        (({"token": "x"},), f"The answer has no credential. {HOW}"),
        (("x", "y"), f"The answer has no credential. {HOW}"),
        (({"credentials": {"key": "x"}},), "`credentials` in the answer must be a string"),
        (({"credentials": ""},), "`credentials` in the answer must have 1 to 16,384 characters, and has 0"),
        (
            ({"credentials": "x" * 16_385},),
            "`credentials` in the answer must have 1 to 16,384 characters, and has 16,385",
        ),
        (
            ({"credentials": "x", "schemes": [""]},),
            "`schemes` in the answer must be a list with the name of the scheme",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_an_answer_without_a_credential_is_told_what_was_wrong_with_it(
    answer: tuple[Any, ...], reason: str
) -> None:
    calendar = Calendar(url=KEYS, scheme="ApiKey")
    async with served(App(calendar.agent)) as (url, _), Client(url) as client:
        asked = await client.send("What is on?")
        again = await asked.answer(*answer)
        assert again.needs_auth
        assert again.question == f"Sign in to the calendar\n{KEYS}\n{reason}"
        assert (await again.authorize(SECRET)).question == "Which day?"
    assert calendar.got == [SECRET]


async def test_a_demand_for_another_scheme_says_that_data_gives_the_credential() -> None:
    calendar = Calendar(scheme="Code")
    async with served(App(calendar.agent)) as (url, _), Client(url) as client:
        again = await (await client.send("What is on?")).answer(SECRET)
        assert again.question == (
            'Sign in to the calendar\nThe answer has no credential. Send it as a data part: {"credentials": "…"}'
        )
        await again.answer({"credentials": SECRET})
    assert calendar.got == [SECRET]


async def test_the_same_answer_twice_is_used_once() -> None:
    calendar = Calendar(scheme="ApiKey")
    app = App(calendar.agent)
    async with served(app) as (url, http), Client(url) as client:
        asked = await client.send("What is on?")
        assert asked.task is not None
        body = send(SECRET, message_id="m-1", message={"taskId": asked.task.id})
        replies = [(await http.post("/", json=body, headers={"A2A-Version": "1.0"})).json() for _ in range(2)]
        assert [reply["result"]["task"]["status"]["state"] for reply in replies] == ["TASK_STATE_INPUT_REQUIRED"] * 2
        assert await app.store.records.count(CREDENTIALS, "") == 0
    assert calendar.got == [SECRET]


@pytest.mark.parametrize("answer", [SECRET, {"credentials": SECRET}], ids=str)
@pytest.mark.parametrize("is_remote", [False, True])
async def test_it_reaches_the_task_that_a_delegation_has_begun(is_remote: bool, answer: Any, tmp_path: Path) -> None:
    calendar = Calendar(url=KEYS, scheme="ApiKey", scopes=["read"])
    async with delegating_to(calendar, tmp_path, is_remote=is_remote) as client:
        asked = await client.send("What is on?")
        assert asked.message is not None
        data = [part.data for part in asked.message.parts if isinstance(part, DataPart)]
        assert data == [{"schemes": ["ApiKey"], "url": KEYS, "scopes": ["read"]}]
        done = await (await asked.answer(answer)).answer("Monday")
        seen = str((await client.get(done.task or "")).task)
    assert done.text == "read 1 for Monday"
    assert calendar.got == [SECRET]
    assert SECRET not in seen
    assert not [file.name for file in tmp_path.iterdir() if SECRET.encode() in file.read_bytes()]


@pytest.mark.parametrize("give", [Reply.answer, Reply.authorize])
async def test_a_delegation_that_has_lost_the_credential_does_not_pass_its_mask_on_as_one(
    give: Callable[[Reply, str], Awaitable[Reply]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is killed has taken it; the next one finds the message alone."""
    calendar, secretary = Calendar(scheme="ApiKey"), Agent("Secretary")
    take, lost = TaskCredentials.take, list[str]()

    async def lose(self: TaskCredentials, key: TaskKey, id: str) -> GivenCredential | None:
        taken = await take(self, key, id)
        if not lost:
            lost.append(id)
            return None
        return taken

    monkeypatch.setattr(TaskCredentials, "take", lose)

    @secretary.on_message
    async def handle(turn: Turn) -> str:
        return (await turn.delegate("Calendar", turn.text)).text

    async with served(App(secretary, calendar.agent, root=secretary.id)) as (url, _), Client(url) as client:
        again = await give(await client.send("What is on?"), SECRET)
        assert (again.needs_auth, calendar.got) == (True, [])
        assert (await give(again, SECRET)).question == "Which day?"
    assert calendar.got == [SECRET]


async def test_people_are_not_shown_the_description_again() -> None:
    calendar = Calendar(url=KEYS, scheme="ApiKey")
    async with served(App(calendar.agent)) as (url, _), Client(url) as client:
        asked = await client.send("What is on?")
    assert asked.message is not None
    assert asked.state is TaskState.AUTH_REQUIRED
    shown = without_description(asked.message)
    assert len(shown) == len(asked.message.parts) - 1
    assert text_of(shown) == asked.question
