"""Tokens that an authorization server vouches for, with a real one on a real port: JWTs, discovery, introspection."""

import asyncio
import hashlib
import hmac
import json
import logging
import time
from base64 import urlsafe_b64encode
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest
from joserfc.errors import SecurityWarning
from joserfc.jwk import ECKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry
from starlette.responses import JSONResponse, RedirectResponse, Response

from parley.protocol.cards import HttpAuthScheme, OAuth2Scheme, OAuthFlow, OAuthFlows, OpenIdConnectScheme
from parley.protocol.errors import UnauthenticatedError, UnavailableError
from parley.server.security.authentication import Security, challenges_of
from parley.server.security.credentials import Identity, PeerCertificate, PresentedCredentials
from parley.server.security.schemes import authorization_server as asking
from parley.server.security.schemes import jwt
from parley.server.security.schemes.introspection import Introspection
from parley.server.security.schemes.jwt_issuer import JwtIssuer
from parley.server.security.schemes.key_set import COOLDOWN_SECONDS, FRESH_SECONDS, STALE_SECONDS, read_keys
from parley.server.security.schemes.openid import OpenIdConnect
from parley.server.security.schemes.scheme import Challenge, Proof, Refused, SettingError
from parley.server.security.schemes.stored_secrets import StoredSecret, hash_secret
from parley.server.security.schemes.tokens import BearerTokens
from tests.deadlines import fail_after
from tests.server.authorization_server import (
    AUDIENCE,
    CLIENT,
    AuthorizationServer,
    authorization_server,
    new_key,
)

pytestmark = pytest.mark.anyio

RSA = RSAKey.generate_key(2048, {"kid": "rsa"})


class Time:
    """A monotonic clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def server() -> AsyncGenerator[AuthorizationServer]:
    with fail_after(20):
        async with authorization_server() as running:
            yield running


@pytest.fixture
def clock() -> Time:
    return Time()


@pytest.fixture
async def issuer(server: AuthorizationServer, clock: Time) -> AsyncGenerator[JwtIssuer]:
    scheme = JwtIssuer(server.url, AUDIENCE, jwks_url=f"{server.url}/keys", clock=clock)
    yield scheme
    await scheme.close()


def bearer(token: str, certificate: PeerCertificate | None = None) -> PresentedCredentials:
    return PresentedCredentials({"authorization": f"Bearer {token}"}, certificate=certificate)


async def reason(scheme: Any, token: str) -> str:
    """Why a token is refused."""
    with pytest.raises(Refused) as caught:
        await scheme.verify(bearer(token))
    return caught.value.reason


def by_hand(header: dict[str, Any], claims: Any, sign: Callable[[bytes], bytes] = lambda _: b"x") -> str:
    """A token as no library would make it."""
    head, body = (urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in (header, claims))
    signature = urlsafe_b64encode(sign(head + b"." + body)).rstrip(b"=")
    return b".".join((head, body, signature)).decode()


# --- JWTs -------------------------------------------------------------------------------------------------------------


async def test_a_token_of_the_issuer_is_accepted(server: AuthorizationServer, issuer: JwtIssuer) -> None:
    token = server.sign({"scope": "a b", "scp": ["b", "c"], "email": "ada@example.com", "aud": ["x", AUDIENCE]})
    proof = await issuer.verify(bearer(token))
    assert proof
    assert (proof.subject, proof.scopes, proof.tenant) == ("ada", frozenset("abc"), None)
    assert proof.claims["email"] == "ada@example.com"
    assert await issuer.verify(PresentedCredentials({})) is None
    assert server.asked == {"/keys": 1}


@pytest.mark.parametrize(
    ("key", "alg"),
    [
        (RSA, "RS256"),
        (RSA, "PS512"),
        (ECKey.generate_key("P-384", {"kid": "p384"}), "ES384"),
        (OKPKey.generate_key("Ed25519", {"kid": "ed"}), "Ed25519"),
    ],
    ids=["RS256", "PS512", "ES384", "Ed25519"],
)
async def test_every_kind_of_signature_is_verified(
    server: AuthorizationServer, issuer: JwtIssuer, key: RSAKey, alg: str
) -> None:
    server.keys.append(key)
    assert await issuer.verify(bearer(server.sign(key=key, alg=alg)))
    forged = server.sign(key=type(key).import_key({**new_key_like(key).as_dict(private=True), "kid": key.kid}), alg=alg)
    assert await reason(issuer, forged) == "The token's signature is invalid"


def new_key_like(key: Any) -> Any:
    size = 2048 if isinstance(key, RSAKey) else key.curve_name
    return type(key).generate_key(size)


NOW = int(time.time())


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ({"iss": "https://evil.example.com"}, "The token is from another issuer"),
        ({"iss": None}, "The token is from another issuer"),
        ({"iss": ["x"]}, "The token is from another issuer"),
        ({"aud": "https://other.example.com"}, "The token is for another audience"),
        ({"aud": None}, "The token is for another audience"),
        ({"aud": {AUDIENCE: 1}}, "The token is for another audience"),
        ({"exp": 1}, "The token has expired"),
        ({"exp": None}, "The token has no expiry"),
        ({"exp": True}, "The token's times are invalid"),
        ({"exp": "tomorrow"}, "The token's times are invalid"),
        ({"nbf": 9_999_999_999}, "The token is not valid yet"),
        ({"sub": None}, "The token has no subject"),
        ({"sub": 7}, "The token has no subject"),
        ({"cnf": {"jkt": "abc"}}, "The token is bound to a kind of proof that is not supported"),
        ({"cnf": {"x5t#S256": "abc"}}, "The token is bound to another certificate"),
    ],
    ids=str,
)
async def test_claims_that_do_not_hold_are_refused(
    server: AuthorizationServer, issuer: JwtIssuer, claims: dict[str, Any], expected: str
) -> None:
    assert await reason(issuer, server.sign(claims)) == expected


async def test_clocks_may_differ_a_little(server: AuthorizationServer) -> None:
    moment = 1_000_000.0
    issuer = JwtIssuer(server.url, AUDIENCE, jwks_url=f"{server.url}/keys", now=lambda: moment)
    token = server.sign({"exp": 1_000_000 - 29, "nbf": 1_000_000 + 29})
    assert await issuer.verify(bearer(token))
    assert await reason(issuer, server.sign({"exp": 1_000_000 - 30})) == "The token has expired"
    assert await reason(issuer, server.sign({"exp": 2_000_000, "nbf": 1_000_031})) == "The token is not valid yet"
    await issuer.close()


async def test_the_algorithm_cannot_be_talked_down(server: AuthorizationServer, issuer: JwtIssuer) -> None:
    server.keys.append(RSA)
    claims = {"iss": server.url, "aud": AUDIENCE, "sub": "eve", "exp": NOW + 3600}
    public = RSA.as_pem(private=False)

    def with_public_key(message: bytes) -> bytes:
        return hmac.digest(public, message, "sha256")

    none = by_hand({"alg": "none", "kid": "rsa"}, claims)
    assert await reason(issuer, none) == "The token's algorithm is not allowed"
    assert await reason(issuer, none.rpartition(".")[0] + ".") == "The token is not a JWT"
    confused = by_hand({"alg": "HS256", "kid": "rsa"}, claims, with_public_key)
    assert await reason(issuer, confused) == "The token's algorithm is not allowed"
    other = by_hand({"alg": "ES256", "kid": "rsa"}, claims)
    assert await reason(issuer, other) == "The token's signature is invalid"


async def test_a_key_for_another_purpose_verifies_nothing(server: AuthorizationServer, issuer: JwtIssuer) -> None:
    server.keys.append(OKPKey.generate_key("X25519", {"kid": "exchange"}))
    claims = {"iss": server.url, "aud": AUDIENCE, "sub": "eve", "exp": NOW + 3600}
    token = by_hand({"alg": "EdDSA", "kid": "exchange"}, claims)
    assert await reason(issuer, token) == "The token's signature is invalid"


async def test_a_signature_is_verified_once_but_the_claims_every_time(
    server: AuthorizationServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jwt, "REMEMBERED", 2)
    clock, moment = Time(), 1_000_000.0
    issuer = JwtIssuer(server.url, AUDIENCE, jwks_url=f"{server.url}/keys", now=lambda: moment, clock=clock)
    token = server.sign({"exp": 1_000_100})
    for text in (token, token, *(server.sign({"exp": 1_000_100, "sub": name}) for name in "abc"), token):
        assert await issuer.verify(bearer(text))
    assert await reason(issuer, token[:-4] + "AAAA") == "The token's signature is invalid"
    moment += 130
    assert await reason(issuer, token) == "The token has expired"
    moment -= 130
    server.keys = [new_key("first")]
    clock.now += FRESH_SECONDS
    assert await reason(issuer, token) == "The token's signature is invalid"
    await issuer.close()


async def test_an_algorithm_that_was_not_allowed_is_refused(server: AuthorizationServer) -> None:
    issuer = JwtIssuer(server.url, AUDIENCE, jwks_url=f"{server.url}/keys", algorithms=["RS256"])
    assert await reason(issuer, server.sign()) == "The token's algorithm is not allowed"
    for algorithms in (["HS256"], ["none"], []):
        with pytest.raises(SettingError, match=r"^algorithms: "):
            JwtIssuer(server.url, AUDIENCE, jwks_url=f"{server.url}/keys", algorithms=algorithms)


@pytest.mark.parametrize(
    ("header", "claims", "expected"),
    [
        ({"alg": "ES256", "crit": ["b64"], "b64": False}, {}, "The token needs an extension that is not supported"),
        ({"alg": "ES256", "typ": "logout+jwt"}, {}, "The token is not an access token"),
        ({"alg": "ES256"}, ["iss"], "The token is not a JWT"),
        ({"alg": 1}, {}, "The token is not a JWT"),
        ({}, {}, "The token is not a JWT"),
        ("alg", {}, "The token is not a JWT"),
        ({"alg": "ES256", "kid": ["first"]}, {}, "The token is not a JWT"),
    ],
    ids=str,
)
async def test_what_is_no_access_token_is_refused_without_asking_anybody(
    server: AuthorizationServer, issuer: JwtIssuer, header: Any, claims: Any, expected: str
) -> None:
    assert await reason(issuer, by_hand(header, claims)) == expected
    for text in (
        "opaque",
        "a.b.c",
        "eyJ.!!.x",
        "." * 2,
        urlsafe_b64encode(b"[" * 5000).decode().rstrip("=") + ".e30.e",
    ):
        with pytest.raises(Refused):
            await issuer.verify(bearer(text))
    assert server.asked == {}


async def test_a_token_bound_to_a_certificate_needs_it(server: AuthorizationServer, issuer: JwtIssuer) -> None:
    certificate = PeerCertificate("CN=ada", (), hashlib.sha256(b"der").hexdigest(), b"der")
    thumbprint = urlsafe_b64encode(hashlib.sha256(b"der").digest()).decode().rstrip("=")
    token = server.sign({"cnf": {"x5t#S256": thumbprint}})
    assert await issuer.verify(bearer(token, certificate))
    assert await reason(issuer, token) == "The token is bound to another certificate"


async def test_subject_scopes_and_tenant_may_be_in_other_claims(server: AuthorizationServer) -> None:
    issuer = JwtIssuer(
        server.url,
        [AUDIENCE, "other"],
        jwks_url=f"{server.url}/keys",
        subject_claim="oid",
        scope_claims=["roles"],
        tenant_claim="tid",
    )
    claims = {"oid": "42", "roles": ["reader"], "tid": "acme", "aud": "other"}
    proof = await issuer.verify(bearer(server.sign(claims)))
    assert proof
    assert (proof.subject, proof.scopes, proof.tenant) == ("42", frozenset({"reader"}), "acme")
    for tenant in (None, "", 7):
        assert await reason(issuer, server.sign({**claims, "tid": tenant})) == "The token has no tenant"
    await issuer.close()


def test_the_card_tells_where_to_get_a_token() -> None:
    url = "https://issuer.example.com"
    plain = JwtIssuer(url, AUDIENCE, jwks_url=f"{url}/keys", description="Ours.")
    assert plain.card == HttpAuthScheme("Bearer", "JWT", "Ours.")
    flows = OAuthFlows(client_credentials=OAuthFlow({"agent:call": "Call."}, token_url=f"{url}/token"))
    full = JwtIssuer(url, AUDIENCE, jwks_url=f"{url}/keys", flows=flows, metadata_url=f"{url}/meta")
    assert full.card == OAuth2Scheme(flows, f"{url}/meta")
    assert OpenIdConnect(f"{url}/", AUDIENCE).card == OpenIdConnectScheme(f"{url}/.well-known/openid-configuration")
    introspection = Introspection(f"{url}/introspect", client_id="a", client_secret="b", flows=flows)
    assert introspection.card == OAuth2Scheme(flows)
    assert introspection.challenge == full.challenge == Challenge("Bearer")


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://issuer.example.com/keys", "the URL must be https; http is allowed on loopback only"),
        ("http://127.0.0.1.example.com/keys", "the URL must be https; http is allowed on loopback only"),
        (
            "ftp://issuer.example.com/keys",
            "Invalid URL: 'ftp://issuer.example.com'. It must start with http:// or https://.",
        ),
        ("/keys", "Invalid URL: '/keys'. It must start with http:// or https://."),
        ("https://[::1/keys", "Invalid URL: its host or its port is invalid."),
        ("https://ada:secret@issuer.example.com/keys", "Invalid URL: it must not contain a user name."),
    ],
)
def test_keys_and_secrets_do_not_travel_in_the_open(url: str, problem: str) -> None:
    with pytest.raises(SettingError) as caught:
        JwtIssuer("x", AUDIENCE, jwks_url=url)
    assert str(caught.value) == f"jwks_url: {problem}"
    for local in ("http://localhost:1/keys", "http://[::1]:1/keys", "http://127.9.9.9/keys"):
        JwtIssuer("x", AUDIENCE, jwks_url=local)


def test_an_audience_is_needed() -> None:
    for audience in ("", [], ["a", ""]):
        with pytest.raises(SettingError, match=r"^audience: it must not be empty"):
            JwtIssuer("x", audience, jwks_url="https://issuer.example.com/keys")


# --- keys -------------------------------------------------------------------------------------------------------------


async def test_a_key_that_is_new_is_fetched_at_once_and_one_that_is_gone_is_forgotten(
    server: AuthorizationServer, issuer: JwtIssuer, clock: Time
) -> None:
    old = server.sign()
    assert await issuer.verify(bearer(old))
    server.keys = [new_key("second")]
    assert await issuer.verify(bearer(server.sign()))
    assert await reason(issuer, old) == "The token is signed with an unknown key"
    assert server.asked == {"/keys": 2}
    clock.now += COOLDOWN_SECONDS
    server.keys = [new_key("third")]
    assert await issuer.verify(bearer(server.sign()))
    assert server.asked == {"/keys": 3}


async def test_a_flood_of_made_up_keys_causes_few_fetches(
    server: AuthorizationServer, issuer: JwtIssuer, clock: Time
) -> None:
    good = server.sign()
    made_up = [server.sign(kid=f"made up {number}") for number in range(100)]
    outcomes = await asyncio.gather(*(issuer.verify(bearer(token)) for token in made_up), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [Refused] * 100
    assert server.asked["/keys"] == 1
    for token in made_up:
        await reason(issuer, token)
    assert server.asked["/keys"] == 2
    clock.now += COOLDOWN_SECONDS
    for token in made_up:
        await reason(issuer, token)
    assert server.asked["/keys"] == 3
    assert await issuer.verify(bearer(good))


async def test_all_who_need_the_keys_wait_for_one_fetch(server: AuthorizationServer, issuer: JwtIssuer) -> None:
    token = server.sign()
    proofs = await asyncio.gather(*(issuer.verify(bearer(token)) for _ in range(20)))
    assert [proof.subject for proof in proofs if proof] == ["ada"] * 20
    assert server.asked == {"/keys": 1}


async def test_keys_are_asked_for_again_after_a_while(
    server: AuthorizationServer, issuer: JwtIssuer, clock: Time
) -> None:
    token = server.sign()
    await issuer.verify(bearer(token))
    server.keys = [new_key("second")]
    clock.now += FRESH_SECONDS - 1
    assert await issuer.verify(bearer(token))
    clock.now += 1
    assert await reason(issuer, token) == "The token is signed with an unknown key"


async def test_a_token_without_a_key_id_is_tried_with_the_keys_that_fit(
    server: AuthorizationServer, issuer: JwtIssuer
) -> None:
    server.keys = [RSA, new_key("one"), new_key("two")]
    assert await issuer.verify(bearer(server.sign(key=server.keys[2])))
    assert await issuer.verify(bearer(without_key_id(server, server.keys[2])))
    stranger = without_key_id(server, new_key("three"))
    assert await reason(issuer, stranger) == "The token's signature is invalid"


def without_key_id(server: AuthorizationServer, key: Any) -> str:
    claims = {"iss": server.url, "aud": AUDIENCE, "sub": "ada", "exp": NOW + 3600}
    return by_hand({"alg": "ES256"}, claims, lambda message: JWSRegistry.algorithms["ES256"].sign(message, key))


async def test_an_issuer_that_is_away_refuses_nobody_and_lets_nobody_in(clock: Time) -> None:
    async with authorization_server() as gone:
        token = gone.sign()
        issuer = JwtIssuer(gone.url, AUDIENCE, jwks_url=f"{gone.url}/keys", clock=clock)
    tokens = BearerTokens([StoredSecret(name="ci", hash=hash_secret("t0ken"))])
    security = Security({"token": tokens, "company": issuer})
    for _ in range(2):
        with pytest.raises(UnavailableError, match=r"^The credentials cannot be checked now; try again later$"):
            await security.authenticate(bearer(token))
    assert await security.authenticate(bearer("t0ken")) == Identity("token:ci")
    with pytest.raises(UnauthenticatedError):
        await security.authenticate(bearer("no JWT".replace(" ", "")))
    await security.close()


async def test_known_keys_go_on_working_while_the_issuer_is_away_but_not_for_ever(
    server: AuthorizationServer, issuer: JwtIssuer, clock: Time
) -> None:
    token = server.sign()
    unknown = server.sign(kid="unknown")
    assert await issuer.verify(bearer(token))
    server.documents["/keys"] = Response(status_code=500)
    clock.now += FRESH_SECONDS
    for _ in range(10):
        assert await issuer.verify(bearer(token))
        with pytest.raises(UnavailableError):
            await issuer.verify(bearer(unknown))
    assert server.asked == {"/keys": 2}
    clock.now += STALE_SECONDS - FRESH_SECONDS
    with pytest.raises(UnavailableError):
        await issuer.verify(bearer(token))
    del server.documents["/keys"]
    clock.now += COOLDOWN_SECONDS
    assert await issuer.verify(bearer(token))


async def test_while_one_request_waits_for_new_keys_others_use_the_old_ones(
    server: AuthorizationServer, issuer: JwtIssuer, clock: Time
) -> None:
    token = server.sign()
    assert await issuer.verify(bearer(token))
    clock.now += FRESH_SECONDS
    server.gate = asyncio.Event()
    waiting = asyncio.create_task(issuer.verify(bearer(token)))
    await asyncio.sleep(0)
    assert await issuer.verify(bearer(token))
    assert not waiting.done()
    server.gate.set()
    assert await waiting


@pytest.mark.parametrize(
    "answer",
    [
        Response(status_code=404),
        Response("no JSON"),
        Response("[]"),
        Response("[" * 100_000),
        Response(b'{"keys": "' + b"x" * 600_000 + b'"}'),
        RedirectResponse("https://evil.example.com/keys"),
    ],
    ids=["404", "text", "list", "brackets", "long", "redirect"],
)
async def test_an_answer_that_is_no_key_set_is_no_answer(
    server: AuthorizationServer, issuer: JwtIssuer, answer: Response, caplog: pytest.LogCaptureFixture
) -> None:
    server.documents["/keys"] = answer
    token = server.sign()
    with caplog.at_level(logging.WARNING), pytest.raises(UnavailableError):
        await issuer.verify(bearer(token))
    assert f"The call to the authorization server at {server.url}/keys failed" in caplog.text
    assert token not in caplog.text


async def test_an_issuer_that_does_not_answer_in_time_is_away(
    server: AuthorizationServer, issuer: JwtIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "TIMEOUT_SECONDS", 0.05)
    server.gate = asyncio.Event()
    with pytest.raises(UnavailableError):
        await issuer.verify(bearer(server.sign()))


@pytest.mark.filterwarnings("default::joserfc.errors.SecurityWarning")
def test_keys_that_are_too_short_are_passed_over() -> None:
    short = {"kty": "RSA", "kid": "short", "e": "AQAB", "n": urlsafe_b64encode(b"\xff" * 128).decode().rstrip("=")}
    with pytest.warns(SecurityWarning):
        assert read_keys({"keys": [short]}) == []


def test_private_members_of_keys_are_not_looked_at() -> None:
    published = RSAKey.generate_key(2048).as_dict(private=True)
    assert [key.is_private for key in read_keys({"keys": [published, {**published, "d": "x" * 5_000}]})] == [False] * 2


def test_keys_that_cannot_verify_are_passed_over() -> None:
    good = new_key("good").as_dict(private=False)
    others = [
        "no key",
        {"kty": "oct", "k": "c2VjcmV0"},
        {"kty": ["EC"]},
        {"kty": "EC", "crv": "P-256"},
        {"kty": "EC", "crv": "P-999", "x": "AA", "y": "AA"},
        {**good, "use": "enc"},
    ]
    assert [key.kid for key in read_keys({"keys": [*others, good]})] == ["good"]
    assert read_keys({"keys": {"a": good}}) == []
    assert read_keys({}) == []


# --- OpenID Connect ---------------------------------------------------------------------------------------------------


async def test_an_openid_issuer_says_where_its_keys_are(server: AuthorizationServer) -> None:
    security = Security({"login": OpenIdConnect(server.url, AUDIENCE)}, [{"login": ("agent:call",)}])
    identity = await security.authenticate(bearer(server.sign()))
    assert (identity.name, identity.scopes) == ("login:ada", frozenset({"agent:call"}))
    with pytest.raises(UnauthenticatedError) as caught:
        await security.authenticate(bearer(server.sign({"exp": 1})))
    assert challenges_of(caught.value) == (
        'Bearer realm="parley", error="invalid_token", error_description="The token has expired"',
    )
    assert server.asked == {"/.well-known/openid-configuration": 1, "/keys": 1}
    await security.close()


@pytest.mark.parametrize(
    "document",
    [
        {"issuer": "https://evil.example.com", "jwks_uri": "KEYS"},
        {"issuer": "URL/", "jwks_uri": "KEYS"},
        {"issuer": "URL"},
        {"issuer": "URL", "jwks_uri": "http://evil.example.com/keys"},
    ],
    ids=str,
)
async def test_a_discovery_document_that_is_not_the_issuers_is_not_believed(
    server: AuthorizationServer, document: dict[str, str]
) -> None:
    urls = {"URL": server.url, "URL/": f"{server.url}/", "KEYS": f"{server.url}/keys"}
    answer = JSONResponse({name: urls.get(value, value) for name, value in document.items()})
    server.documents["/.well-known/openid-configuration"] = answer
    login = OpenIdConnect(server.url, AUDIENCE)
    with pytest.raises(UnavailableError):
        await login.verify(bearer(server.sign()))
    assert await login.verify(PresentedCredentials({})) is None
    assert server.asked["/keys"] == 0
    await login.close()


async def test_a_token_of_one_issuer_does_not_bother_another(server: AuthorizationServer) -> None:
    async with authorization_server() as second:
        security = Security({"one": OpenIdConnect(server.url, AUDIENCE), "two": OpenIdConnect(second.url, AUDIENCE)})
        assert (await security.authenticate(bearer(second.sign()))).name == "two:ada"
        assert (await security.authenticate(bearer(server.sign()))).name == "one:ada"
        assert server.asked == second.asked == {"/.well-known/openid-configuration": 1, "/keys": 1}
        with pytest.raises(UnauthenticatedError) as caught:
            await security.authenticate(bearer(server.sign({"nbf": NOW + 3600})))
        assert 'error_description="The token is not valid yet"' in challenges_of(caught.value)[0]
        await security.close()


# --- introspection ----------------------------------------------------------------------------------------------------


def introspection(server: AuthorizationServer, **options: Any) -> Introspection:
    name, secret = CLIENT
    return Introspection(f"{server.url}/introspect", client_id=name, client_secret=secret, **options)


async def test_active_tokens_are_accepted_and_asked_about_once_in_a_while(
    server: AuthorizationServer, clock: Time
) -> None:
    scheme = introspection(server, tenant_claim="org", clock=clock)
    known = {"sub": "ada", "scope": "a b", "org": "acme"}
    server.tokens["opaque"] = known
    proof = Proof("ada", frozenset("ab"), {"active": True, **known}, "acme")
    assert await asyncio.gather(*(scheme.verify(bearer("opaque")) for _ in range(10))) == [proof] * 10
    assert server.asked == {"/introspect": 1}
    server.tokens.clear()
    clock.now += 29
    assert await scheme.verify(bearer("opaque")) == proof
    clock.now += 1
    assert await reason(scheme, "opaque") == "The token is not active"
    assert await scheme.verify(PresentedCredentials({})) is None
    await scheme.close()


async def test_an_answer_that_is_kept_does_not_outlive_the_token(server: AuthorizationServer, clock: Time) -> None:
    moment = 1_000_000.0
    scheme = introspection(server, now=lambda: moment, clock=clock)
    server.tokens["opaque"] = {"sub": "ada", "exp": 1_000_010}
    assert await scheme.verify(bearer("opaque"))
    moment += 40
    assert await reason(scheme, "opaque") == "The token has expired"
    assert server.asked == {"/introspect": 1}
    await scheme.close()


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({"active": "yes", "sub": "ada"}, "The token is not active"),
        ({"sub": "ada", "iss": "https://evil.example.com", "aud": AUDIENCE}, "The token is from another issuer"),
        ({"sub": "ada", "aud": "https://other.example.com"}, "The token is for another audience"),
        ({"aud": AUDIENCE, "client_id": "robot"}, "The token has no subject"),
    ],
    ids=str,
)
async def test_answers_that_do_not_hold_are_refused(
    server: AuthorizationServer, known: dict[str, Any], expected: str
) -> None:
    scheme = introspection(server, issuer=server.url, audience=AUDIENCE)
    server.tokens["opaque"] = known
    assert await reason(scheme, "opaque") == expected
    await scheme.close()


async def test_a_machine_is_known_by_its_client_id_where_that_is_set(server: AuthorizationServer) -> None:
    scheme = introspection(server, subject_claim="client_id")
    server.tokens["opaque"] = {"client_id": "robot"}
    proof = await scheme.verify(bearer("opaque"))
    assert proof
    assert proof.subject == "robot"
    await scheme.close()


async def test_a_server_that_does_not_know_us_refuses_nobody(
    server: AuthorizationServer, caplog: pytest.LogCaptureFixture
) -> None:
    scheme = Introspection(f"{server.url}/introspect", client_id="parley", client_secret="wr0ng")
    server.tokens["opaque"] = {"sub": "ada"}
    with caplog.at_level(logging.DEBUG), pytest.raises(UnavailableError):
        await scheme.verify(bearer("opaque"))
    assert "it answered with status 401" in caplog.text
    assert not [secret for secret in ("wr0ng", "opaque") if secret in caplog.text + repr(scheme)]
    await scheme.close()
