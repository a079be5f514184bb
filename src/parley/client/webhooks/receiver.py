"""Receives push notifications of agents: verifies the sender, decodes every dialect, and drops repeats.

    receiver = WebhookReceiver("https://me.example/hook", handle)
    app = Starlette(routes=[Route("/hook", receiver, methods=["GET", "POST"])])
    await client.send("100 USD", notify=receiver)

It is an ASGI application; programs with a web server of their own call `answer` with each request. The headers must
prove the sender before its body is read, and the body before it is parsed. A delivery with an id is handled once, also
if its repeats come at the same time; one without is handled each time. A request succeeds once it has been handled;
after a failure the agent sends it again. Spec: 1.0 section 4.3.3, 0.3 section 9.5.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import time
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from secrets import token_urlsafe
from typing import TYPE_CHECKING, NamedTuple, Self, TypeAlias, TypedDict, Unpack, cast
from weakref import WeakValueDictionary

import msgspec

from parley.client.options import Bounds
from parley.client.webhooks.blocking import LoopThread
from parley.client.webhooks.challenge import HEADERS as CHALLENGE_HEADERS
from parley.client.webhooks.challenge import challenge_token, is_challenge
from parley.client.webhooks.held_bodies import AgentBodies, Hold, TooManyBodiesError, UnverifiedBodies, most_held
from parley.client.webhooks.key_sets import PAUSE_SECONDS, FetchKeys, GuardedFetch, SenderKeys
from parley.client.webhooks.notification import Handler, PushNotification, decode_event, describe_delivery
from parley.client.webhooks.offers import HMAC, JWT, webhook_offer
from parley.client.webhooks.proofs import BodyCheck, Evidence, Headers, Secrets, SenderProof
from parley.client.webhooks.seen import Delivery, DeliveryVerdict, MemorySeen, SeenDeliveries
from parley.client.webhooks.signed_tokens import SignedTokens
from parley.client.webhooks.standard_webhooks import StandardWebhooks, new_secret
from parley.protocol.cards import AgentCard
from parley.protocol.errors import (
    LocalProtocolError,
    PeerProtocolError,
    SignatureInvalidError,
    UnauthenticatedError,
    UnavailableError,
)
from parley.protocol.push import PushAuthentication, PushConfig
from parley.protocol.signing import load_key

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from parley.client.guard import Guard
    from parley.client.transports.connections import Tls

BODY_SECONDS = 30.0
"""How long the body of a request may take: twice as long as a Parley server waits for the answer."""

MAX_AGENTS = 1_000
"""Registrations of one receiver. Each agent keeps one of them; the rest goes to agents whose cards differ."""

MAX_CARDS = 8
"""Registrations of one agent, whose card may name other interfaces or keys after an update, or at another replica."""

_VERIFIED_ELSEWHERE = frozenset({"OAUTH2", "MTLS"})
"""Schemes of which the config has nothing to compare: an authorization server or the TLS connection proves the sender.
With the token alone, everyone who learns it could call."""

_AFTER_PATH = re.compile(r"[?#]")

_log = logging.getLogger(__name__)


RequestHeaders: TypeAlias = Mapping[str, str] | Iterable[tuple[str, str]]
"""The headers of a request as a web framework has them."""


class ReceiverOptions(TypedDict, total=False):
    """What all kinds of receivers take."""

    max_bytes: int | None
    body_seconds: float
    seen: SeenDeliveries | None
    now: Callable[[], float]


class WebhookAnswer(NamedTuple):
    """The answer to a request, for any web framework."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class RepeatConflictError(PeerProtocolError):
    """A notification came again under the same id with another body."""


class _TooLongError(Exception):
    """A body is longer than allowed."""


class _TooSlowError(Exception):
    """A body did not arrive in time."""


@dataclass(frozen=True, slots=True)
class _Registration:
    """A config that an agent has, and what its requests must prove. `source` keeps the ids of agents apart."""

    source: str
    config: PushConfig
    proof: SenderProof
    bodies: AgentBodies
    agent: str | None = None
    """The URL of the agent, as the program has given it to its client."""

    @property
    def is_known_by_headers(self) -> bool:
        """Whether accepted headers prove the sender: those with a signature of the body do not."""
        if isinstance(self.proof, StandardWebhooks):
            return self.proof.has_token
        return isinstance(self.proof, Secrets | SignedTokens)  # a proof of the program may need the body


@dataclass(frozen=True, slots=True)
class _KnownAgent:
    """The registrations of one agent, the one that was asked for last at the end, and the memory that they share."""

    bodies: AgentBodies
    sources: OrderedDict[str, None] = field(default_factory=OrderedDict[str, None])


class WebhookReceiver:
    """A webhook. `WebhookReceiver(url, handle)` makes the secrets itself, for each agent that is told to notify it.

    `client.send(…, notify=receiver)` uses the strongest proof that the agent offers: a signed token, a signature, or
    else a random token. With a config instead of the URL, exactly that config is used, and so it is with `hmac`, `jwt`,
    `bearer`, `basic` and `api_key`, which make one. `config` is for agents that are told in other ways.
    """

    def __init__(
        self,
        config: PushConfig | str,
        handle: Handler,
        *,
        max_bytes: int | None = None,
        body_seconds: float = BODY_SECONDS,
        seen: SeenDeliveries | None = None,
        now: Callable[[], float] = time.time,
        proof: SenderProof | None = None,
    ) -> None:
        """`seen` remembers what was handled, by default in memory; `proof` is by default what the config demands.

        Raises:
            LocalProtocolError: the config has no secret, or an invalid one, or a scheme that only a `proof` can verify.
        """
        self._is_negotiable = isinstance(config, str)
        self.config = PushConfig(config, token=token_urlsafe(32)) if isinstance(config, str) else config
        self._handle = handle
        self._max_bytes = Bounds().reply_bytes if max_bytes is None else max_bytes
        self._body_seconds = body_seconds
        self._seen = seen if seen is not None else MemorySeen()
        self._now = now
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        self._blocking = LoopThread()
        self._unverified = UnverifiedBodies(most_held(self._max_bytes))
        bodies = AgentBodies(most_held(self._max_bytes))
        self._registrations = {"": _Registration("", self.config, proof or _proof_of(self.config, now), bodies)}
        self._agents: dict[str, _KnownAgent] = {}

    # --- kinds of receivers -------------------------------------------------------------------------------------------

    @classmethod
    def hmac(
        cls,
        url: str,
        handle: Handler,
        *,
        secret: str | Sequence[str] | None = None,
        token: str | None = None,
        **options: Unpack[ReceiverOptions],
    ) -> Self:
        """A receiver of signed notifications (Standard Webhooks).

        The first secret is given to agents, and all are accepted, so that a secret can be replaced. Without one, a
        random one is made, and tasks that outlive the process cannot notify it any more.

        Raises:
            LocalProtocolError: a secret is not `whsec_` and 24 to 64 bytes in base64.
        """
        secrets = [secret] if isinstance(secret, str) else list(secret or [new_secret()])
        proof = StandardWebhooks(secrets, token=token, now=options.get("now", time.time))
        return cls(_config(url, HMAC, secrets[0], token), handle, proof=proof, **options)

    @classmethod
    def jwt(
        cls,
        url: str,
        handle: Handler,
        *,
        issuer: str,
        jwks: str | None = None,
        keys: Mapping[str, Mapping[str, object] | str | bytes] | None = None,
        audience: str | None = None,
        token: str | None = None,
        guard: Guard | None = None,
        tls: Tls | None = None,
        **options: Unpack[ReceiverOptions],
    ) -> Self:
        """A receiver of notifications with a token that the agent signs.

        `jwks` is the URL of the agent's keys, by default `/.well-known/jwks.json` below the issuer; `keys` are pinned
        ones by id instead. `audience` is by default the webhook's URL without its query.

        Raises:
            LocalProtocolError: a key is invalid.
        """
        from parley.client.transports.connections import Connections

        config = _config(url, JWT, audience, token)
        if keys is not None:
            sender = SenderKeys(None, None, pinned={key_id: load_key(key) for key_id, key in keys.items()})
        else:
            jwks = jwks or f"{issuer.rstrip('/')}/.well-known/jwks.json"
            sender = SenderKeys(jwks, GuardedFetch(partial(Connections, guard=guard, tls=tls), named=jwks))
        proof = _signed_tokens(sender, issuer, config, options.get("now", time.time))
        return cls(config, handle, proof=proof, **options)

    @classmethod
    def bearer(
        cls, url: str, handle: Handler, *, credentials: str | None = None, **options: Unpack[ReceiverOptions]
    ) -> Self:
        """A receiver of notifications with a bearer token, by default a random one."""
        return cls(_config(url, "Bearer", credentials or token_urlsafe(32)), handle, **options)

    @classmethod
    def basic(cls, url: str, handle: Handler, *, user: str, password: str, **options: Unpack[ReceiverOptions]) -> Self:
        """A receiver of notifications with a user name and a password."""
        pair = b64encode(f"{user}:{password}".encode()).decode()
        return cls(_config(url, "Basic", pair), handle, **options)

    @classmethod
    def api_key(cls, url: str, handle: Handler, *, key: str | None = None, **options: Unpack[ReceiverOptions]) -> Self:
        """A receiver of notifications with an API key in `X-API-Key`, by default a random one."""
        return cls(_config(url, "ApiKey", key or token_urlsafe(32)), handle, **options)

    # --- agents that notify it ----------------------------------------------------------------------------------------

    def register(self, agent: str, card: AgentCard, fetch: FetchKeys, may_fetch: Callable[[str], bool]) -> PushConfig:
        """The config for the agent at a URL; `Client.webhook_config` calls this. `fetch` gets the agent's keys.

        Each agent has secrets of its own, so that a proof is accepted from the agent that offered it only. An agent
        whose card differs each time keeps the last eight.

        Raises:
            LocalProtocolError: the agent does not offer the proof that this receiver demands, or there are too many.
        """
        offer = webhook_offer(card)
        if not self._is_negotiable:
            scheme = _scheme_of(self.config)
            if scheme in (JWT, HMAC) and not offer.has(scheme):
                raise LocalProtocolError(f"The agent does not offer {scheme} to webhooks, which this receiver demands")
            return self.config
        scheme = offer.strongest(may_fetch)
        # All interfaces, because a card that also names one of another agent must not get the secrets of that.
        called = [(interface.url, interface.tenant) for interface in card.interfaces]
        about = msgspec.json.encode((agent, called, scheme, offer.jwks, offer.issuer))
        source = hashlib.sha256(about).hexdigest()  # a card may list any number of them
        known = self._registrations.get(source)
        if known is not None:
            self._agents[agent].sources.move_to_end(source)
            return known.config
        self._make_room(agent)
        config = PushConfig(self.config.url, token=token_urlsafe(32))
        proof = Secrets(config)
        if scheme == JWT and offer.jwks and offer.issuer:
            config = _config(self.config.url, JWT, None, config.token)
            proof = _signed_tokens(SenderKeys(offer.jwks, fetch), offer.issuer, config, self._now)
        elif scheme == HMAC:
            config = _config(self.config.url, HMAC, secret := new_secret(), config.token)
            proof = StandardWebhooks([secret], token=config.token, now=self._now)
        known_agent = self._agents.setdefault(agent, _KnownAgent(AgentBodies(most_held(self._max_bytes))))
        known_agent.sources[source] = None
        self._registrations[source] = _Registration(source, config, proof, known_agent.bodies, agent)
        return config

    def _make_room(self, agent: str) -> None:
        """Drop the oldest registration of an agent that has too many: of this one, or of the one with the most."""
        counts = {other: len(known.sources) for other, known in self._agents.items()}
        counts[agent] = counts.get(agent, 0) + 1
        largest = agent if counts[agent] > MAX_CARDS else max(counts, key=counts.__getitem__)
        if counts[largest] <= MAX_CARDS and len(self._registrations) <= MAX_AGENTS:
            return
        if counts[largest] == 1:
            raise LocalProtocolError(f"A receiver can be notified by {MAX_AGENTS} agents: use another")
        dropped, _ = self._agents[largest].sources.popitem(last=False)
        del self._registrations[dropped]
        if isinstance(self._seen, MemorySeen):  # others forget by age
            self._seen.forget(dropped)

    # --- one request --------------------------------------------------------------------------------------------------

    def read(self, headers: Mapping[str, str], body: bytes) -> PushNotification:
        """The notification in a request, with keys that were fetched before.

        Raises:
            UnauthenticatedError: the sender does not prove who it is.
            PeerProtocolError: the body is not valid A2A.
        """
        refusal: UnauthenticatedError | None = None
        for registration in tuple(self._registrations.values()):
            try:
                evidence = registration.proof.check(_lower(headers.items()))(body)
                return _decoded(registration, evidence, body)
            except UnauthenticatedError as error:
                refusal = refusal or error
        assert refusal is not None, "A receiver has a registration"
        raise refusal

    async def receive(self, headers: Mapping[str, str], body: bytes) -> bool:
        """Handle the notification in a request; False for a repeat.

        Raises:
            UnauthenticatedError: the sender does not prove who it is.
            UnavailableError: the sender's keys cannot be fetched now.
            RepeatConflictError: the id belongs to an earlier notification with another body.
            PeerProtocolError: the body is not valid A2A.
            Exception: whatever the handler raises.
        """
        registration, check_body = await self._authenticate(_lower(headers.items()))
        return await self._accept(registration, check_body(body), body)

    async def answer(self, method: str, url: str, headers: RequestHeaders, body: bytes) -> WebhookAnswer:
        """Answer a request of any web framework. `url` may be the whole URL, its path and query, or its query."""
        pairs = cast(Mapping[str, str], headers).items() if isinstance(headers, Mapping) else headers

        async def read_body(hold: Hold) -> bytes:
            if len(body) > self._max_bytes:
                raise _TooLongError
            hold(len(body))
            return body

        return await self._answer(method.upper(), url, _lower(pairs), read_body)

    def answer_blocking(self, method: str, url: str, headers: RequestHeaders, body: bytes) -> WebhookAnswer:
        """The same for a thread without an event loop, as in WSGI. The handler runs in a thread of the receiver."""
        return self._blocking.run(self.answer(method, url, headers, body))

    def close(self) -> None:
        """End the thread of `answer_blocking`, if it was used."""
        self._blocking.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as an ASGI application."""
        if scope["type"] != "http":
            return
        headers = _lower((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"])
        query = scope.get("query_string", b"").decode("latin-1")
        answer = await self._answer(
            scope["method"], f"?{query}", headers, lambda hold: self._body(headers, receive, hold)
        )
        fields = {**answer.headers, "content-length": str(len(answer.body))}
        pairs = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields.items()]
        await send({"type": "http.response.start", "status": answer.status, "headers": pairs})
        await send({"type": "http.response.body", "body": answer.body})

    async def _answer(
        self, method: str, url: str, headers: Headers, read_body: Callable[[Hold], Awaitable[bytes]]
    ) -> WebhookAnswer:
        if method == "GET" and is_challenge(url):
            token = challenge_token(url)
            return _status(HTTPStatus.BAD_REQUEST) if token is None else _echo(token)
        if method != "POST":
            return _status(HTTPStatus.METHOD_NOT_ALLOWED, {"allow": "GET, POST"})
        try:
            registration, check_body = await self._authenticate(headers)
            with registration.bodies.request() as hold:
                if registration.is_known_by_headers:
                    body = await read_body(hold)
                    evidence = check_body(body)
                else:
                    async with self._unverified.request() as hold_unverified:
                        body = await read_body(hold_unverified)
                        evidence = check_body(body)
                    hold(len(body))
                await self._accept(registration, evidence, body)
        except UnauthenticatedError as error:
            _log.info("A notification is refused: %s", error)
            return _status(HTTPStatus.UNAUTHORIZED)
        except UnavailableError as error:
            _log.warning("A notification cannot be verified: %s", error)
            return _status(HTTPStatus.SERVICE_UNAVAILABLE, {"retry-after": f"{PAUSE_SECONDS:.0f}"})
        except _TooLongError:
            return _status(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        except _TooSlowError:
            return _status(HTTPStatus.REQUEST_TIMEOUT)
        except TooManyBodiesError:
            _log.warning("A notification is refused: too many long ones are here at once")
            return _status(HTTPStatus.SERVICE_UNAVAILABLE, {"retry-after": f"{PAUSE_SECONDS:.0f}"})
        except RepeatConflictError as error:
            _log.warning("A notification is refused: %s", error)
            return _status(HTTPStatus.CONFLICT)
        except PeerProtocolError as error:
            _log.warning("Invalid notification: %s", error)
            return _status(HTTPStatus.BAD_REQUEST)
        except Exception:  # a request ends here, whatever the handler raises
            _log.exception("A notification could not be handled")
            return _status(HTTPStatus.INTERNAL_SERVER_ERROR)
        return _status(HTTPStatus.NO_CONTENT)

    async def _authenticate(self, headers: Headers) -> tuple[_Registration, BodyCheck]:
        """The registration whose proof the headers have, and the check of the body."""
        refusal: UnauthenticatedError | UnavailableError | None = None
        for registration in tuple(self._registrations.values()):
            try:
                await registration.proof.prepare(headers)
                return registration, registration.proof.check(headers)
            except UnavailableError as error:
                refusal = error
            except UnauthenticatedError as error:
                refusal = refusal or error
        assert refusal is not None, "A receiver has a registration"
        raise refusal

    async def _accept(self, registration: _Registration, evidence: Evidence, body: bytes) -> bool:
        """Hand a notification over, unless it came before."""
        notification = _decoded(registration, evidence, body)
        if notification.id is None:
            await self._handle(notification)
            return True
        digest = hashlib.sha256(body).digest()
        task_id, number = notification.task_id, notification.number
        delivery = Delivery(registration.source, notification.id, digest, task_id, number)
        lock = self._locks.setdefault(delivery.stream, asyncio.Lock())
        async with lock:  # the agent may time out, and send the same event again while it is being handled
            match await self._seen.judge(delivery):
                case DeliveryVerdict.REPEAT:
                    return False
                case DeliveryVerdict.CONFLICT:
                    raise RepeatConflictError
                case DeliveryVerdict.NEW:
                    await self._handle(notification)
                    await self._seen.add(delivery)
                    return True

    async def _body(self, headers: Headers, receive: Receive, hold: Hold) -> bytes:
        announced = headers.get("content-length", "")
        if announced.isascii() and announced.isdigit() and (len(announced) > 18 or int(announced) > self._max_bytes):
            raise _TooLongError
        body = bytearray()
        has_more = True
        try:
            async with asyncio.timeout(self._body_seconds):
                while has_more:
                    message = await receive()  # a disconnect ends the body, which is then invalid
                    piece = message.get("body", b"")
                    hold(len(piece))
                    body += piece
                    if len(body) > self._max_bytes:
                        raise _TooLongError
                    has_more = message.get("more_body", False)
        except TimeoutError:
            raise _TooSlowError from None
        return bytes(body)


def _decoded(registration: _Registration, evidence: Evidence, body: bytes) -> PushNotification:
    notification = describe_delivery(decode_event(body), evidence.delivery_id, agent=registration.agent)
    if evidence.task_id is not None and evidence.task_id != notification.task_id:
        raise SignatureInvalidError("The token was signed for another task")
    return notification


def _proof_of(config: PushConfig, now: Callable[[], float]) -> SenderProof:
    """What a config demands: its credentials belong to the first scheme that takes any, as at Parley's servers."""
    authentication = config.authentication or PushAuthentication(())
    names, credentials = authentication.schemes, authentication.credentials or ""
    elsewhere = [name for name in names if name.upper() in _VERIFIED_ELSEWHERE]
    if elsewhere and not credentials:
        raise LocalProtocolError(
            f"A webhook's config cannot verify {elsewhere[0]}: use WebhookReceiver.jwt(…) or .hmac(…), or pass what "
            "verifies its requests as proof=…"
        )
    scheme = next((name.upper() for name in names if name not in elsewhere), "")
    if scheme == JWT:
        raise LocalProtocolError("Signed tokens need the sender's keys: use WebhookReceiver.jwt(…)")
    if scheme == HMAC:
        return StandardWebhooks([credentials], token=config.token, now=now)
    secrets = Secrets(config)
    if secrets.is_empty:
        raise LocalProtocolError("A webhook needs a token or credentials; otherwise any sender could call it")
    return secrets


def _scheme_of(config: PushConfig) -> str:
    proof = config.authentication
    return proof.schemes[0].upper() if proof is not None and proof.schemes else ""


def _signed_tokens(keys: SenderKeys, issuer: str, config: PushConfig, now: Callable[[], float]) -> SignedTokens:
    asked = config.authentication.credentials if config.authentication is not None else None
    audience = asked or _without_query(config.url)
    return SignedTokens(keys, issuer=issuer, audience=audience, token=config.token, now=now)


def _config(url: str, scheme: str, credentials: str | None, token: str | None = None) -> PushConfig:
    return PushConfig(url, token=token, authentication=PushAuthentication((scheme,), credentials))


def _without_query(url: str) -> str:
    # As it was written: a URL that is taken apart and put together again may be spelt differently.
    return _AFTER_PATH.split(url, maxsplit=1)[0]


def _lower(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Headers by their names in lower case; those that occur twice are joined, and so match no secret."""
    headers: dict[str, str] = {}
    for name, value in pairs:
        name = name.lower()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _status(status: HTTPStatus, headers: Mapping[str, str] | None = None) -> WebhookAnswer:
    return WebhookAnswer(status.value, headers or {}, b"")


def _echo(token: str) -> WebhookAnswer:
    return WebhookAnswer(HTTPStatus.OK.value, CHALLENGE_HEADERS, token.encode())
