"""Every dialect and binding registers every scheme: with a message and for a task, and the webhook is called as asked.

The table of operations says where webhooks can be registered; the caller is that of the conformance tests.
"""

import base64
import hashlib
import hmac
import socket
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import jwt
import pytest
import trustme

from parley.dialects.registry import DIALECTS
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.cards import AgentCard, AgentExtension, Binding
from parley.protocol.errors import InvalidParamsError
from parley.protocol.extensions import WEBHOOK_AUTH
from parley.protocol.push import PushAuthentication, PushConfig
from parley.protocol.versions import Version
from parley.server.app import App
from parley.server.bindings.grpc import GrpcServer
from parley.server.listener.listener import Listener
from parley.server.security.authentication import Security
from parley.server.security.schemes.stored_secrets import StoredSecret, hash_secret
from parley.server.security.schemes.tokens import BearerTokens
from parley.server.webhooks.auth_file import parse_webhook_auth
from parley.server.webhooks.guard import WebhookPolicy
from tests.conformance.matrix import GRPC, PLACES, REST, V0_3, V1_0
from tests.conformance.peer import Peer
from tests.conformance.serve import ALICE, conformance_agent, secured_agent
from tests.deadlines import fail_after
from tests.server.authorization_server import CLIENT, AuthorizationServer, authorization_server
from tests.server.webhook_receiver import KeySigner, Request, Webhook, webhook

pytestmark = pytest.mark.anyio

SECRET = bytes(range(32))
HMAC = f"whsec_{base64.b64encode(SECRET).decode()}"


@dataclass
class Scene:
    """A server with everything configured, a webhook over http and one over https."""

    app: App
    places: dict[str, dict[str, str]]
    signer: KeySigner
    issuer: AuthorizationServer
    plain: Webhook
    encrypted: Webhook

    @property
    def url(self) -> str:
        return self.places["memory/open"]["url"]

    def receiver(self, scheme: str) -> tuple[Webhook, str]:
        if scheme == "mTLS":
            return self.encrypted, self.encrypted.url(f"/{scheme}", "https")
        return self.plain, self.plain.url(f"/{scheme}")


async def serve(app: App, stack: AsyncExitStack) -> dict[str, dict[str, str]]:
    """Serve an app on both ports; how a `Peer` is told of it."""
    bound = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{bound.getsockname()[1]}"
    app.describe_replica("one", url)
    await stack.enter_async_context(app.running())
    listener, grpc_server = Listener(app), GrpcServer(app, http_url=url)
    await listener.start([bound])
    stack.push_async_callback(listener.close, grace=0.1)
    port = await grpc_server.start("127.0.0.1", 0)
    stack.push_async_callback(grpc_server.stop)
    return {"memory/open": {"url": url, "grpc": f"127.0.0.1:{port}"}}


def write_certificates(directory: Path, authority: trustme.CA) -> ssl.SSLContext:
    """The client's files; the context of a webhook that demands its certificate."""
    issued = authority.issue_cert("parley@example.com", common_name="parley")
    issued.private_key_and_cert_chain_pem.write_to_path(directory / "client.pem")
    authority.cert_pem.write_to_path(directory / "ca.pem")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncGenerator[Scene]:
    tls = write_certificates(tmp_path, trustme.CA())
    async with AsyncExitStack() as stack:
        stack.enter_context(fail_after(15))
        issuer = await stack.enter_async_context(authorization_server())
        plain = await stack.enter_async_context(webhook())
        encrypted = await stack.enter_async_context(webhook(tls=tls))
        settings = parse_webhook_auth(
            f"""
            [[oauth2]]
            hosts = ["127.0.0.1:{plain.port}"]
            token_url = "{issuer.url}/token"
            client_id = "{CLIENT[0]}"
            client_secret = "{CLIENT[1]}"

            [[mtls]]
            hosts = ["127.0.0.1:{encrypted.port}"]
            certificate = "client.pem"
            authorities = "ca.pem"
            """,
            directory=tmp_path,
        )
        signer = KeySigner()
        app = App(
            conformance_agent("Open"),
            webhooks=WebhookPolicy(allow_private=True, challenge="always"),
            webhook_auth=settings,
            signer=signer,
        )
        yield Scene(app, await serve(app, stack), signer, issuer, plain, encrypted)


def check_plain(scene: Scene, request: Request, url: str) -> None:
    assert request.headers["authorization"] == "Bearer b-1"


def check_api_key(scene: Scene, request: Request, url: str) -> None:
    assert request.headers["x-api-key"] == "k-1"


def check_jwt(scene: Scene, request: Request, url: str) -> None:
    (key,) = jwt.PyJWKSet.from_dict(scene.signer.key_set).keys
    token = request.headers["authorization"].removeprefix("Bearer ")
    claims = jwt.decode(token, key, algorithms=["ES256"], audience=url, issuer=scene.url)
    assert claims["jti"] == request.headers["parley-event-id"]
    assert claims["request_body_sha256"] == hashlib.sha256(request.body).hexdigest()


def check_hmac(scene: Scene, request: Request, url: str) -> None:
    names = (request.headers["webhook-id"], request.headers["webhook-timestamp"])
    digest = hmac.new(SECRET, f"{'.'.join(names)}.".encode() + request.body, hashlib.sha256).digest()
    assert request.headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"


def check_oauth(scene: Scene, request: Request, url: str) -> None:
    keys = {"keys": [key.as_dict(private=False) for key in scene.issuer.keys]}
    (key,) = jwt.PyJWKSet.from_dict(keys).keys
    token = request.headers["authorization"].removeprefix("Bearer ")
    assert jwt.decode(token, key, algorithms=["ES256"], options={"verify_aud": False})["sub"] == CLIENT[0]


def check_certificate(scene: Scene, request: Request, url: str) -> None:
    assert "authorization" not in request.headers  # the handshake has demanded the certificate


SCHEMES: dict[str, tuple[str | None, Callable[[Scene, Request, str], None]]] = {
    "Bearer": ("b-1", check_plain),
    "ApiKey": ("k-1", check_api_key),
    "JWT": (None, check_jwt),
    "HMAC": (HMAC, check_hmac),
    "OAuth2": (None, check_oauth),
    "mTLS": (None, check_certificate),
}


def has(operation: Any, version: Version, binding: Binding) -> bool:
    names = {Binding.JSONRPC: operation.methods, Binding.HTTP_JSON: operation.routes, Binding.GRPC: operation.rpcs}
    return version in names[binding]


REGISTERING = [
    pytest.param(operation, version, binding, id=f"{operation.name}-{version}-{binding.lower()}")
    for operation in ops.OPERATIONS
    if operation.request in (r.SendMessageRequest, r.CreatePushConfigRequest)
    for version, binding in PLACES
    if has(operation, version, binding)
]


async def register(peer: Peer, operation: Any, config: PushConfig) -> None:
    """Register a webhook by this operation, so that it is called."""
    if operation is ops.CREATE_PUSH_CONFIG:
        task = await peer.send("ask")
        await peer.call(operation, r.CreatePushConfigRequest(task.id, config))
        await peer.send("that", task=task)
    elif operation.streams:
        request = peer.request(peer.message("hello"), push_config=config)
        assert [event async for event in peer.stream(operation, request)]
    else:
        await peer.call(operation, peer.request(peer.message("hello"), push_config=config))


@pytest.mark.parametrize(("operation", "version", "binding"), REGISTERING)
async def test_every_dialect_and_binding_registers_every_scheme(
    scene: Scene, operation: Any, version: Version, binding: Binding
) -> None:
    async with Peer(version, binding, scene.places) as peer:
        for scheme, (credentials, check) in SCHEMES.items():
            receiver, url = scene.receiver(scheme)
            await register(peer, operation, PushConfig(url, authentication=PushAuthentication((scheme,), credentials)))
            request = await receiver.notified(f"/{scheme}")
            check(scene, request, url)
            DIALECTS[version].decode_push(request.body)


BAD = {
    "HMAC": ("whsec_c2hvcnQ=", "credentials"),
    "JWT": (None, "scheme"),
    "OAuth2": (None, "scheme"),
    "mTLS": (None, "scheme"),
}


@pytest.mark.parametrize(("operation", "version", "binding"), REGISTERING)
async def test_every_dialect_and_binding_refuses_what_the_server_cannot_do(
    operation: Any, version: Version, binding: Binding
) -> None:
    async with AsyncExitStack() as stack:
        stack.enter_context(fail_after(15))
        places = await serve(App(conformance_agent("Bare")), stack)
        async with Peer(version, binding, places) as peer:
            for scheme, (credentials, member) in BAD.items():
                if scheme == "JWT" and version is Version.V0_1:
                    continue  # whose document registers it at any server
                authentication = PushAuthentication((scheme,), credentials)
                with pytest.raises(InvalidParamsError) as refusal:
                    await register(
                        peer, operation, PushConfig("https://hooks.example/x", authentication=authentication)
                    )
                name = "schemes[0]" if member == "scheme" and version is not Version.V1_0 else member
                assert f".authentication.{name}" in str(refusal.value) + str(refusal.value.path)
                assert "c2hvcnQ" not in repr(refusal.value)


# --- the card ---------------------------------------------------------------------------------------------------------


EVERYTHING = ["Bearer", "Basic", "ApiKey", "HMAC", "JWT", "OAuth2", "mTLS"]


def declared(card: AgentCard) -> AgentExtension:
    (found,) = [extension for extension in card.capabilities.extensions if extension.uri == WEBHOOK_AUTH]
    return found


async def test_the_card_says_what_the_server_offers(scene: Scene) -> None:
    async with httpx2.AsyncClient(base_url=scene.url) as http:
        for version in (Version.V0_3, Version.V1_0):
            reply = await http.get("/.well-known/agent-card.json", headers={"A2A-Version": version})
            assert declared(DIALECTS[version].decode_card(reply.content)).params == {
                "schemes": EVERYTHING,
                "jwks": f"{scene.url}/.well-known/jwks.json",
                "issuer": scene.url,
            }


@pytest.mark.parametrize(("version", "binding"), [(V1_0, REST), (V1_0, GRPC), (V0_3, GRPC)])
async def test_the_extended_card_says_the_same_in_every_binding(version: Version, binding: Binding) -> None:
    tokens = BearerTokens([StoredSecret(name="alice", hash=hash_secret(ALICE))])
    app = App(
        secured_agent(),
        public_url="https://agents.example.com/",
        signer=KeySigner(),
        security=Security({"t": tokens}),
    )
    async with AsyncExitStack() as stack:
        places = await serve(app, stack)
        async with Peer(version, binding, places).at("open", ALICE) as alice:
            card = await alice.call(ops.GET_EXTENDED_CARD, r.GetExtendedCardRequest())
    assert declared(card).params == {
        "schemes": EVERYTHING[:5],
        "jwks": "https://agents.example.com/.well-known/jwks.json",
        "issuer": "https://agents.example.com",
    }


def test_each_of_several_agents_is_an_issuer() -> None:
    app = App(conformance_agent("One"), conformance_agent("Two"), public_url="https://a.example", signer=KeySigner())
    site = app.table.site("two")
    assert site is not None
    card = site.service.cards.card("https://a.example/agents/two")
    assert declared(card).params == {
        "schemes": EVERYTHING[:5],
        "jwks": "https://a.example/agents/two/.well-known/jwks.json",
        "issuer": "https://a.example/agents/two",
    }


@pytest.mark.parametrize(
    ("options", "params"),
    [
        ({}, {"schemes": EVERYTHING[:4]}),
        # Without a URL of its own, the server could not say where its public keys are.
        ({"signer": KeySigner()}, {"schemes": EVERYTHING[:4]}),
        ({"webhooks": None}, None),
    ],
)
def test_a_card_declares_only_what_the_server_does(options: Any, params: Any) -> None:
    site = App(conformance_agent("One"), **options).table.site("one")
    assert site is not None
    extensions = site.service.cards.card("http://localhost").capabilities.extensions
    assert [one.params for one in extensions if one.uri == WEBHOOK_AUTH] == ([] if params is None else [params])
