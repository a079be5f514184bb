"""What is left of an in-task authorization in a store's files, in exports and for readers: never the credential."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from parley import Agent, Client, Turn
from parley.cluster.hints import LocalHints
from parley.engine.credentials import AUTHORIZATIONS, CREDENTIALS
from parley.engine.owner_data import Selection
from parley.protocol.authorization import GivenCredential, encode_credential
from parley.protocol.errors import InvalidParamsError
from parley.protocol.extensions import AUTHORIZATION_REQUEST
from parley.protocol.masking import MASK, SEALED_MESSAGE
from parley.server.app import App
from parley.stores.interface import Owner, Store, TaskKey
from parley.stores.sqlite.store import SqliteStore
from tests.server.authorization_server import CLIENT, authorization_server
from tests.server.serving import deleted_data, exported_data, send
from tests.server.test_in_task_authorization import SECRET, Calendar, served

pytestmark = pytest.mark.anyio


def bytes_of(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.glob("*.db*"))


async def key_of(store: Store, task_id: str) -> TaskKey:
    (head,) = await store.tasks.find(task_id)
    return head.key


async def test_neither_verifier_nor_client_secret_nor_credential_is_in_the_file(tmp_path: Path) -> None:
    async with authorization_server() as issuer:
        app = App(Calendar(issuer).agent, store=SqliteStore(tmp_path / "tasks.db"))
        async with served(app) as (url, _), Client(url) as client:
            asked = await client.send("What is on?")
            assert asked.task is not None
            (pending,) = await app.store.records.list(AUTHORIZATIONS, "", limit=10)
            verifier, client_secret = pending.value["verifier"], pending.value["client_secret"]
            assert client_secret == CLIENT[1]
            await app.local_engine.credentials.put(await key_of(app.store, asked.task.id), GivenCredential(SECRET))
            found = bytes_of(tmp_path)
    assert b"task-credentials" in found
    assert b"task-authorizations" in found
    for secret in (verifier, client_secret, SECRET):
        assert str(secret).encode() not in found


async def test_deleted_data_takes_its_credentials_and_authorizations_along(tmp_path: Path) -> None:
    async with authorization_server() as issuer:
        app = App(Calendar(issuer).agent, store=SqliteStore(tmp_path / "tasks.db"))
        async with served(app) as (url, _), Client(url) as client:
            asked, other = await client.send("What is on?"), await client.send("And here?")
            assert asked.task is not None
            assert other.task is not None
            for task in (asked.task, other.task):
                await app.local_engine.credentials.put(await key_of(app.store, task.id), GivenCredential(SECRET))
            assert (await deleted_data(app, Selection(task_id=asked.task.id))).tasks == 1
            assert await app.store.records.count(CREDENTIALS, "") == 1
            (left,) = await app.store.records.list(AUTHORIZATIONS, "", limit=10)
            assert left.value["task_id"] == other.task.id
            await deleted_data(app)
            assert await app.store.records.count(CREDENTIALS, "") == 0
            assert await app.store.records.count(AUTHORIZATIONS, "") == 0


async def test_a_text_that_answers_a_described_demand_is_the_same_in_every_run(tmp_path: Path) -> None:
    """Clients that do not know the extension answer with a text; the log has a mask in its place."""
    agent, heard = Agent("Bank"), list[str]()

    @agent.on_message
    async def handle(turn: Turn) -> str:
        given = await turn.require_auth("Your code, please", scheme="Code", url="https://bank.example/codes")
        heard.append(given.text)
        return (await turn.ask("Sure?")).text

    async with (
        served(App(agent, store=SqliteStore(tmp_path / "tasks.db"))) as (url, _),
        Client(url) as client,
    ):
        asked = await client.send("go")
        sure = await asked.answer(SECRET)
        await sure.answer("yes")
    assert heard == [SECRET, SECRET]
    assert SECRET.encode() not in bytes_of(tmp_path)


async def test_readers_and_exports_have_a_mask_and_no_ciphertext(tmp_path: Path) -> None:
    agent = Agent("Bank")

    @agent.on_message
    async def handle(turn: Turn) -> str:
        await turn.require_auth("Your code, please")
        return "done"

    app = App(agent, store=SqliteStore(tmp_path / "tasks.db"))
    async with served(app) as (url, _), Client(url) as client:
        asked = await client.send("go")
        done = await asked.answer(SECRET)
        assert done.task is not None
        read = (await client.get(done.task)).task
        export = await exported_data(app)
    for text in (str(read), str(done.task), export):
        assert MASK in text
        assert SECRET not in text
        assert SEALED_MESSAGE not in text


async def test_metadata_of_an_answer_are_encrypted_with_it(tmp_path: Path) -> None:
    """Clients with an extension of their own may put the credential there."""
    agent, heard = Agent("Bank"), list[object]()

    @agent.on_message
    async def handle(turn: Turn) -> str:
        given = await turn.require_auth("Your code, please")
        heard.append(given.message.metadata.get("code"))
        return (await turn.ask("Sure?")).text

    async with (
        served(App(agent, store=SqliteStore(tmp_path / "tasks.db"))) as (url, _),
        Client(url) as client,
    ):
        asked = await client.send("go")
        sure = await client.send("here", task=asked.task, metadata={"code": SECRET})
        done = await sure.answer("yes")
        assert SECRET not in str(done.task)
    assert heard == [SECRET, SECRET]
    assert SECRET.encode() not in bytes_of(tmp_path)


async def test_a_credential_that_comes_twice_at_once_is_kept_once_and_used_once(tmp_path: Path) -> None:
    """A client that got no reply in time sends the same message to another replica."""
    one, two = Calendar(scopes=["read"]), Calendar(scopes=["read"])
    hints, path = LocalHints(), tmp_path / "tasks.db"
    first = App(one.agent, store=SqliteStore(path, shared=True), hints=hints)
    second = App(two.agent, store=SqliteStore(path, shared=True), hints=hints)
    async with served(first) as (url, http), served(second) as (_, other), Client(url) as client:
        asked = [await client.send(f"What is on? {number}") for number in range(3)]
        for reply in asked:
            assert reply.task is not None
            body = send("Here", message_id=f"m-{reply.task.id}")
            body["params"]["message"] |= {
                "taskId": reply.task.id,
                "metadata": encode_credential(GivenCredential(SECRET)),
            }
            both = await asyncio.gather(
                *(each.post("/", json=body, headers={"A2A-Version": "1.0"}, timeout=30) for each in (http, other))
            )
            results = [reply.json() for reply in both]
            assert ["error" in result for result in results] == [False, False], results
        assert one.got + two.got == [SECRET] * 3
        assert await first.store.records.count(CREDENTIALS, "") == 0


async def test_a_message_that_names_a_stored_credential_cannot_delete_it() -> None:
    """The ids of credentials are in the history of their tasks; whoever has one must not be able to use it."""
    app = App(Calendar(scopes=["read"]).agent)
    async with served(app) as (url, _), Client(url) as client:
        key = TaskKey(Owner("", "ada"), "a-task-of-ada")
        id = await app.local_engine.credentials.put(key, GivenCredential(SECRET))
        asked = await client.send("What is on?")
        with pytest.raises(InvalidParamsError):
            await client.send("x", task=asked.task, metadata={AUTHORIZATION_REQUEST: {"masked": id}})
        await client.get(asked.task or "")  # what the refusal began in the background has run
        assert await app.local_engine.credentials.take(key, id) == GivenCredential(SECRET)
