"""A client that learns from a refusal where tokens come from, although the card says nothing of OAuth."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import structs
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Mount

from parley import Client
from parley.client.credentials.credentials import Credentials
from parley.client.credentials.oauth_client import OAuthClient
from parley.client.credentials.protected_resource import metadata_urls
from parley.client.errors import CredentialsError
from parley.client.guard import Guard
from parley.protocol.cards import AgentCard
from parley.protocol.errors import PermissionDeniedError, UnauthenticatedError
from parley.server.app import App
from parley.server.security.authentication import Security
from parley.server.security.schemes.jwt_issuer import JwtIssuer
from tests.server.authorization_server import AUDIENCE, CLIENT, AuthorizationServer, authorization_server
from tests.server.serving import echo_agent, serving

pytestmark = pytest.mark.anyio

LOCAL = Guard(allowed_hosts=("127.0.0.1",))
PATH = "/.well-known/oauth-protected-resource"


class _Moved:
    """An ASGI app that is set when its port is known."""

    app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.app(scope, receive, send)


@asynccontextmanager
async def agent_with_server(*scopes: str) -> AsyncGenerator[tuple[str, AuthorizationServer, dict[str, Any]]]:
    """An agent and its authorization server at one origin. A document put into the dictionary replaces a real one."""
    moved, documents = _Moved(), dict[str, Any]()
    async with serving(moved) as http:
        url = str(http.base_url).rstrip("/")
        issuer = AuthorizationServer(f"{url}/as")
        scheme = JwtIssuer(issuer.url, AUDIENCE, jwks_url=f"{issuer.url}/keys")
        app = App(echo_agent(), security=Security({"company": scheme}, [{"company": scopes}]), public_url=url)
        routes = Starlette(routes=[Mount("/as", issuer.app), Mount("/", app)])

        async def answer(scope: Any, receive: Any, send: Any) -> None:
            replaced = documents.get(scope.get("path", ""))
            await (routes if replaced is None else JSONResponse(replaced))(scope, receive, send)

        moved.app = answer
        async with app.running():
            yield url, issuer, documents


def client_of(url: str, **options: Any) -> Credentials:
    return Credentials({"oauth2": OAuthClient(CLIENT[0], CLIENT[1], **options)}, origins=[url])


async def card_without_oauth(url: str) -> AgentCard:
    async with Client(url) as client:
        return structs.replace(client.card, security=(), security_schemes={})


async def test_a_token_comes_from_the_server_that_the_refusal_names() -> None:
    agent = agent_with_server("agent:call")
    async with agent as (url, issuer, _), Client(url, credentials=client_of(url)) as client:
        assert (await client.send("hi")).text == "hi"
        assert (await client.send("again")).text == "again"
    (form,) = issuer.forms
    assert (form["grant_type"], form["scope"]) == ("client_credentials", "agent:call")


async def test_a_card_that_says_nothing_at_all_is_enough() -> None:
    async with agent_with_server("agent:call") as (url, issuer, _):
        card = await card_without_oauth(url)
        async with Client(card, credentials=client_of(url), guard=LOCAL) as client:
            assert (await client.send("hi")).text == "hi"
        assert len(issuer.forms) == 1


async def test_a_missing_scope_is_requested_if_the_metadata_name_it() -> None:
    async with agent_with_server("agent:call") as (url, issuer, _):
        card = await card_without_oauth(url)
        credentials = client_of(url, issuer=issuer.url)
        async with Client(card, credentials=credentials, guard=LOCAL) as client:
            assert (await client.send("hi")).text == "hi"
    assert [form.get("scope") for form in issuer.forms] == [None, "agent:call"]


@pytest.mark.parametrize(
    "document",
    [
        {"resource": "https://other.example", "authorization_servers": ["{as}"]},
        {"resource": "{url}/agents/other", "authorization_servers": ["{as}"]},
        {"resource": "{url}", "authorization_servers": []},
        {"resource": "{url}", "authorization_servers": ["http://other.example"]},
        {"resource": "{url}", "authorization_servers": ["{url}/nothing"]},
        {"authorization_servers": ["{as}"]},
        [],
    ],
)
async def test_metadata_of_something_else_are_not_used(document: Any) -> None:
    async with agent_with_server() as (url, issuer, documents):
        replaced = json.dumps(document).replace("{as}", issuer.url).replace("{url}", url)
        documents[PATH] = json.loads(replaced)
        async with Client(url, credentials=client_of(url)) as client:
            with pytest.raises(CredentialsError, match="no authorization server is known"):
                await client.send("hi")
        assert issuer.forms == []


async def test_a_secret_never_goes_to_a_server_of_another_origin_that_only_the_agent_names() -> None:
    async with agent_with_server() as (url, _, documents), authorization_server() as other:
        documents[PATH] = {"resource": url, "authorization_servers": [other.url]}
        async with Client(url, credentials=client_of(url)) as client:
            with pytest.raises(CredentialsError, match="which would get the client's secret"):
                await client.send("hi")
        assert other.forms == []


async def test_a_refusal_without_end_is_followed_once() -> None:
    async with agent_with_server("agent:never") as (url, issuer, _):

        def sign(*_: Any, **__: Any) -> str:
            return AuthorizationServer.sign(issuer, {"scope": "agent:other"})

        issuer.sign = sign
        async with Client(url, credentials=client_of(url)) as client:
            with pytest.raises(PermissionDeniedError):
                await client.send("hi")
        assert len(issuer.forms) == 1


def test_the_well_known_url_is_made_as_the_rfc_says() -> None:
    assert metadata_urls("https://a.example/agents/x") == (
        f"https://a.example{PATH}/agents/x",
        f"https://a.example{PATH}",
    )


async def test_a_server_at_the_agents_origin_cannot_pass_the_secret_on() -> None:
    """The document names a server at the agent's own origin, whose metadata name a token endpoint elsewhere."""
    async with agent_with_server() as (url, issuer, documents), authorization_server() as other:
        documents["/.well-known/oauth-authorization-server/as"] = {
            "issuer": issuer.url,
            "token_endpoint": f"{other.url}/token",
            "authorization_endpoint": f"{other.url}/authorize",
        }
        async with Client(url, credentials=client_of(url)) as client:
            with pytest.raises(CredentialsError):
                await client.send("hi")
        assert other.forms == []


@pytest.mark.parametrize(
    "pointer", ["http://[", "https://h:99999/", "//x", "file:///etc/passwd", "x" * 10_000, "{url}/loop"]
)
async def test_a_pointer_that_leads_nowhere_is_an_error_that_says_what_is_missing(pointer: str) -> None:
    moved = _Moved()
    calls = 0

    async def refuse(scope: Any, receive: Any, send: Any) -> None:
        nonlocal calls
        calls += 1
        named = pointer.replace("{url}", url)
        headers = {"www-authenticate": f'Bearer resource_metadata="{named}"', "location": named}
        await JSONResponse({}, 302 if scope["path"] == "/loop" else 401, headers)(scope, receive, send)

    async with agent_with_server() as (real, _, _), serving(moved) as http:
        url = str(http.base_url).rstrip("/")
        card = await card_without_oauth(real)
        card = structs.replace(card, interfaces=tuple(structs.replace(one, url=url) for one in card.interfaces[:1]))
        moved.app = refuse
        async with Client(card, credentials=client_of(url), guard=LOCAL) as client:
            with pytest.raises((CredentialsError, UnauthenticatedError)):
                await client.send("hi")
    assert calls <= 6
