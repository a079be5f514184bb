"""Who may notify a webhook: tokens and signatures made by libraries that are not ours, and what attackers send."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import time
from typing import Any

import jwt
import pytest
from msgspec import structs

from parley.client.client import Client
from parley.client.guard import Guard
from parley.client.webhooks import receiver
from parley.client.webhooks.key_sets import PAUSE_SECONDS, SenderKeys
from parley.client.webhooks.receiver import WebhookReceiver
from parley.client.webhooks.seen import MemorySeen
from parley.client.webhooks.standard_webhooks import new_secret
from parley.dialects.registry import DIALECTS
from parley.protocol.cards import AgentCapabilities, AgentCard, AgentExtension, AgentInterface, Binding
from parley.protocol.errors import LocalProtocolError, UnauthenticatedError, UnavailableError
from parley.protocol.extensions import WEBHOOK_AUTH
from parley.protocol.push import PushAuthentication, PushConfig
from parley.protocol.tasks import TaskState
from parley.protocol.versions import Version
from tests.client.scripted_agent import TASK, status
from tests.client.test_webhooks import Inbox, posted
from tests.client.webhook_sender import ISSUER, Key, KeyServer, bearer, claims, signed_headers
from tests.deadlines import fail_after
from tests.server.serving import serving

pytestmark = pytest.mark.anyio

HOOK = "https://me.example/hook?tenant=7"
AUDIENCE = "https://me.example/hook"
WORKING = DIALECTS[Version.V1_0].pushes.encode(status(TaskState.WORKING))
SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()
NOW = 1_800_000_000.0


def claimed(body: bytes = WORKING, **changed: Any) -> dict[str, Any]:
    return claims(body, **{"task": TASK, "audience": AUDIENCE, "now": NOW, **changed})


def jwt_receiver(inbox: Inbox, *keys: Key, **options: Any) -> WebhookReceiver:
    pinned = {key.id: key.jwk for key in keys}
    return WebhookReceiver.jwt(HOOK, inbox, issuer=ISSUER, keys=pinned, **{"now": lambda: NOW, **options})


def hmac_receiver(inbox: Inbox, **options: Any) -> WebhookReceiver:
    return WebhookReceiver.hmac(HOOK, inbox, **{"secret": SECRET, "now": lambda: NOW, **options})


# --- signed tokens ----------------------------------------------------------------------------------------------------


async def test_a_token_of_the_agents_key_is_accepted_and_names_the_delivery() -> None:
    inbox, key = Inbox(), Key("one")
    hook = jwt_receiver(inbox, key)
    assert hook.config == PushConfig(HOOK, authentication=PushAuthentication(("JWT",)))
    assert await posted(hook, bearer(key.sign(claimed())), WORKING) == 204
    assert await posted(hook, bearer(key.sign(claimed(iat=int(NOW) + 9))), WORKING) == 204  # another attempt
    assert [(got.event, got.number, got.id) for got in inbox.got] == [(status(TaskState.WORKING), 1, f"{TASK}:1")]


@pytest.mark.parametrize(
    "changed",
    [
        {"iss": "https://evil.example"},
        {"iss": None},
        {"aud": "https://other.example/hook"},
        {"aud": []},
        {"aud": None},
        {"iat": NOW - 361, "exp": NOW + 10_000},
        {"iat": NOW + 61},
        {"exp": NOW - 61},
        {"exp": None},
        {"exp": "tomorrow"},
        {"jti": ""},
        {"jti": None},
        {"taskId": None},
        {"request_body_sha256": hashlib.sha256(b"other").hexdigest()},
        {"request_body_sha256": None},
    ],
    ids=str,
)
async def test_a_token_that_was_not_made_for_this_request_is_refused(changed: dict[str, Any]) -> None:
    inbox, key = Inbox(), Key("one")
    assert await posted(jwt_receiver(inbox, key), bearer(key.sign(claimed(**changed))), WORKING) == 401
    assert inbox.got == []


@pytest.mark.parametrize(
    "changed",
    [{"aud": ["https://other.example", AUDIENCE]}, {"iat": NOW - 359, "exp": NOW + 1}, {"iat": NOW + 59}],
    ids=str,
)
async def test_clocks_may_differ_by_a_minute_and_a_token_may_have_several_audiences(changed: dict[str, Any]) -> None:
    key = Key("one")
    assert await posted(jwt_receiver(Inbox(), key), bearer(key.sign(claimed(**changed))), WORKING) == 204


@pytest.mark.parametrize("url", ["HTTPS://Me.example/hook?tenant=7", "https://me.example?tenant=7#top", HOOK])
async def test_the_audience_is_the_url_as_it_was_written_up_to_its_query(url: str) -> None:
    """As push.md has it: a sender does not know how a receiver would spell it."""
    key = Key("one")
    hook = WebhookReceiver.jwt(url, Inbox(), issuer=ISSUER, keys={key.id: key.jwk}, now=lambda: NOW)
    assert await posted(hook, bearer(key.sign(claimed(audience=url.partition("?")[0]))), WORKING) == 204


async def test_a_token_is_for_one_task_and_one_body() -> None:
    inbox, key = Inbox(), Key("one")
    hook = jwt_receiver(inbox, key)
    assert await posted(hook, bearer(key.sign(claimed(taskId="other", jti="unnumbered"))), WORKING) == 400
    assert await posted(hook, bearer(key.sign(claimed(jti="other:1"))), WORKING) == 400
    assert await posted(hook, bearer(key.sign(claimed())), WORKING + b" ") == 401
    assert inbox.got == []


def _joined(*parts: dict[str, Any] | bytes) -> str:
    texts = [part if isinstance(part, bytes) else json.dumps(part).encode() for part in parts]
    return ".".join(base64.urlsafe_b64encode(text).rstrip(b"=").decode() for text in texts)


async def test_the_key_decides_the_algorithm() -> None:
    """The attacks on JWT libraries: none, a public key as a shared secret, a key of the attacker's in the header."""
    inbox, key, own = Inbox(), Key("one"), Key("one")
    hook = jwt_receiver(inbox, key)
    unsigned = [_joined({"alg": alg, "kid": "one"}, claimed(), b"") for alg in ("none", "None", "NONE", "ES256")]
    signed_part = _joined({"alg": "HS256", "kid": "one"}, claimed())
    shared = []
    for secret in (key.public_pem, key.public_pem.strip(), json.dumps(key.jwk).encode()):
        signature = hmac.digest(secret, signed_part.encode(), "sha256")
        shared.append(f"{signed_part}.{_joined(signature)}")
    others = [
        own.sign(claimed()),
        own.sign(claimed(), jwk=own.jwk),
        own.sign(claimed(), jku="https://evil.example/keys"),
        key.sign(claimed(), crit=["b64"], b64=False),
        key.sign(claimed(), kid="two"),
        jwt.encode(claimed(), key.private, algorithm="ES256"),  # without a kid
        key.sign(claimed()) + "A",
        key.sign(claimed()).replace(".", ".e30.", 1),
        "",
        "..",
        "a.b",
        "x" * 100_000,
        "é.é.é",
    ]
    for token in unsigned + shared + others:
        assert await posted(hook, bearer(token), WORKING) == 401, token
    assert await posted(hook, {"authorization": f"Basic {key.sign(claimed())}"}, WORKING) == 401
    assert await posted(hook, {}, WORKING) == 401
    assert inbox.got == []


async def test_of_a_request_with_a_wrong_token_nothing_is_read() -> None:
    async def receive() -> Any:
        raise AssertionError

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    key = Key("one")
    headers = [(b"authorization", f"Bearer {key.sign(claimed(aud='other'))}".encode())]
    await jwt_receiver(Inbox(), key)({"type": "http", "method": "POST", "headers": headers}, receive, send)
    assert sent[0]["status"] == 401


async def test_the_keys_are_fetched_cached_and_fetched_again_when_they_are_replaced() -> None:
    now = [0.0]
    first, second = Key("one"), Key("two")
    server = KeyServer(first)
    keys = SenderKeys("https://agents.example/jwks", server.fetch, now=lambda: now[0])
    await keys.prepare("one")
    await keys.prepare("one")
    assert (list(keys.known), server.fetches) == (["one"], 1)
    server.keys = [first, second]
    with pytest.raises(UnavailableError):  # it is too early to tell
        await keys.prepare("two")
    now[0] += PAUSE_SECONDS
    await keys.prepare("two")
    assert (list(keys.known), server.fetches) == (["one", "two"], 2)
    server.keys = [second]
    now[0] += 601
    await keys.prepare("one")
    assert (list(keys.known), server.fetches) == (["two"], 3)


async def test_a_flood_of_unknown_keys_costs_one_fetch() -> None:
    server = KeyServer(Key("one"))
    keys = SenderKeys("https://agents.example/jwks", server.fetch, now=lambda: 0.0)
    outcomes = await asyncio.gather(*(keys.prepare(f"evil-{number}") for number in range(1_000)))
    assert (len(outcomes), server.fetches) == (1_000, 1)
    with pytest.raises(UnavailableError):
        await keys.prepare("evil")
    assert server.fetches == 1


async def test_a_key_set_that_cannot_be_fetched_is_not_asked_for_again_at_once() -> None:
    now = [0.0]
    server = KeyServer(Key("one"))
    failing = True

    async def fetch(url: str) -> bytes:
        if failing:
            server.fetches += 1
            raise UnavailableError("down")
        return await server.fetch(url)

    keys = SenderKeys("https://agents.example/jwks", fetch, now=lambda: now[0])
    for _ in range(3):
        with pytest.raises(UnavailableError):
            await keys.prepare("one")
    assert server.fetches == 1
    failing, now[0] = False, PAUSE_SECONDS
    await keys.prepare("one")
    assert list(keys.known) == ["one"]


async def test_keys_come_through_the_guard() -> None:
    """A key set on a private host is fetched if the program named it, and not if a card did."""
    key = Key("one")
    server, inbox = KeyServer(key), Inbox()
    async with serving(server.app) as http:
        url = f"{http.base_url}/jwks.json"
        named = WebhookReceiver.jwt(HOOK, inbox, issuer=ISSUER, jwks=url)
        token = key.sign(claims(WORKING, task=TASK, audience=AUDIENCE))
        assert await posted(named, bearer(token), WORKING) == 204
        assert (len(inbox.got), server.fetches) == (1, 1)
        server.status = 500
        broken = WebhookReceiver.jwt(HOOK, inbox, issuer=ISSUER, jwks=url)
        assert await posted(broken, bearer(token), WORKING) == 503
        async with Client(_card(["JWT", "HMAC"], jwks=url)) as client:
            proof = client.webhook_config(WebhookReceiver(HOOK, inbox)).authentication
            assert proof is not None
            assert proof.schemes == ("HMAC",)
        async with Client(_card(["JWT"], jwks=url), guard=Guard(allow_private=True)) as client:
            proof = client.webhook_config(WebhookReceiver(HOOK, inbox)).authentication
            assert proof == PushAuthentication(("JWT",))


# --- Standard Webhooks ------------------------------------------------------------------------------------------------


async def test_a_signature_of_the_published_library_is_accepted() -> None:
    inbox = Inbox()
    hook = hmac_receiver(inbox)
    assert hook.config == PushConfig(HOOK, authentication=PushAuthentication(("HMAC",), SECRET))
    headers = signed_headers(SECRET, body=WORKING, delivery_id=f"{TASK}:4", now=NOW)
    assert await posted(hook, headers, WORKING) == 204
    later = signed_headers(SECRET, body=WORKING, delivery_id=f"{TASK}:4", now=NOW + 60)
    assert await posted(hook, later, WORKING) == 204
    assert [(got.number, got.id) for got in inbox.got] == [(4, f"{TASK}:4")]


async def test_a_secret_is_replaced_without_a_gap() -> None:
    inbox, old, new = Inbox(), new_secret(), new_secret()
    hook = hmac_receiver(inbox, secret=[new, old])
    for number, secrets in enumerate([(old,), (old, new), (new,), (new_secret(), new)], 1):
        headers = signed_headers(*secrets, body=WORKING, delivery_id=f"{TASK}:{number}", now=NOW)
        assert await posted(hook, headers, WORKING) == 204
    both = signed_headers(new_secret(), new_secret(), body=WORKING, delivery_id=f"{TASK}:5", now=NOW)
    assert await posted(hook, both, WORKING) == 401
    assert len(inbox.got) == 4


@pytest.mark.parametrize(
    "changed",
    [
        {"webhook-id": f"{TASK}:5"},
        {"webhook-id": ""},
        {"webhook-id": "x" * 600},
        {"webhook-timestamp": str(int(NOW) + 1)},
        {"webhook-timestamp": ""},
        {"webhook-timestamp": "-1"},
        {"webhook-timestamp": "1e9"},
        {"webhook-timestamp": "9" * 4_000},
        {"webhook-signature": ""},
        {"webhook-signature": "v1,"},
        {"webhook-signature": "v1,!!!"},
        {"webhook-signature": "v1a," + "A" * 44},
        {"webhook-signature": "v1," + "A" * 43 + "="},
    ],
    ids=lambda changed: str(changed)[:60],
)
async def test_a_changed_header_is_refused(changed: dict[str, str]) -> None:
    inbox = Inbox()
    headers = {**signed_headers(SECRET, body=WORKING, delivery_id=f"{TASK}:4", now=NOW), **changed}
    assert await posted(hmac_receiver(inbox), headers, WORKING) == 401
    assert inbox.got == []


@pytest.mark.parametrize(("seconds", "answer"), [(-301, 401), (-299, 204), (299, 204), (301, 401)])
async def test_a_signature_is_valid_for_five_minutes(seconds: int, answer: int) -> None:
    headers = signed_headers(SECRET, body=WORKING, delivery_id="msg_1", now=NOW + seconds)
    assert await posted(hmac_receiver(Inbox()), headers, WORKING) == answer


async def test_a_changed_body_is_refused() -> None:
    headers = signed_headers(SECRET, body=WORKING, delivery_id="msg_1", now=NOW)
    assert await posted(hmac_receiver(Inbox()), headers, WORKING.replace(b"WORKING", b"FAILED")) == 401


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_!!!", "secret", "whsec_c2hvcnQ="])
async def test_a_weak_secret_is_refused(secret: str) -> None:
    with pytest.raises(LocalProtocolError, match="24 to 64 bytes"):
        WebhookReceiver.hmac(HOOK, Inbox(), secret=[SECRET, secret])


# --- credentials ------------------------------------------------------------------------------------------------------


async def test_credentials_are_checked_in_the_header_of_their_scheme() -> None:
    basic = WebhookReceiver.basic(HOOK, Inbox(), user="ada", password="love:lace")
    pair = base64.b64encode(b"ada:love:lace").decode()
    assert basic.read({"Authorization": f"Basic {pair}"}, WORKING).task_id == TASK
    token = WebhookReceiver.bearer(HOOK, Inbox(), credentials="t0p")
    assert token.read({"Authorization": "Bearer t0p"}, WORKING).task_id == TASK
    key = WebhookReceiver.api_key(HOOK, Inbox(), key="k3y")
    assert key.read({"X-API-Key": "k3y"}, WORKING).task_id == TASK
    assert key.read({"Authorization": "ApiKey k3y"}, WORKING).task_id == TASK  # as servers sent it before
    wrong: list[tuple[WebhookReceiver, dict[str, str]]] = [
        (basic, {"Authorization": f"Bearer {pair}"}),
        (token, {"X-API-Key": "t0p"}),
        (token, {"Authorization": "Bearer t0"}),
        (key, {"X-API-Key": "k3y2"}),
        (key, {"Authorization": "Bearer k3y"}),
        (key, {}),
    ]
    for hook, headers in wrong:
        with pytest.raises(UnauthenticatedError):
            hook.read(headers, WORKING)


async def test_a_secret_that_comes_twice_is_none() -> None:
    hook = WebhookReceiver(PushConfig(HOOK, token="secret"), Inbox())
    pairs = [("X-A2A-Notification-Token", "secret"), ("x-a2a-notification-token", "guess")]
    assert (await hook.answer("POST", "/hook", pairs, WORKING)).status == 401
    assert (await hook.answer("POST", "/hook", pairs[:1], WORKING)).status == 204


# --- repeats ----------------------------------------------------------------------------------------------------------


async def test_a_thousand_concurrent_repeats_are_handled_once() -> None:
    inbox = Inbox()
    hook = hmac_receiver(inbox)
    headers = signed_headers(SECRET, body=WORKING, delivery_id="msg_1", now=NOW)
    inbox.may_go_on.clear()
    with fail_after(30):
        asking = [asyncio.create_task(posted(hook, headers, WORKING)) for _ in range(1_000)]
        await asyncio.sleep(0)
        inbox.may_go_on.set()
        assert await asyncio.gather(*asking) == [204] * 1_000
    assert len(inbox.got) == 1


async def test_an_id_that_comes_again_with_another_body_is_refused() -> None:
    inbox = Inbox()
    hook = hmac_receiver(inbox)
    other = DIALECTS[Version.V1_0].pushes.encode(status(TaskState.COMPLETED))
    for delivery_id in ("msg_1", f"{TASK}:7"):
        first = signed_headers(SECRET, body=WORKING, delivery_id=delivery_id, now=NOW)
        second = signed_headers(SECRET, body=other, delivery_id=delivery_id, now=NOW)
        assert [await posted(hook, first, WORKING), await posted(hook, second, other)] == [204, 409]
    assert [got.id for got in inbox.got] == ["msg_1", f"{TASK}:7"]


# --- both ends --------------------------------------------------------------------------------------------------------


def _card(schemes: list[str], *, jwks: str | None = None, issuer: str | None = ISSUER, url: str = ISSUER) -> AgentCard:
    params = {"schemes": list[Any](schemes), "jwks": jwks, "issuer": issuer}
    extension = AgentExtension(WEBHOOK_AUTH, params={name: value for name, value in params.items() if value})
    interface = AgentInterface(url, Binding.JSONRPC, Version.V1_0)
    return AgentCard("A", "", "1", (interface,), capabilities=AgentCapabilities(extensions=(extension,)))


async def _registered(hook: WebhookReceiver, card: AgentCard) -> PushConfig:
    async with Client(card) as client:
        return client.webhook_config(hook)


JWKS = "https://agents.example/currency/.well-known/jwks.json"


@pytest.mark.parametrize(
    ("card", "scheme"),
    [
        (_card(["HMAC", "jwt", "OAuth2"], jwks=JWKS), "JWT"),
        (_card(["HMAC", "JWT"]), "HMAC"),
        (_card(["HMAC", "JWT"], jwks=JWKS, issuer=None), "HMAC"),
        (_card(["HMAC", "JWT"], jwks="http://10.0.0.1/jwks"), "HMAC"),
        (_card(["JWT"]), None),
        (_card(["OAuth2"]), None),
        (AgentCard("A", "", "1", (AgentInterface(ISSUER, Binding.JSONRPC, Version.V1_0),)), None),
    ],
)
async def test_the_strongest_proof_that_both_support_is_registered(card: AgentCard, scheme: str | None) -> None:
    config = await _registered(WebhookReceiver(HOOK, Inbox()), card)
    assert (config.authentication.schemes[0] if config.authentication else None) == scheme
    assert (config.url, len(config.token or "")) == (HOOK, 43)


async def test_a_receiver_that_demands_a_proof_does_not_settle_for_less() -> None:
    demanding = hmac_receiver(Inbox())
    with pytest.raises(LocalProtocolError, match="does not offer HMAC"):
        await _registered(demanding, _card(["JWT"], jwks=JWKS))
    assert await _registered(demanding, _card(["HMAC"])) == demanding.config
    fixed = WebhookReceiver(PushConfig(HOOK, token="secret"), Inbox())
    assert await _registered(fixed, _card(["HMAC"])) == fixed.config
    with pytest.raises(LocalProtocolError, match=r"WebhookReceiver\.jwt"):
        WebhookReceiver(PushConfig(HOOK, authentication=PushAuthentication(("JWT",))), Inbox())


async def test_each_agent_has_secrets_of_its_own() -> None:
    """A token that one agent knows does not make a notification of another one acceptable."""
    inbox = Inbox()
    hook = WebhookReceiver(HOOK, inbox)
    strong, weak = _card(["HMAC"]), _card([], url="https://other.example")
    signed, plain = await _registered(hook, strong), await _registered(hook, weak)
    assert len({signed.token, plain.token, hook.config.token}) == 3
    assert await _registered(hook, strong) == signed  # again the same
    assert await posted(hook, {"x-a2a-notification-token": plain.token or ""}, WORKING) == 204
    assert await posted(hook, {"x-a2a-notification-token": signed.token or ""}, WORKING) == 401
    assert signed.authentication is not None
    secret = signed.authentication.credentials or ""
    headers = signed_headers(secret, body=WORKING, delivery_id="msg_1", now=time.time())
    assert await posted(hook, headers, WORKING) == 401
    assert await posted(hook, {**headers, "x-a2a-notification-token": signed.token or ""}, WORKING) == 204
    assert len(inbox.got) == 2


async def test_an_agent_whose_card_names_another_agent_first_gets_no_secrets_of_that_one() -> None:
    """The client calls the newest interface, so the first one may be of an agent that is never called."""
    inbox = Inbox()
    hook = WebhookReceiver(HOOK, inbox)
    honest = _card(["HMAC"])
    theirs = structs.replace(honest.interfaces[0], version=Version.V0_3)
    own = AgentInterface("https://evil.example", Binding.JSONRPC, Version.V1_0)
    secret = await _registered(hook, honest)
    async with Client(structs.replace(honest, interfaces=(theirs, own))) as client:
        assert client.interface == own
        given = client.webhook_config(hook)
    assert given.token != secret.token
    assert given.authentication != secret.authentication


async def test_a_notification_says_which_agent_sent_it() -> None:
    """One agent that knows a task of another one can notify of it, but not in the name of that agent."""
    inbox = Inbox()
    hook = WebhookReceiver(HOOK, inbox)
    one = await _registered(hook, _card([], url="https://one.example"))
    other = await _registered(hook, _card([], url="https://other.example"))
    for config in (one, other):
        assert await posted(hook, {"x-a2a-notification-token": config.token or ""}, WORKING) == 204
    assert [got.agent for got in inbox.got] == ["https://one.example", "https://other.example"]
    assert hook.read({"x-a2a-notification-token": one.token or ""}, WORKING).agent == "https://one.example"
    assert hook.read({"x-a2a-notification-token": hook.config.token or ""}, WORKING).agent is None


async def _no_keys(url: str) -> bytes:
    raise AssertionError


def _token_for(hook: WebhookReceiver, agent: str, card: str) -> str:
    return hook.register(agent, _card([], url=card), _no_keys, lambda url: False).token or ""


async def _accepted(hook: WebhookReceiver, tokens: list[str]) -> list[bool]:
    return [await posted(hook, {"x-a2a-notification-token": token}, WORKING) == 204 for token in tokens]


async def test_an_agent_whose_card_differs_each_time_takes_the_room_of_no_other() -> None:
    hook, evil = WebhookReceiver(HOOK, Inbox()), "https://evil.example"
    before = _token_for(hook, "https://one.example", "https://one.example")
    first = _token_for(hook, evil, f"{evil}/first")
    given: list[str] = []
    for number in range(receiver.MAX_AGENTS):
        given.append(_token_for(hook, evil, f"{evil}/{number}"))
        assert _token_for(hook, evil, f"{evil}/first") == first  # what is used again is kept
    after = _token_for(hook, "https://other.example", "https://other.example")
    assert await _accepted(hook, [before, after, first]) == [True] * 3
    assert await _accepted(hook, given[-9:]) == [False] * 2 + [True] * 7


async def test_a_new_agent_takes_the_room_of_the_agent_with_the_most_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiver, "MAX_AGENTS", 3)
    hook, one, two, three = WebhookReceiver(HOOK, Inbox()), *(f"https://{name}.example" for name in "abc")
    tokens = [_token_for(hook, one, one), _token_for(hook, two, two), _token_for(hook, two, f"{two}/new")]
    tokens.append(_token_for(hook, three, three))
    assert await _accepted(hook, tokens) == [True, False, True, True]
    with pytest.raises(LocalProtocolError, match="3 agents"):
        _token_for(hook, "https://d.example", "https://d.example")
    tokens.append(_token_for(hook, three, f"{three}/new"))
    assert await _accepted(hook, tokens) == [True, False, True, False, True]


async def test_the_ids_of_an_agents_old_card_make_room_for_others() -> None:
    inbox, agent = Inbox(), "https://one.example"
    hook = WebhookReceiver(HOOK, inbox, seen=MemorySeen(max_ids=4))

    async def status(token: str, number: int) -> int:
        headers = {"x-a2a-notification-token": token, "parley-event-id": f"evt_{number}"}
        return await posted(hook, headers, WORKING)

    old = _token_for(hook, agent, agent)
    assert [await status(old, number) for number in range(2)] == [204] * 2
    tokens = [_token_for(hook, agent, f"{agent}/{number}") for number in range(8)]
    assert await status(old, 2) == 401
    assert [await status(tokens[0], number) for number in [*range(4)] * 2] == [204] * 8
    assert len(inbox.got) == 6


async def test_a_message_has_one_webhook() -> None:
    hook = WebhookReceiver(HOOK, Inbox())
    async with Client(_card([])) as client:
        with pytest.raises(LocalProtocolError, match="either `push` or `notify`"):
            await client.send("hi", push=hook.config, notify=hook)
