"""Security from a TOML file, and what is said about files that are wrong."""

import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from parley.protocol.cards import (
    ApiKeyLocation,
    ApiKeyScheme,
    HttpAuthScheme,
    MutualTlsScheme,
    OAuth2Scheme,
    OAuthFlow,
    OAuthFlows,
    OpenIdConnectScheme,
)
from parley.protocol.errors import UnauthenticatedError
from parley.server.security.auth_file import AuthFileError, load_security, new_token, parse_security
from parley.server.security.credentials import Identity, PresentedCredentials
from parley.server.security.schemes.stored_secrets import hash_secret

WHOLE = f"""
realm = "currency"

[schemes.token]
type = "bearer"
description = "Ask ops."
tokens = [
    {{ name = "ci", hash = "{hash_secret("t0ken")}", scopes = ["agent:call"], tenant = "acme" }},
    {{ name = "old", hash = "{hash_secret("0ld")}", expires = 2020-01-01T00:00:00Z }},
]

[schemes.key]
type = "api-key"
in = "query"
parameter = "key"
keys = [{{ name = "ci", hash = "{hash_secret("k3y")}" }}]

[schemes.people]
type = "basic"
[[schemes.people.users]]
name = "ada"
password = "$scrypt$ln=14,r=8,p=5$c2FsdHNhbHRzYWx0c2FsdA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

[schemes.company]
type = "jwt"
issuer = "https://issuer.example.com"
audience = "https://agent.example.com"
jwks_url = "https://issuer.example.com/keys"
algorithms = ["ES256"]
tenant_claim = "org"
metadata_url = "https://issuer.example.com/metadata"
[schemes.company.oauth2.client_credentials]
token_url = "https://issuer.example.com/token"
scopes = {{ "agent:call" = "Call the agent." }}

[schemes.login]
type = "oidc"
issuer = "https://login.example.com"
audience = ["a", "b"]

[schemes.legacy]
type = "introspection"
url = "https://legacy.example.com/introspect"
client_id = "parley"
client_secret = "env:LEGACY_SECRET"

[schemes.mesh]
type = "mtls"
certificates = [{{ match = "uri:spiffe://example.com/billing", scopes = ["agent:call"] }}]

[[require]]
token = []

[[require]]
company = ["agent:call"]
mesh = []

[[require]]
"""


def test_a_file_may_declare_every_kind_of_scheme() -> None:
    security = parse_security(WHOLE, environ={"LEGACY_SECRET": "s3cret"})
    flow = OAuthFlow({"agent:call": "Call the agent."}, token_url="https://issuer.example.com/token")
    assert security.schemes == {
        "token": HttpAuthScheme("Bearer", description="Ask ops."),
        "key": ApiKeyScheme(ApiKeyLocation.QUERY, "key"),
        "people": HttpAuthScheme("Basic"),
        "company": OAuth2Scheme(OAuthFlows(client_credentials=flow), "https://issuer.example.com/metadata"),
        "login": OpenIdConnectScheme("https://login.example.com/.well-known/openid-configuration"),
        "legacy": HttpAuthScheme("Bearer"),
        "mesh": MutualTlsScheme(),
    }
    assert security.requirements == ({"token": ()}, {"company": ("agent:call",), "mesh": ()}, {})


@pytest.mark.anyio
async def test_what_a_file_declares_is_enforced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEGACY_SECRET", "s3cret")
    path = tmp_path / "auth.toml"
    path.write_text(WHOLE)
    security = load_security(path)
    identity = await security.authenticate(PresentedCredentials({"authorization": "Bearer t0ken"}))
    assert identity == Identity("token:ci", frozenset({"agent:call"}), tenant="acme")
    with pytest.raises(UnauthenticatedError):
        await security.authenticate(PresentedCredentials({"authorization": "Bearer 0ld"}))
    assert datetime.now(UTC).year > 2020


TOKEN = '[schemes.a]\ntype = "bearer"\n'
JWT = '[schemes.a]\ntype = "jwt"\nissuer = "i"\njwks_url = "https://i/k"\n'
ASKED = '[schemes.a]\ntype = "introspection"\nurl = "https://i/i"\nclient_id = "c"\n'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("schemes = ", "not TOML: Invalid value (at end of document)"),
        ("", "schemes: it is missing"),
        ("schemes = 7", "schemes: Expected `object`, got `int`"),
        ("schemes.a = 7", "schemes.a: Expected `object`, got `int`"),
        (
            "[schemes]",
            "schemes: Security needs at least one scheme; leave Security out",
        ),
        ("shemes = 7\n[schemes]", "shemes: unknown key"),
        (
            "[schemes.a]",
            "schemes.a.type: it must be one of bearer, api-key, basic, jwt, oidc, introspection, mtls",
        ),
        (
            "[schemes.a]\ntype = 'saml'",
            "schemes.a.type: it must be one of bearer, api-key, basic, jwt, oidc, introspection, mtls",
        ),
        (TOKEN, "schemes.a.tokens: it is missing"),
        (TOKEN + "tokens = [{ name = 'x' }]", "schemes.a.tokens[0].hash: it is missing"),
        (TOKEN + "tokens = [{ name = 7 }]", "schemes.a.tokens[0].name: Expected `str`, got `int`"),
        (
            TOKEN + "tokens = [{ name = 'x', hash = 'y', scope = 'z' }]",
            "schemes.a.tokens[0].scope: unknown key",
        ),
        (
            TOKEN + "tokens = [{ name = 'x', hash = 'hunter2' }]",
            "schemes.a.tokens[0].hash: it must be 'sha256:' and 64 hexadecimal digits in lower case",
        ),
        (
            TOKEN + f"tokens = [{{ name = 'x', hash = '{hash_secret('x')}', expires = 2020-01-01T00:00:00 }}]",
            "schemes.a.tokens[0].expires: it needs a time zone; append Z for UTC",
        ),
        (JWT, "schemes.a.audience: it is missing"),
        (
            JWT + "audience = ''",
            "schemes.a.audience: it must not be empty, or tokens for other services would be accepted",
        ),
        (JWT + "audience = 'a'\n[schemes.a.oauth2.magic]", "schemes.a.oauth2.magic: unknown key"),
        (
            JWT + "audience = 'a'\n[schemes.a.oauth2.device_code]\ntoken_uri = ''",
            "schemes.a.oauth2.device_code.token_uri: unknown key",
        ),
        (JWT + "audience = 'a'\noauth2 = 7", "schemes.a.oauth2: Expected `object | null`, got `int`"),
        (ASKED + "client_secret = 'env:NONE'", "schemes.a.client_secret: the environment variable NONE is not set"),
        (ASKED + "client_secret = 'plain'\nurl2 = ''", "schemes.a.url2: unknown key"),
        (TOKEN + "tokens = []\n[[require]]\nb = []", "require[0].b: there is no scheme with this name"),
        (TOKEN + "tokens = []\n[[require]]\na = 'x'", "require[0].a: Expected `array`, got `str`"),
        ("require = []\n" + TOKEN + "tokens = []", "require: The requirements are empty"),
        ("[schemes.'a b']\ntype = 'bearer'\ntokens = []", "schemes: Invalid scheme name: 'a b'"),
    ],
)
def test_the_key_at_fault_is_named(text: str, problem: str) -> None:
    with pytest.raises(AuthFileError) as caught:
        parse_security(text, environ={})
    assert str(caught.value).startswith(problem)
    assert "hunter2" not in str(caught.value)


def test_a_client_secret_may_be_written_into_the_file() -> None:
    assert parse_security(ASKED + "client_secret = 'plain'").requirements == ({"a": ()},)


def test_errors_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "auth.toml"
    with pytest.raises(AuthFileError, match=r"auth.toml cannot be read: "):
        load_security(path)
    path.write_text("[schemes.a]")
    with pytest.raises(AuthFileError) as caught:
        load_security(path)
    assert str(caught.value).startswith(f"{path}: schemes.a.type: it must be one of")
    assert caught.value.at == "schemes.a.type"


@pytest.mark.anyio
async def test_a_new_token_fits_into_the_file() -> None:
    name = 'Zoë "the build" \x7f\n'
    token, entry = new_token(name, scopes=("a", "b"), tenant="acme")
    assert token not in entry
    assert tomllib.loads(f"entry = {entry}") == {
        "entry": {"name": name, "hash": hash_secret(token), "scopes": ["a", "b"], "tenant": "acme"}
    }
    security = parse_security(TOKEN + f"tokens = [{entry}, {new_token('other')[1]}]")
    identity = await security.authenticate(PresentedCredentials({"authorization": f"Bearer {token}"}))
    assert identity == Identity("a:Zo%C3%AB%20%22the%20build%22%20%7F%0A", frozenset("ab"), tenant="acme")
