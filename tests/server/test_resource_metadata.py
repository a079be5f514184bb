"""Protected resource metadata (RFC 9728), and the challenges that point to it."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from parley import Agent, Client
from parley.client.credentials.challenges import parameters_of
from parley.protocol.cards import Binding
from parley.protocol.errors import UnauthenticatedError
from parley.server.app import App
from parley.server.bindings.grpc import GrpcServer
from parley.server.security.authentication import Security
from parley.server.security.schemes.introspection import Introspection
from parley.server.security.schemes.openid import OpenIdConnect
from parley.server.security.schemes.stored_secrets import StoredSecret, hash_secret
from parley.server.security.schemes.tokens import BearerTokens
from tests.server.authorization_server import AUDIENCE, AuthorizationServer, authorization_server
from tests.server.serving import echo_agent, running, send, serving

pytestmark = pytest.mark.anyio

PATH = "/.well-known/oauth-protected-resource"
HEADERS = {"a2a-version": "1.0"}


def of(issuer: AuthorizationServer, *scopes: str) -> Security:
    return Security({"company": OpenIdConnect(issuer.url, AUDIENCE)}, [{"company": scopes}])


def pointer(reply: httpx2.Response) -> str:
    return parameters_of(reply.headers["www-authenticate"], "bearer")["resource_metadata"]


async def test_a_401_points_to_metadata_that_name_the_authorization_server() -> None:
    async with authorization_server() as issuer, running(App(echo_agent(), security=of(issuer, "agent:call"))) as http:
        url = str(http.base_url).rstrip("/")
        over_jsonrpc = await http.post("/", json=send("hi", message_id="1"), headers=HEADERS)
        over_rest = await http.post("/message:send", json=send("hi", message_id="1")["params"], headers=HEADERS)
        found = await http.get(pointer(over_jsonrpc))

    assert (over_jsonrpc.status_code, over_rest.status_code) == (401, 401)
    assert pointer(over_jsonrpc) == pointer(over_rest) == url + PATH
    assert found.json() == {
        "resource": url,
        "authorization_servers": [issuer.url],
        "bearer_methods_supported": ["header"],
        "scopes_supported": ["agent:call"],
    }


async def test_each_agent_of_several_is_a_resource_whose_path_follows_the_well_known_one() -> None:
    async with authorization_server() as issuer:
        app = App(echo_agent("One"), echo_agent("Two"), security=of(issuer))
        async with running(app) as http:
            url = str(http.base_url).rstrip("/")
            refused = await http.post("/agents/two", json=send("hi", message_id="1"), headers=HEADERS)
            assert pointer(refused) == f"{url}{PATH}/agents/two"
            assert (await http.get(pointer(refused))).json()["resource"] == f"{url}/agents/two"
            assert (await http.get(PATH)).json()["resource"] == url
            assert (await http.get(f"{PATH}/agents/three")).status_code == 404
            assert (await http.get(f"{PATH}/agents/two/tasks")).status_code == 404
            assert (await http.post(PATH)).headers["allow"] == "GET, HEAD"


async def test_a_mounted_app_points_to_where_it_can_answer() -> None:
    async with authorization_server() as issuer:
        app = App(echo_agent(), security=of(issuer))
        async with app.running(), serving(Starlette(routes=[Mount("/inner", app)])) as http:
            refused = await http.post("/inner/", json=send("hi", message_id="1"), headers=HEADERS)
            found = await http.get(pointer(refused))
    assert found.json()["resource"] == f"{str(http.base_url).rstrip('/')}/inner"


@pytest.mark.parametrize("scopes", [("agent:call", "agent:more"), ()])
async def test_a_403_names_the_scope_that_is_missing_and_where_to_get_it(scopes: tuple[str, ...]) -> None:
    agent = Agent("Careful")

    @agent.skill(scopes=["agent:more"])
    async def act(turn: Any) -> str:
        return "done"

    async with authorization_server() as issuer, running(App(agent, security=of(issuer, *scopes))) as http:
        token = {"authorization": f"Bearer {issuer.sign()}"}
        refused = await http.post("/", json=send("hi", message_id="1"), headers={**HEADERS, **token})
    challenge = parameters_of(refused.headers["www-authenticate"], "bearer")
    assert refused.status_code == 403
    assert (challenge["error"], challenge["scope"]) == ("insufficient_scope", "agent:more")
    assert challenge["resource_metadata"].endswith(PATH)


async def test_a_server_whose_tokens_have_no_issuer_has_no_metadata() -> None:
    stored = BearerTokens([StoredSecret(name="ada", hash=hash_secret("a-token-of-enough-length"))])
    opaque = Introspection("https://as.example/introspect", client_id="x", client_secret="y")
    for security in (None, Security({"token": stored}), Security({"opaque": opaque})):
        async with running(App(echo_agent(), security=security)) as http:
            assert (await http.get(PATH)).status_code == 404
            reply = await http.post("/", json=send("hi", message_id="1"), headers=HEADERS)
            assert "resource_metadata" not in reply.headers.get("www-authenticate", "")


async def test_introspection_with_an_issuer_names_it() -> None:
    scheme = Introspection("https://as.example/i", client_id="x", client_secret="y", issuer="https://as.example")
    async with running(App(echo_agent(), security=Security({"opaque": scheme}))) as http:
        assert (await http.get(PATH)).json()["authorization_servers"] == ["https://as.example"]


async def test_grpc_points_to_the_metadata_in_its_trailers() -> None:
    async with authorization_server() as issuer:
        app = App(echo_agent(), security=of(issuer))
        async with running(app) as http:
            server = GrpcServer(app, http_url=str(http.base_url).rstrip("/"))
            await server.start("127.0.0.1", 0)
            try:
                async with Client(str(http.base_url), bindings=[Binding.GRPC]) as client:
                    with pytest.raises(UnauthenticatedError) as caught:
                        await client.send("hi")
            finally:
                await server.stop()
    assert caught.value.details["resource_metadata"] == f"{str(http.base_url).rstrip('/')}{PATH}"
