"""SIGHUP while callers are there: streams, and the protected resource metadata."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from parley.server.app import App
from parley.server.reloading import reload_settings
from parley.server.security.authentication import Security
from parley.server.security.reloading import ReloadableSecurity
from parley.server.security.schemes.jwt_issuer import JwtIssuer
from parley.server.security.schemes.stored_secrets import StoredSecret, hash_secret
from parley.server.security.schemes.tokens import BearerTokens
from tests.server.serving import echo_agent, running, send

pytestmark = pytest.mark.anyio

PATH = "/.well-known/oauth-protected-resource"


def issued_by(url: str, *scopes: str) -> Security:
    return Security({"company": JwtIssuer(url, "aud", jwks_url=f"{url}/keys")}, [{"company": scopes}])


async def test_metadata_and_challenges_follow_a_reload() -> None:
    tokens = Security({"token": BearerTokens([StoredSecret(name="ada", hash=hash_secret("the-token"))])})
    rules: Iterator[Security] = iter(
        (tokens, issued_by("https://one.example", "a"), issued_by("https://two.example", "b"), tokens)
    )
    security = ReloadableSecurity(lambda: next(rules))
    app = App(echo_agent(), security=security)
    async with running(app) as http:
        seen: list[tuple[int, object, bool]] = []
        for number in range(4):
            if number:
                reload_settings(app, security=security)
            refused = await http.post("/", json=send("hi", message_id="1"), headers={"A2A-Version": "1.0"})
            found = await http.get(PATH)
            facts: dict[str, Any] = found.json() if found.status_code == 200 else {}
            named = (facts.get("authorization_servers"), facts.get("scopes_supported"))
            seen.append((found.status_code, named, "resource_metadata" in refused.headers["www-authenticate"]))
    assert seen == [
        (404, (None, None), False),
        (200, (["https://one.example"], ["a"]), True),
        (200, (["https://two.example"], ["b"]), True),
        (404, (None, None), False),
    ]


async def test_a_reload_that_fails_keeps_every_rule() -> None:
    calls = 0

    def load() -> Security:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise ValueError("the file is broken")
        return issued_by("https://one.example", "a")

    security = ReloadableSecurity(load)
    app = App(echo_agent(), security=security)
    async with running(app) as http:
        reload_settings(app, security=security)
        assert (await http.get(PATH)).json()["authorization_servers"] == ["https://one.example"]
