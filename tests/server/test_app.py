"""The ASGI app: what it serves where, alone and mounted, with one agent and with several."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount

from parley import Agent, Turn
from parley.cluster.hints import Hint, HintKind, LocalHints
from parley.engine.limits import Limits
from parley.protocol.extensions import AUTHORIZATION_REQUEST, WEBHOOK_AUTH
from parley.protocol.signing import load_key, verify_card
from parley.protocol.tasks import TaskState
from parley.protocol.versions import Version
from parley.server.app import App
from parley.server.bindings.cursor import CURSOR
from parley.server.bindings.idempotent_send import idempotent_send
from parley.server.limits import ServerLimits
from parley.server.pages.signer import Signer
from parley.server.security.authentication import Security
from parley.server.security.schemes.stored_secrets import StoredSecret, hash_secret
from parley.server.security.schemes.tokens import BearerTokens
from parley.server.security.throttle import RateLimits
from parley.server.telemetry.metrics import Metrics
from parley.server.telemetry.telemetry import Telemetry
from parley.stores.interface import Owner, TaskFilter
from tests.conformance.serve import KEY
from tests.server.serving import echo_agent, running, send, serving

pytestmark = pytest.mark.anyio

CARD = "/.well-known/agent-card.json"
TOKEN = "a-token-of-enough-length"


def tokens(**options: Any) -> Security:
    return Security({"token": BearerTokens([StoredSecret(name="ada", hash=hash_secret(TOKEN), **options)])})


async def test_an_app_needs_agents_that_can_be_told_apart() -> None:
    with pytest.raises(ValueError, match="at least one agent"):
        App()
    with pytest.raises(ValueError, match="Two agents have the id 'twin'"):
        App(echo_agent("Twin"), echo_agent("Twin"))
    with pytest.raises(ValueError, match="has no handler"):
        App(Agent("Twin"))


async def test_an_app_that_does_not_run_says_so() -> None:
    async with serving(App(echo_agent())) as client:
        reply = await client.get(CARD)
    assert (reply.status_code, reply.headers["retry-after"]) == (503, "1")
    assert "async with app.running()" in reply.json()["error"]["message"]


async def test_the_urls_of_a_card_are_those_that_its_reader_used() -> None:
    async with running(App(echo_agent())) as client:
        url = f"http://{client.base_url.netloc.decode()}/"
        assert (await client.get(CARD)).json()["url"] == url
        other = await client.get(CARD, headers={"host": "agents.example:444"})
        assert other.json()["url"] == "http://agents.example:444/"
        odd = await client.get(CARD, headers={"host": "evil/../<script>"})
        assert odd.json()["url"] == url


async def test_a_card_says_that_the_same_message_is_taken_once_unless_that_is_turned_off() -> None:
    once = idempotent_send(90.0)
    for seconds, expected in ((90.0, [CURSOR, once]), (0.0, [CURSOR])):
        async with running(App(echo_agent(), engine_limits=Limits(idempotency_seconds=seconds))) as client:
            declared = (await client.get(CARD)).json()["capabilities"]["extensions"]
            reply = await client.post(
                "/",
                json=send("hi", message_id="1"),
                headers={"a2a-extensions": once.uri, "a2a-version": "1.0"},
            )
        uris = [*(each.uri for each in expected), AUTHORIZATION_REQUEST, WEBHOOK_AUTH]
        assert [extension["uri"] for extension in declared] == uris
        assert reply.headers.get("a2a-extensions") == (once.uri if seconds else None)


async def test_a_public_url_stands_above_what_requests_say() -> None:
    async with running(App(echo_agent(), public_url="https://agents.example/echo/")) as client:
        assert (await client.get(CARD)).json()["url"] == "https://agents.example/echo/"


async def test_a_card_in_the_version_that_its_reader_asks_for() -> None:
    async with running(App(echo_agent())) as client:
        newest = (await client.get(CARD, headers={"A2A-Version": "1.0"})).json()
        assert "url" not in newest
        by_query = (await client.get(f"{CARD}?A2A-Version=0.3")).json()
        assert "supportedInterfaces" not in by_query
        unknown = await client.get(CARD, headers={"A2A-Version": "7.0"})
        assert (unknown.status_code, unknown.json()["error"]["status"]) == (400, "FAILED_PRECONDITION")
        head = await client.head(CARD)
        assert (head.status_code, head.content) == (200, b"")
        assert (await client.post(CARD)).headers["allow"] == "GET, HEAD"


async def test_one_version_can_be_the_cards_default() -> None:
    async with running(App(echo_agent(), card_version=Version.V1_0)) as client:
        assert "url" not in (await client.get(CARD)).json()


async def test_the_cards_that_are_remembered_are_bounded() -> None:
    async with running(App(echo_agent())) as client:
        for number in range(200):
            card = (await client.get(CARD, headers={"host": f"host-{number}.example"})).json()
            assert card["url"] == f"http://host-{number}.example/"


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("localhost:8080", "http://localhost:8080"),
        ("agents.example", "http://agents.example"),
        ("b.agents.example:8443", "http://b.agents.example:8443"),
        ("other.example", "http://other.example"),
    ],
)
async def test_a_signed_card_verifies_for_every_name_of_the_server(host: str, url: str) -> None:
    app = App(echo_agent(), signer=Signer(load_key(KEY), "k1"), security=tokens())
    app.describe_replica("", "http://agents.example:80", hosts=[".agents.example", "other.example"])
    async with running(app) as client:
        raw = (await client.get(CARD, headers={"host": host})).content
        (key,) = (await client.get("/.well-known/jwks.json")).json()["keys"]
        assert "d" not in key
        verified = verify_card(raw, lambda _: load_key(key))
        assert f"{url}/".encode() in verified.payload
        assert verified.header.jku == f"{url}/.well-known/jwks.json"
    async with running(App(echo_agent())) as client:
        assert (await client.get("/.well-known/jwks.json")).status_code == 404


async def test_no_caller_gets_a_signed_card_for_a_host_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    """With it, another server could prove that it is this one."""
    options: Any = {"signer": Signer(load_key(KEY), "k1")}
    async with running(App(echo_agent(), **options)) as client:
        for host in ("evil.example", "203.0.113.7:8080", "evil.example"):
            card = (await client.get(CARD, headers={"host": host})).json()
            assert (card["url"], card.get("signatures")) == (f"http://{host}/", None)
        assert (await client.get(CARD)).json()["signatures"]
    assert [record.getMessage()[:36] for record in caplog.records if "--public-url" in record.getMessage()] == [
        "Cards for the host evil.example are "
    ]
    async with running(App(echo_agent(), public_url="https://agents.example", **options)) as client:
        card = (await client.get(CARD, headers={"host": "evil.example"})).json()
        assert card["url"] == "https://agents.example/"
        assert card["signatures"]


async def test_several_agents_each_have_their_place() -> None:
    app = App(echo_agent("One"), echo_agent("Two"))
    async with running(app) as client:
        url = str(client.base_url).rstrip("/")
        directory = (await client.get("/agents")).json()
        assert directory == (await client.get("/")).json()
        assert directory["agents"][1] == {
            "id": "two",
            "name": "Two",
            "description": "Says what it hears",
            "url": f"{url}/agents/two",
            "card": f"{url}/agents/two{CARD}",
        }
        card = (await client.get(directory["agents"][1]["card"])).json()
        assert (card["name"], card["url"]) == ("Two", f"{url}/agents/two/")
        for path in ("/agents/two", "/agents/two/"):
            reply = await client.post(path, json=send("hello", message_id=path))
            task = reply.json()["result"]["task"]
            assert (await client.get(f"/agents/two/tasks/{task['id']}")).status_code == 200
            assert (await client.get(f"/agents/one/tasks/{task['id']}")).status_code == 404
        assert (await client.get("/agents/three/tasks")).status_code == 404
        assert (await client.get(CARD)).status_code == 404
        assert (await client.delete("/")).status_code == 404


@pytest.mark.parametrize("framework", [Starlette, FastAPI])
async def test_an_app_can_be_mounted(framework: Any) -> None:
    app = App(echo_agent())

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncGenerator[None]:
        async with app.running():
            yield

    outer = framework(routes=[Mount("/assistants/echo", app)], lifespan=lifespan)
    async with lifespan(outer), serving(outer) as client:
        card = (await client.get(f"/assistants/echo{CARD}")).json()
        assert card["url"] == f"http://{client.base_url.netloc.decode()}/assistants/echo/"
        reply = await client.post(card["url"], json=send("hello", message_id="m-1"))
        task = reply.json()["result"]["task"]
        assert (await client.get(f"/assistants/echo/tasks/{task['id']}")).json() == task


async def test_the_lifespan_of_a_server_opens_and_closes_the_app(tmp_path: Any) -> None:
    sent: list[str] = []

    async def converse(app: App) -> None:
        events = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])

        async def receive() -> Any:
            return next(events)

        async def note(message: Any) -> None:
            sent.append(message["type"])

        await app({"type": "lifespan"}, receive, note)

    await converse(App(echo_agent(), store=f"sqlite:///{tmp_path}/tasks.db"))
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    sent.clear()
    await converse(App(echo_agent(), store=f"sqlite:///{tmp_path}/absent/tasks.db"))
    assert sent == ["lifespan.startup.failed"]


async def test_an_app_runs_once() -> None:
    app = App(echo_agent())
    async with app.running():
        with pytest.raises(RuntimeError, match="create a new App"):
            async with app.running():
                pass
        async with serving(app) as client:
            assert (await client.get("/healthz")).status_code == 200
    with pytest.raises(RuntimeError, match="create a new App"):
        async with app.running():
            pass


async def test_an_id_cannot_have_a_slash() -> None:
    with pytest.raises(ValueError, match="slash"):
        App(echo_agent(id="a/b"))


@pytest.mark.parametrize("root", ["/my app", "/a"])
async def test_an_app_is_found_below_any_root(root: str) -> None:
    app = App(echo_agent("agents"), echo_agent("Two"))
    outer = Starlette(routes=[Mount(root, app)])
    async with app.running(), serving(outer) as client:
        (entry, _) = (await client.get(f"{root}/agents")).json()["agents"]
        assert (await client.get(entry["card"])).json()["name"] == "agents"


async def test_strangers_who_may_send_messages_do_not_see_the_extended_card() -> None:
    agent = echo_agent()

    @agent.skill(public=False, tags=["x"])
    async def vault(turn: Any) -> str:
        """Opens the vault."""
        return "gold"

    entries = BearerTokens([StoredSecret(name="ada", hash=hash_secret(TOKEN))])
    security = Security({"token": entries}, [{"token": ()}, {}])
    async with running(App(agent, security=security)) as client:
        body = {"jsonrpc": "2.0", "id": 1, "method": "GetExtendedAgentCard"}
        assert (await client.post("/", json=send("hello", message_id="m-1"))).status_code == 200
        for path in ("/extendedAgentCard", "/v1/card", "/agent/authenticatedExtendedCard"):
            assert (await client.get(path)).status_code == 401
        assert (await client.post("/", json=body)).status_code == 401
        reply = await client.post("/", json=body, headers={"authorization": f"Bearer {TOKEN}"})
        assert [skill["id"] for skill in reply.json()["result"]["skills"]] == ["vault"]


async def test_a_caller_that_goes_away_does_not_keep_its_place() -> None:
    rates = RateLimits(requests=1)
    limits = ServerLimits(rates=rates, heartbeat_seconds=0.06)
    app = App(echo_agent(), limits=limits, drain_seconds=0)
    async with running(app) as client:
        for number, (path, body) in enumerate(
            (("/", send("wait", message_id="m-1")), ("/message:send", send("wait", message_id="m")["params"])), start=1
        ):
            calling = asyncio.create_task(client.post(path, json=body))
            while await at_work(app) < number:
                await asyncio.sleep(0.01)
            calling.cancel()
            await asyncio.wait([calling])
            assert calling.cancelled()
            while (await client.get("/tasks")).status_code == 429:
                await asyncio.sleep(0.01)
        states = [task["status"]["state"] for task in (await client.get("/tasks")).json()["tasks"]]
        assert states == ["TASK_STATE_WORKING"] * 2


async def at_work(app: App) -> int:
    """How many tasks are at work in the store."""
    return (await app.store.tasks.list(Owner("", ""), TaskFilter(state=TaskState.WORKING))).total


async def test_a_websocket_is_closed() -> None:
    sent: list[Any] = []

    async def note(message: Any) -> None:
        sent.append(message)

    await App(echo_agent())({"type": "websocket"}, None, note)  # type: ignore[arg-type]
    assert sent == [{"type": "websocket.close"}]


async def test_health_tells_when_the_app_drains() -> None:
    app = App(echo_agent())
    async with running(app) as client:
        for path in ("/livez", "/readyz", "/healthz"):
            assert (await client.get(path)).json() == {"status": "ok"}
            assert (await client.post(path)).status_code == 405
        await app.drain()
        draining = {"reason": "draining", "text": "The server is shutting down."}
        for path in ("/readyz", "/healthz"):
            reply = await client.get(path)
            assert (reply.status_code, reply.json()) == (503, {"status": "draining", "reasons": [draining]})
        assert (await client.head("/livez")).status_code == 200
        refused = (await client.post("/", json=send("hello", message_id="m-1"))).json()["error"]
        assert refused["data"][0]["reason"] == "UNAVAILABLE"


async def test_metrics_are_for_those_who_may_call() -> None:
    app = App(echo_agent(), security=tokens(), telemetry=Telemetry(metrics=Metrics()))
    async with running(app) as client:
        assert (await client.get("/metrics")).status_code == 401
        client.headers["authorization"] = f"Bearer {TOKEN}"
        await client.post("/", json=send("hello", message_id="m-1"))
        await client.post("/", content=b"{")
        shown = (await client.get("/metrics")).text
        assert 'operation="SendMessage"' in shown
    async with running(App(echo_agent())) as client:
        assert (await client.get("/metrics")).status_code == 404


async def test_people_get_a_page_and_programs_a_document() -> None:
    async with running(App(echo_agent())) as client:
        page = await client.get("/", headers={"accept": "text/html"})
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert page.content == (await client.get("/docs")).content
        assert (await client.get("/")).status_code == 404
        assert (await client.get("/openapi.json")).json()["openapi"].startswith("3.1")


async def test_browsers_of_other_origins_are_kept_out_unless_they_are_let_in() -> None:
    preflight = {"origin": "https://ui.example", "access-control-request-method": "POST"}
    async with running(App(echo_agent())) as client:
        assert "access-control-allow-origin" not in (await client.get(CARD, headers=preflight)).headers
        assert (await client.options("/", headers=preflight)).status_code == 405
    async with running(App(echo_agent(), cors_origins=["https://ui.example"])) as client:
        reply = await client.options("/", headers=preflight)
        assert (reply.status_code, reply.headers["access-control-allow-origin"]) == (200, "https://ui.example")
        reply = await client.get(CARD, headers={"origin": "https://ui.example"})
        assert reply.headers["access-control-allow-origin"] == "https://ui.example"


async def test_a_tenant_that_the_credentials_name_binds_their_holder() -> None:
    async with running(App(echo_agent(), security=tokens(tenant="acme"))) as client:
        client.headers["authorization"] = f"Bearer {TOKEN}"
        task = (await client.post("/", json=send("hello", message_id="m-1"))).json()["result"]["task"]
        assert (await client.get(f"/acme/tasks/{task['id']}")).status_code == 200
        assert (await client.get(f"/evil/tasks/{task['id']}")).status_code == 403
        refused = await client.post("/", json=send("hello", message_id="m-2", tenant="evil"))
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, -32032)


async def test_a_tenant_cannot_have_the_name_of_a_route() -> None:
    async with running(App(echo_agent())) as client:
        refused = (await client.post("/", json=send("hello", message_id="m-1", tenant="tasks"))).json()["error"]
        assert refused["code"] == -32602


async def test_an_app_publishes_hints_about_new_events() -> None:
    """Of tasks that were there before: others cannot read one that begins."""
    agent = Agent("Asker", description="Asks.")

    @agent.on_message
    async def ask(turn: Turn) -> str:
        return (await turn.ask("Which?")).text

    hints, received = LocalHints(), list[Hint]()
    hints.listen(received.append)
    async with running(App(agent, hints=hints)) as client:
        task = (await client.post("/", json=send("hello", message_id="m-1"))).json()["result"]["task"]
        await client.post("/", json=send("this", message_id="m-2", message={"taskId": task["id"]}))
    assert {(hint.kind, hint.key.task_id) for hint in received} == {(HintKind.EVENTS, task["id"])}


async def test_the_id_of_a_request_is_bounded() -> None:
    async with running(App(echo_agent(), limits=ServerLimits(id_characters=40))) as client:
        for id in (7, "x" * 38, None, -1.5):
            assert (await client.post("/", json=send("hi", message_id=f"m{id}", id=id))).json()["id"] == id
        refused = (await client.post("/", json=send("hi", message_id="m", id="x" * 39))).json()
        assert (refused["id"], refused["error"]["code"]) == (None, -32600)


async def test_what_is_no_json_is_a_media_type_of_another_kind() -> None:
    async with running(App(echo_agent())) as client:
        for path in ("/", "/message:send", "/v1/message:send"):
            reply = await client.post(path, content=b"a=b", headers={"content-type": "text/plain"})
            assert reply.status_code == 415
        good = await client.post("/", json=send("hi", message_id="m"), headers={"content-type": "application/a2a+json"})
        assert good.status_code == 200


async def test_a_failure_of_the_server_tells_callers_a_reference_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    app = App(echo_agent())

    def explode(*_: Any) -> Any:
        raise RuntimeError("secret detail")

    monkeypatch.setattr("parley.engine.operations.AgentOperations.send_message", explode)
    async with running(app) as client:
        error = (await client.post("/", json=send("hi", message_id="m"))).json()["error"]
        rest = await client.post("/message:send", json=send("hi", message_id="m2")["params"])
    assert error["code"] == -32603
    assert "secret" not in error["message"]
    assert rest.status_code == 500
    reference = error["message"].rpartition(" ")[2]
    assert any(reference in record.getMessage() for record in caplog.records)


async def test_finished_tasks_are_kept_as_long_as_the_retention_says() -> None:
    app = App(echo_agent(), retention=timedelta(days=1))
    async with running(app) as client:
        task = (await client.post("/", json=send("hello", message_id="m-1"))).json()["result"]["task"]
        assert (await client.get(f"/tasks/{task['id']}")).status_code == 200


async def test_a_task_of_0_1_is_read_in_0_1_without_being_told() -> None:
    """`tasks/get` is in three dialects; the task's own decides where no header does."""
    message = {"role": "user", "parts": [{"type": "text", "text": "hi"}]}
    old = {"jsonrpc": "2.0", "id": 1, "method": "tasks/send", "params": {"id": "mine", "message": message}}
    async with running(App(echo_agent())) as client:
        await client.post("/", json=old)
        read = {"jsonrpc": "2.0", "id": 2, "method": "tasks/get", "params": {"id": "mine"}}
        shown = (await client.post("/", json=read)).json()["result"]
        assert "sessionId" in shown
        newer = (await client.post("/", json=read, headers={"A2A-Version": "0.3"})).json()["result"]
        assert "contextId" in newer
        wrong = (await client.post("/", json={**read, "params": {"id": 5}})).json()["error"]
        assert wrong["code"] == -32602


async def test_a_client_that_leaves_in_the_middle_of_its_request_disturbs_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running(App(echo_agent())) as client:

        async def half() -> Any:
            yield b'{"jsonrpc":'
            raise httpx2.WriteError("gone")

        for path in ("/", "/message:send"):
            with pytest.raises(httpx2.WriteError):
                await client.post(path, content=half(), headers={"content-type": "application/json"})
        assert (await client.get("/healthz")).status_code == 200
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []
