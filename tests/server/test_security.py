"""How schemes combine: who gets in, under which name, and what the others are told."""

import msgspec
import pytest

from parley.dialects.json_errors import encode_error, encode_rest_error
from parley.dialects.protobuf_status import encode_status, encode_status_text
from parley.protocol.cards import ApiKeyLocation, ApiKeyScheme, HttpAuthScheme, MutualTlsScheme, SecurityScheme
from parley.protocol.errors import (
    A2AError,
    InternalError,
    PermissionDeniedError,
    RateLimitedError,
    UnauthenticatedError,
    UnavailableError,
)
from parley.protocol.versions import Version
from parley.server.security.authentication import Security, challenges_of, was_refused
from parley.server.security.credentials import ANONYMOUS, Identity, PeerCertificate, PresentedCredentials
from parley.server.security.schemes.api_keys import ApiKeys
from parley.server.security.schemes.mutual_tls import AllowedCertificate, MutualTls
from parley.server.security.schemes.scheme import Challenge, Proof
from parley.server.security.schemes.stored_secrets import StoredSecret, hash_secret
from parley.server.security.schemes.tokens import BearerTokens
from parley.server.security.throttle import RateLimits, Throttle

pytestmark = pytest.mark.anyio


def stored(name: str, secret: str, *scopes: str, tenant: str | None = None) -> StoredSecret:
    return StoredSecret(name=name, hash=hash_secret(secret), scopes=scopes, tenant=tenant)


TOKENS = BearerTokens([stored("ci", "t0ken", "agent:call", tenant="acme"), stored("old", "t0ken-2")])
KEYS = ApiKeys([stored("ci", "k3y", "agent:admin"), stored("globex", "k3y-2", tenant="globex")])
MESH = MutualTls([AllowedCertificate(match=r"uri:spiffe://mesh/billing", scopes=("mesh",), tenant="acme")])
CERTIFICATE = PeerCertificate("CN=billing", ("uri:spiffe://mesh/billing",), "00" * 32, b"")


class Unreachable:
    """A scheme whose server is away."""

    card: SecurityScheme = HttpAuthScheme("Bearer")
    challenge = Challenge("Bearer")

    async def verify(self, credentials: PresentedCredentials) -> Proof | None:
        if "authorization" not in credentials.headers:
            return None
        raise UnavailableError("The credentials cannot be checked now")

    async def close(self) -> None: ...


def bring(
    *, token: str | None = None, key: str | None = None, certificate: PeerCertificate | None = None
) -> PresentedCredentials:
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    return PresentedCredentials(headers | ({} if key is None else {"x-api-key": key}), certificate=certificate)


async def test_any_scheme_will_do_if_nothing_is_said() -> None:
    security = Security({"token": TOKENS, "key": KEYS})
    assert security.requirements == ({"token": ()}, {"key": ()})
    ada = Identity("token:ci", frozenset({"agent:call"}), tenant="acme")
    assert await security.authenticate(bring(token="t0ken")) == ada
    assert await security.authenticate(bring(key="k3y")) == Identity("key:ci", frozenset({"agent:admin"}))
    assert await security.authenticate(bring(token="t0ken", key="wrong")) == ada


async def test_the_card_says_what_is_enforced() -> None:
    security = Security({"token": TOKENS, "key": KEYS, "mesh": MESH}, [{"token": ["agent:call"], "mesh": []}, {}])
    assert security.schemes == {
        "token": HttpAuthScheme("Bearer"),
        "key": ApiKeyScheme(ApiKeyLocation.HEADER, "X-API-Key"),
        "mesh": MutualTlsScheme(),
    }
    assert security.requirements == ({"token": ("agent:call",), "mesh": ()}, {})


async def test_schemes_of_one_requirement_are_needed_together_and_name_the_caller_together() -> None:
    security = Security({"token": TOKENS, "mesh": MESH}, [{"token": ("agent:call",), "mesh": ()}])
    both = await security.authenticate(bring(token="t0ken", certificate=CERTIFICATE))
    assert both == Identity("token:ci+mesh:uri:spiffe://mesh/billing", frozenset({"agent:call", "mesh"}), tenant="acme")
    with pytest.raises(UnauthenticatedError, match=r"^Authentication is required$") as caught:
        await security.authenticate(bring(token="t0ken"))
    assert challenges_of(caught.value) == ('TLS-Client-Certificate realm="parley"',)
    assert not was_refused(caught.value)


async def test_the_first_requirement_that_is_met_counts() -> None:
    security = Security({"token": TOKENS, "key": KEYS}, [{"token": (), "key": ()}, {"key": ()}, {"token": ()}])
    assert (await security.authenticate(bring(token="t0ken", key="k3y"))).name == "token:ci+key:ci"
    assert (await security.authenticate(bring(token="wrong", key="k3y"))).name == "key:ci"
    assert (await security.authenticate(bring(token="t0ken"))).name == "token:ci"


async def test_without_credentials_every_scheme_that_could_help_is_named() -> None:
    security = Security({"token": TOKENS, "other": TOKENS, "key": KEYS, "mesh": MESH}, realm='the "agent"')
    with pytest.raises(UnauthenticatedError) as caught:
        await security.authenticate(bring())
    assert challenges_of(caught.value) == (
        'Bearer realm="the \\"agent\\""',
        'ApiKey realm="the \\"agent\\"", in="header", name="X-API-Key"',
        'TLS-Client-Certificate realm="the \\"agent\\""',
    )


async def test_bad_credentials_are_called_bad() -> None:
    security = Security({"token": TOKENS, "key": KEYS})
    with pytest.raises(UnauthenticatedError, match=r"^The credentials are not valid$") as caught:
        await security.authenticate(bring(token="guess"))
    assert challenges_of(caught.value) == (
        'Bearer realm="parley", error="invalid_token", error_description="The secret is unknown"',
        'ApiKey realm="parley", in="header", name="X-API-Key"',
    )
    assert was_refused(caught.value)
    assert "guess" not in repr(caught.value) + str(challenges_of(caught.value))


async def test_good_credentials_without_the_scope_are_forbidden() -> None:
    security = Security({"token": TOKENS}, [{"token": ("agent:call", "agent:admin")}])
    with pytest.raises(PermissionDeniedError, match=r"^The caller lacks the scope: agent:admin$") as caught:
        await security.authenticate(bring(token="t0ken"))
    challenge = 'Bearer realm="parley", error="insufficient_scope", scope="agent:admin"'
    assert challenges_of(caught.value) == (challenge,)
    assert caught.value.details == {"scope": "agent:admin"}
    with pytest.raises(PermissionDeniedError) as caught:
        await Security({"key": KEYS}, [{"key": ("pay",)}]).authenticate(bring(key="k3y"))
    assert challenges_of(caught.value) == ()  # only Bearer has a word for it


async def test_a_scope_must_come_from_the_scheme_that_is_asked_for_it() -> None:
    security = Security({"token": TOKENS, "key": KEYS}, [{"token": ("agent:admin",), "key": ()}])
    with pytest.raises(PermissionDeniedError):
        await security.authenticate(bring(token="t0ken", key="k3y"))


async def test_a_requirement_without_schemes_lets_those_in_who_bring_nothing() -> None:
    security = Security({"token": TOKENS}, [{}, {"token": ("agent:call",)}])
    assert await security.authenticate(bring()) == ANONYMOUS
    assert (await security.authenticate(bring(token="t0ken"))).name == "token:ci"
    with pytest.raises(UnauthenticatedError):
        await security.authenticate(bring(token="guess"))
    with pytest.raises(PermissionDeniedError):
        await security.authenticate(bring(token="t0ken-2"))


async def test_what_cannot_be_checked_lets_nobody_in_and_refuses_nobody() -> None:
    security = Security({"company": Unreachable(), "token": TOKENS}, [{"company": ()}, {"token": ()}, {}])
    with pytest.raises(UnavailableError):
        await security.authenticate(bring(token="who-knows"))
    assert (await security.authenticate(bring(token="t0ken"))).name == "token:ci"
    assert await security.authenticate(bring()) == ANONYMOUS


async def test_credentials_of_two_tenants_do_not_go_together() -> None:
    security = Security({"token": TOKENS, "key": KEYS}, [{"token": (), "key": ()}])
    with pytest.raises(PermissionDeniedError, match=r"^The credentials belong to different tenants$"):
        await security.authenticate(bring(token="t0ken", key="k3y-2"))


async def test_names_of_different_callers_differ() -> None:
    names = ["a+key:b", "a%2Bkey:b", "ü", "a b", "a\nb", "CN=Ada,O=Example", "ada@example.com", "a:b"]
    security = Security({"token": BearerTokens([stored(name, name.encode().hex()) for name in names])})
    got = [(await security.authenticate(bring(token=name.encode().hex()))).name for name in names]
    assert got == [
        "token:a%2Bkey:b",
        "token:a%252Bkey:b",
        "token:%C3%BC",
        "token:a%20b",
        "token:a%0Ab",
        "token:CN=Ada,O=Example",
        "token:ada@example.com",
        "token:a:b",
    ]


async def test_a_name_of_any_length_is_not_accepted() -> None:
    security = Security({"token": BearerTokens([stored("x" * 513, "t0ken")])})
    with pytest.raises(UnauthenticatedError) as caught:
        await security.authenticate(bring(token="t0ken"))
    assert 'error_description="The subject is missing or too long"' in challenges_of(caught.value)[0]


async def test_of_claims_with_one_name_the_first_scheme_counts() -> None:
    class Claiming(Unreachable):
        def __init__(self, claims: dict[str, str]) -> None:
            self.claims = claims

        async def verify(self, credentials: PresentedCredentials) -> Proof | None:
            return Proof("x", claims=dict(self.claims))

    schemes = {"a": Claiming({"email": "a", "a": "1"}), "b": Claiming({"email": "b", "b": "2"})}
    identity = await Security(schemes, [{"a": (), "b": ()}]).authenticate(bring())
    assert identity == Identity("a:x+b:x", claims={"email": "a", "a": "1", "b": "2"})


def test_the_card_shows_the_scopes_that_a_skill_demands() -> None:
    security = Security({"token": TOKENS, "key": KEYS}, [{"token": ("agent:call",), "key": ()}, {"key": ()}, {}])
    assert security.requirements_for(["agent:call", "pay"]) == (
        {"token": ("agent:call", "pay"), "key": ()},
        {"key": ("agent:call", "pay")},
    )


@pytest.mark.parametrize(
    ("schemes", "requirements", "problem"),
    [
        ({}, None, "at least one scheme"),
        ({"a:b": TOKENS}, None, "Invalid scheme name: 'a:b'"),
        ({"token": TOKENS}, [], "The requirements are empty"),
        ({"token": TOKENS}, [{"tokne": ()}], "'tokne', which is not declared"),
    ],
)
def test_what_makes_no_sense_is_said_at_once(
    schemes: dict[str, BearerTokens], requirements: object, problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        Security(schemes, requirements)  # type: ignore[arg-type]


async def test_errors_are_written_in_every_dialect_as_if_they_carried_nothing() -> None:
    """The dialects look errors up by class, so challenges and times to retry must not make a class of their own."""
    security = Security({"token": TOKENS}, [{"token": ("agent:admin",)}])
    throttle = Throttle(RateLimits(requests=1))
    carrying: list[A2AError] = []
    for token in ("guess", "t0ken"):
        with pytest.raises(A2AError) as caught:
            await security.authenticate(bring(token=token))
        carrying.append(caught.value)
    with throttle.admit("a"), pytest.raises(RateLimitedError) as limited, throttle.admit("a"):
        pass
    carrying.append(limited.value)
    assert [type(error) for error in carrying] == [UnauthenticatedError, PermissionDeniedError, RateLimitedError]
    codes = {
        version: [msgspec.json.decode(encode_error(version, error))["code"] for error in carrying]
        for version in Version
    }
    later = [-32031, -32032, -32033]
    assert codes == {
        Version.V0_1: [-32007, -32008, -32010],
        Version.V0_2: later,
        Version.V0_3: later,
        Version.V1_0: later,
    }
    for version in (Version.V0_3, Version.V1_0):
        assert [encode_rest_error(version, error)[0] for error in carrying] == [401, 403, 429]
    assert [encode_status(error).code for error in carrying] == [16, 7, 8]
    assert [encode_status_text(error)[1].partition(":")[0] for error in carrying] == [
        "UnauthenticatedError",
        "PermissionDeniedError",
        "RateLimitedError",
    ]


def test_other_errors_carry_no_challenge() -> None:
    assert challenges_of(InternalError()) == ()
    assert not was_refused(InternalError())


async def test_what_is_printed_shows_no_secret() -> None:
    security = Security({"token": TOKENS})
    credentials = PresentedCredentials({"authorization": "Bearer t0ken"}, {"key": ["k3y"]}, address="192.0.2.1")
    assert repr(credentials) == "PresentedCredentials(headers=['authorization'], query=['key'], address='192.0.2.1')"
    assert repr(security) == "Security(['token'], [{'token': ()}])"
    await security.close()
