"""In-task authorization: credentials that callers give, and those that the server's callback endpoint receives."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, closing
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from parley import Agent, Authorized, Client, DelegateFailedError, OAuthCode, Turn
from parley.client.reply import Reply
from parley.cluster.hints import LocalHints
from parley.engine.credentials import AUTHORIZATIONS, CREDENTIALS, delete_credentials
from parley.protocol.authorization import AnswerWay, GivenCredential, RequestedAuthorization, encode_credential
from parley.protocol.cards import Binding
from parley.protocol.errors import InvalidParamsError, TaskNotFoundError
from parley.protocol.extensions import AUTHORIZATION_REQUEST
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.tasks import TaskState
from parley.protocol.versions import Version
from parley.sealed.errors import SecretError
from parley.server.app import App
from parley.server.bindings.grpc import GrpcServer
from parley.server.security.authentication import Security
from parley.server.security.schemes.stored_secrets import StoredSecret, hash_secret
from parley.server.security.schemes.tokens import BearerTokens
from parley.stores.interface import Owner, TaskKey
from parley.stores.sqlite.store import SqliteStore
from tests.server.authorization_server import CLIENT, AuthorizationServer, authorization_server
from tests.server.serving import running

pytestmark = pytest.mark.anyio

SECRET = "the-secret-of-the-calendar"


class Calendar:
    """An agent that reads a calendar with a credential, and notes each one that it gets."""

    def __init__(self, issuer: AuthorizationServer | None = None, **wanted: Any) -> None:
        self.got: list[str] = []
        self.runs = 0
        self.wanted: dict[str, Any] = wanted
        if issuer is not None:
            oauth = OAuthCode(client_id=CLIENT[0], client_secret=CLIENT[1], issuer=issuer.url)
            self.wanted = {"oauth": oauth, "scopes": ["calendar"], **wanted}
        self.before_use: Callable[[], Awaitable[object]] | None = None
        self.agent = Agent("Calendar")
        self.agent.on_message(self.handle)

    async def handle(self, turn: Turn) -> str:
        self.runs += 1
        require: Any = turn.require_auth  # the overloads cannot be told apart by a dictionary
        authorized: Authorized = await require("Sign in to the calendar", **self.wanted)

        async def read() -> int:
            token = authorized.credential
            if self.before_use is not None:
                await self.before_use()
            self.got.append(token)
            return len(self.got)

        number = await turn.step("read", read)
        answer = await turn.ask("Which day?")
        return f"read {number} for {answer.text}"


@asynccontextmanager
async def served(app: App) -> AsyncGenerator[tuple[str, httpx2.AsyncClient]]:
    """The app on a port that it knows as its own, and a browser."""
    async with running(app) as http:
        url = str(http.base_url).rstrip("/")
        app.describe_replica("test", url)
        yield url, http


@asynccontextmanager
async def delegating_to(calendar: Calendar, folder: Path, *, is_remote: bool) -> AsyncGenerator[Client]:
    """A client of an agent that passes everything on to the calendar: here, or at another server."""
    secretary = Agent("Secretary")
    async with AsyncExitStack() as stack:
        elsewhere = await stack.enter_async_context(served(App(calendar.agent))) if is_remote else ("Calendar",)

        @secretary.on_message
        async def handle(turn: Turn) -> str:
            return (await turn.delegate(elsewhere[0], turn.text)).text

        others = [] if is_remote else [calendar.agent]
        app = App(secretary, *others, root=secretary.id, store=f"sqlite:///{folder / 'tasks.db'}")
        url, _ = await stack.enter_async_context(served(app))
        yield await stack.enter_async_context(Client(url))


async def allow(browser: httpx2.AsyncClient, reply: Reply) -> httpx2.Response:
    """A person opens the URL, is logged in, and is sent to the callback."""
    assert reply.authorization is not None
    assert reply.authorization.url is not None
    return await browser.get(reply.authorization.url, follow_redirects=True)


@pytest.mark.parametrize(
    ("version", "binding"),
    [
        (Version.V0_1, Binding.JSONRPC),
        (Version.V0_2, Binding.JSONRPC),
        (Version.V0_3, Binding.JSONRPC),
        (Version.V1_0, Binding.JSONRPC),
        (Version.V0_3, Binding.HTTP_JSON),
        (Version.V1_0, Binding.HTTP_JSON),
        (Version.V0_3, Binding.GRPC),
        (Version.V1_0, Binding.GRPC),
    ],
)
async def test_a_caller_continues_with_the_credential_and_no_reader_sees_it(version: Version, binding: Binding) -> None:
    calendar = Calendar(url="https://calendar.example/keys", scheme="ApiKey", scopes=["read"])
    app = App(calendar.agent)
    async with served(app) as (url, _):
        grpc = GrpcServer(app, http_url=url)
        await grpc.start("127.0.0.1", 0)
        try:
            async with Client(url, versions=[version], bindings=[binding]) as client:
                asked = await client.send("What is on?")
                wanted = asked.authorization
                assert asked.needs_auth
                assert wanted is not None
                assert (wanted.scheme, wanted.url, wanted.scopes, wanted.answer) == (
                    "ApiKey",
                    "https://calendar.example/keys",
                    ("read",),
                    AnswerWay.CREDENTIAL,
                )
                assert "https://calendar.example/keys" in asked.question
                day = await asked.authorize(SECRET)
                assert day.question == "Which day?"
                done = await day.answer("Monday")
                seen = [str(done.task), str((await client.get(done.task or "")).task)]
                if version is Version.V1_0:
                    seen += [str(task) async for task in client.list(artifacts=True)]
        finally:
            await grpc.stop()
    assert done.text == "read 1 for Monday"
    assert calendar.got == [SECRET]
    assert SECRET not in "".join(seen)
    assert version is Version.V0_1 or "masked" in "".join(seen)  # 0.1 shows no history unless it is asked for


async def test_a_stream_shows_what_is_needed_and_not_the_credential() -> None:
    calendar = Calendar(scheme="Bearer", scopes=["read"])
    async with served(App(calendar.agent)) as (url, _), Client(url) as client:
        *_, asked = [update async for update in client.stream("What is on?")]
        assert asked.needs_auth
        assert asked.authorization is not None
        metadata = encode_credential(GivenCredential(SECRET))
        answers = [update async for update in client.stream("Here", task=asked.task, metadata=metadata)]
    assert calendar.got == [SECRET]
    assert SECRET not in str([(update.event, update.task) for update in answers])


async def test_a_demand_that_names_only_the_usual_scheme_is_described() -> None:
    calendar = Calendar(scheme="Bearer")
    async with served(App(calendar.agent)) as (url, _), Client(url) as client:
        asked = await client.send("What is on?")
        assert asked.authorization == RequestedAuthorization("Bearer", takes_text=True)
        await asked.authorize(SECRET)
    assert calendar.got == [SECRET]


async def test_the_callback_receives_the_code_and_the_task_goes_on_by_itself() -> None:
    async with authorization_server() as issuer:
        calendar = Calendar(issuer)
        async with served(App(calendar.agent)) as (url, browser), Client(url) as client:
            asked = await client.send("What is on?")
            assert asked.authorization is not None
            assert asked.authorization.answer is AnswerWay.CALLBACK
            page = await allow(browser, asked)
            assert (page.status_code, page.headers["referrer-policy"]) == (200, "no-referrer")
            day = await asked.authorized()
            done = await day.answer("Monday")
    assert done.text == "read 1 for Monday"
    (token,) = calendar.got
    assert issuer.forms[0]["grant_type"] == "authorization_code"
    assert token not in str(done.task)


async def test_a_state_is_good_once_and_an_unknown_one_never() -> None:
    async with authorization_server() as issuer:
        calendar = Calendar(issuer)
        async with served(App(calendar.agent)) as (url, browser), Client(url) as client:
            asked = await client.send("What is on?")
            assert asked.authorization is not None
            redirect = await browser.get(asked.authorization.url or "")
            callback = redirect.headers["location"]
            both = await asyncio.gather(browser.get(callback), browser.get(callback))
            again = await browser.get(callback)
            foreign = await browser.get("/auth/callback?state=guessed&code=x")
            bare = await browser.get("/auth/callback")
            head = await browser.head(callback)
            await asked.authorized()
    assert sorted(reply.status_code for reply in both) == [200, 400]
    assert [reply.status_code for reply in (again, foreign, bare, head)] == [400, 400, 400, 405]
    assert len(calendar.got) == 1
    assert len(issuer.forms) == 1


async def test_an_expired_state_is_refused_and_any_message_gets_another_url() -> None:
    async with authorization_server() as issuer:
        calendar = Calendar(issuer, expires_in=0)
        async with served(App(calendar.agent)) as (url, browser), Client(url) as client:
            asked = await client.send("What is on?")
            assert (await allow(browser, asked)).status_code == 400
            calendar.wanted["expires_in"] = "10 minutes"
            fresh = await asked.answer("Another link, please")
            assert fresh.authorization is not None
            assert asked.authorization is not None
            assert fresh.authorization.url != asked.authorization.url
            assert (await allow(browser, fresh)).status_code == 200
            assert (await fresh.authorized()).question == "Which day?"
    assert len(calendar.got) == 1


async def test_the_url_of_an_answered_question_is_of_no_use() -> None:
    async with authorization_server() as issuer:
        calendar = Calendar(issuer)
        async with served(App(calendar.agent)) as (url, browser), Client(url) as client:
            asked = await client.send("What is on?")
            assert (await asked.authorize(SECRET)).question == "Which day?"
            assert (await allow(browser, asked)).status_code == 400
    assert calendar.got == [SECRET]


async def test_the_url_of_a_question_answers_no_later_one_of_its_task() -> None:
    """The task waits for an authorization both times, but for another one."""
    async with authorization_server() as issuer:
        oauth = OAuthCode(client_id=CLIENT[0], client_secret=CLIENT[1], issuer=issuer.url)
        agent, got = Agent("Secretary"), list[str]()

        @agent.on_message
        async def handle(turn: Turn) -> str:
            await turn.require_auth("Sign in to the calendar", oauth=oauth, scopes=["calendar"])
            got.append((await turn.require_auth("Sign in to the mail", oauth=oauth, scopes=["mail"])).credential)
            return "done"

        async with served(App(agent)) as (url, browser), Client(url) as client:
            calendar = await client.send("What is on?")
            mail = await calendar.authorize(SECRET)
            assert mail.needs_auth
            assert (await allow(browser, calendar)).status_code == 400
            assert (issuer.forms, got) == ([], [])
            assert (await allow(browser, mail)).status_code == 200
            assert (await mail.authorized()).text == "done"
    assert [form["grant_type"] for form in issuer.forms] == ["authorization_code"]
    assert len(got) == 1


async def test_a_refusal_of_the_person_fails_the_task_with_its_reason() -> None:
    async with authorization_server() as issuer:
        calendar = Calendar(issuer)
        issuer.on_authorize = lambda answer: {"state": answer["state"], "iss": issuer.url, "error": "access_denied"}
        async with served(App(calendar.agent)) as (url, browser), Client(url) as client:
            asked = await client.send("What is on?")
            await allow(browser, asked)
            done = await asked.authorized()
    assert (done.state, done.reason) == (TaskState.FAILED, "The authorization was refused: access_denied")
    assert calendar.got == []


async def test_a_code_that_the_token_endpoint_refuses_leaves_the_task_waiting() -> None:
    async with authorization_server() as issuer:
        calendar = Calendar(issuer)
        issuer.on_authorize = lambda answer: {**answer, "code": "forged"}
        async with served(App(calendar.agent)) as (url, browser), Client(url) as client:
            asked = await client.send("What is on?")
            assert (await allow(browser, asked)).status_code == 502
            assert asked.task is not None
            assert (await client.get(asked.task)).needs_auth
            issuer.on_authorize = lambda answer: {**answer, "iss": "https://other.example"}
            fresh = await asked.answer("again")
            assert (await allow(browser, fresh)).status_code == 502
    assert calendar.got == []


async def test_another_owner_cannot_give_a_task_a_credential() -> None:
    calendar = Calendar(scopes=["read"])
    secrets = [StoredSecret(name=name, hash=hash_secret(f"the-token-of-{name}")) for name in ("ada", "eve")]
    app = App(calendar.agent, security=Security({"token": BearerTokens(secrets)}))
    async with (
        served(app) as (url, _),
        Client(url, credentials="the-token-of-ada") as ada,
        Client(url, credentials="the-token-of-eve") as eve,
    ):
        asked = await ada.send("What is on?")
        assert asked.task is not None
        with pytest.raises(TaskNotFoundError):
            await eve.send("x", task=asked.task.id, metadata=encode_credential(GivenCredential("evil")))
        await asked.authorize(SECRET)
    assert calendar.got == [SECRET]
    assert await app.store.records.count(CREDENTIALS, "") == 0


@pytest.mark.parametrize(
    "given",
    [
        "text",
        {"credential": ""},
        {"credential": 5},
        {"credential": "x" * 20_000},
        {"credential": "x", "expiresAt": "soon"},
        {"credential": "x", "scheme": ""},
        {"masked": "the-id-of-another"},
    ],
)
async def test_an_invalid_credential_is_refused_and_the_task_still_waits(given: Any) -> None:
    calendar = Calendar(scopes=["read"])
    app = App(calendar.agent)
    async with served(app) as (url, _), Client(url) as client:
        asked = await client.send("What is on?")
        metadata = {"urn:parley:authorization-request:1": given}
        with pytest.raises(InvalidParamsError):
            await client.send("x", task=asked.task, metadata=metadata)
        assert asked.task is not None
        assert (await client.get(asked.task)).task == asked.task
        with pytest.raises(InvalidParamsError):
            await client.send("x", metadata=metadata if given == "text" else encode_credential(GivenCredential("x")))


async def test_a_run_that_was_cut_off_with_the_credential_asks_for_it_again(tmp_path: Path) -> None:
    """The process that has the credential dies before it records what it did: nothing of it is left to the next."""
    calendar, path = Calendar(scopes=["read"]), tmp_path / "tasks.db"
    begun, never = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        begun.set()
        await never.wait()

    calendar.before_use = hang
    async with served(App(calendar.agent, store=SqliteStore(path), drain_seconds=0)) as (url, _), Client(url) as client:
        asked = await client.send("What is on?")
        assert asked.task is not None
        answering = asyncio.create_task(asked.authorize(SECRET))
        await begun.wait()
        assert SECRET.encode() not in b"".join(
            file.read_bytes() for file in tmp_path.iterdir() if "wal" not in file.name
        )
        answering.cancel()
    calendar.before_use = None
    async with served(App(calendar.agent, store=SqliteStore(path))) as (url, _), Client(url) as client:
        again = Reply(client, await client.settled((await client.get(asked.task)).content))
        assert again.needs_auth
        day = await again.authorize("another-secret")
        assert (await day.answer("Monday")).text == "read 1 for Monday"
    assert calendar.got == ["another-secret"]


async def test_an_authorization_survives_a_restart_in_between(tmp_path: Path) -> None:
    async with authorization_server() as issuer:
        calendar, path = Calendar(issuer), tmp_path / "tasks.db"
        async with served(App(calendar.agent, store=SqliteStore(path))) as (url, browser), Client(url) as client:
            asked = await client.send("What is on?")
            assert asked.authorization is not None
            redirect = await browser.get(asked.authorization.url or "")
        query = urlsplit(redirect.headers["location"]).query
        async with served(App(calendar.agent, store=SqliteStore(path))) as (url, browser), Client(url) as client:
            assert (await browser.get(f"/auth/callback?{query}")).status_code == 200
            assert asked.task is not None
            day = Reply(client, await client.settled((await client.get(asked.task)).content))
            assert (await day.answer("Monday")).text == "read 1 for Monday"
    assert len(calendar.got) == 1


async def test_any_replica_receives_the_callback(tmp_path: Path) -> None:
    async with authorization_server() as issuer:
        one, two = Calendar(issuer), Calendar(issuer)
        hints, path = LocalHints(), tmp_path / "tasks.db"
        first = App(one.agent, store=SqliteStore(path, shared=True), hints=hints)
        second = App(two.agent, store=SqliteStore(path, shared=True), hints=hints)
        async with served(first) as (url, browser), served(second) as (_, other), Client(url) as client:
            asked = await client.send("What is on?")
            assert asked.authorization is not None
            redirect = await browser.get(asked.authorization.url or "")
            query = urlsplit(redirect.headers["location"]).query
            assert (await other.get(f"/auth/callback?{query}")).status_code == 200
            day = await asked.authorized()
            assert (await day.answer("Monday")).text == "read 1 for Monday"
            assert await first.store.records.count(AUTHORIZATIONS, "") == 0
    assert len(one.got + two.got) == 1


async def test_the_url_holds_pkce_and_a_state_that_the_store_does_not() -> None:
    async with authorization_server() as issuer:
        app = App(Calendar(issuer).agent)
        async with served(app) as (url, _), Client(url) as client:
            asked = await client.send("What is on?")
            assert asked.authorization is not None
            query = parse_qs(urlsplit(asked.authorization.url or "").query)
            (record,) = await app.store.records.list(AUTHORIZATIONS, "", limit=10)
    assert query["code_challenge_method"] == ["S256"]
    assert query["redirect_uri"] == [f"{url}/auth/callback"]
    assert query["scope"] == ["calendar"]
    assert len(query["state"][0]) >= 43
    assert query["state"][0] not in json.dumps(record.value) + record.key.id


async def test_what_has_expired_is_deleted() -> None:
    app = App(Calendar().agent)
    async with served(app):
        credentials, now = app.local_engine.credentials, app.local_engine.clock.now()
        key = TaskKey(Owner("tenant", "ada"), "task")
        for seconds in (-2, 60):
            await credentials.put(key, GivenCredential(SECRET, expires_at=now + timedelta(seconds=seconds)))
        await credentials.delete_expired()
        (kept,) = await app.store.records.list(CREDENTIALS, "tenant", limit=10)
        assert await credentials.take(TaskKey(Owner("tenant", "eve"), "task"), kept.key.id) is None
        assert await credentials.take(key, kept.key.id) is None  # whoever takes it, it is gone


async def test_what_cannot_be_read_is_deleted_too_and_keeps_nothing_else_from_it(tmp_path: Path) -> None:
    """Maintenance and the deletion of a task look through the credentials of all tasks."""
    app = App(Calendar().agent, store=SqliteStore(tmp_path / "tasks.db"))
    async with served(app):
        credentials, records, now = app.local_engine.credentials, app.store.records, app.local_engine.clock.now()
        key, other = TaskKey(Owner("tenant", "ada"), "task"), TaskKey(Owner("tenant", "ada"), "other")
        kept = now + timedelta(seconds=60)
        for task, expires_at in ((key, now - timedelta(seconds=2)), (other, kept), (key, kept)):
            await credentials.put(task, GivenCredential(SECRET, expires_at=expires_at))
        with closing(sqlite3.connect(tmp_path / "tasks.db")) as shell, shell:
            shell.execute("UPDATE records SET value = replace(value, 'parley-sealed.1.', 'parley-sealed.1.00')")
        await credentials.delete_expired()
        assert await records.count(CREDENTIALS, "tenant") == 2
        await delete_credentials(records, [key])
        (left,) = await records.list(CREDENTIALS, "tenant", limit=10)
        assert (left.value["task_id"], SECRET in str(left.value)) == ("other", False)
        with pytest.raises(SecretError):
            await credentials.take(other, left.key.id)


async def test_a_message_without_a_description_still_answers_a_plain_demand() -> None:
    agent = Agent("Plain")

    @agent.on_message
    async def handle(turn: Turn) -> str:
        return (await turn.require_auth("Please log in")).text

    async with served(App(agent)) as (url, _), Client(url) as client:
        asked = await client.send("go")
        assert (asked.needs_auth, asked.authorization) == (True, None)
        assert (await asked.answer("done")).text == "done"


@pytest.mark.parametrize("is_remote", [False, True])
async def test_a_credential_that_a_delegated_task_asks_for_reaches_it_and_no_log(
    is_remote: bool, tmp_path: Path
) -> None:
    calendar = Calendar(url="https://calendar.example/keys", scheme="ApiKey", scopes=["read"])
    async with delegating_to(calendar, tmp_path, is_remote=is_remote) as client:
        asked = await client.send("What is on?")
        wanted = asked.authorization
        assert wanted is not None
        assert (wanted.scheme, wanted.url, wanted.scopes) == ("ApiKey", "https://calendar.example/keys", ("read",))
        day = await asked.authorize(SECRET)
        assert day.question == "Which day?"
        done = await day.answer("Monday")
        seen = str((await client.get(done.task or "")).task)
    assert done.text == "read 1 for Monday"
    assert calendar.got == [SECRET]
    assert SECRET not in seen
    assert not [file.name for file in tmp_path.iterdir() if SECRET.encode() in file.read_bytes()]


async def test_a_refusal_reaches_the_delegated_task_that_asked() -> None:
    calendar, secretary = Calendar(scheme="ApiKey"), Agent("Secretary")

    @secretary.on_message
    async def handle(turn: Turn) -> str:
        try:
            return (await turn.delegate("Calendar", turn.text)).text
        except DelegateFailedError as error:
            return error.reason

    async with served(App(secretary, calendar.agent, root=secretary.id)) as (url, _), Client(url) as client:
        asked = await client.send("What is on?")
        refusal: JsonObject = {AUTHORIZATION_REQUEST: {"error": "access_denied"}}
        done = await client.send("No", task=asked.task, metadata=refusal)
    assert done.text == "The authorization was refused: access_denied"
    assert calendar.got == []
