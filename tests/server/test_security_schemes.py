"""The schemes that need nobody else: tokens, API keys, passwords and certificates."""

import asyncio
import hashlib
import ssl
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import trustme

from parley.protocol.cards import ApiKeyLocation, ApiKeyScheme, HttpAuthScheme
from parley.protocol.errors import UnavailableError
from parley.server.security.credentials import PeerCertificate, PresentedCredentials
from parley.server.security.schemes import basic
from parley.server.security.schemes.api_keys import ApiKeys
from parley.server.security.schemes.basic import BasicUser, BasicUsers, hash_password
from parley.server.security.schemes.check_cache import CheckCache
from parley.server.security.schemes.mutual_tls import AllowedCertificate, MutualTls
from parley.server.security.schemes.scheme import Challenge, Proof, Refused, SettingError
from parley.server.security.schemes.stored_secrets import StoredSecret, hash_secret, new_secret
from parley.server.security.schemes.tokens import BearerTokens
from tests.deadlines import fail_after

pytestmark = pytest.mark.anyio

# The least scrypt that is accepted, so that these tests need not be slow: ln=10.
CHEAP = "$scrypt$ln=10,r=8,p=1$"


def cheap(password: str, salt: bytes = b"salt" * 4) -> str:
    digest = hashlib.scrypt(password.encode(), salt=salt, n=1 << 10, r=8, p=1, dklen=32)
    return CHEAP + "$".join(b64encode(part).decode().rstrip("=") for part in (salt, digest))


def authorization(value: str) -> PresentedCredentials:
    return PresentedCredentials({"authorization": value})


def pair(name: str, password: str) -> PresentedCredentials:
    return authorization("Basic " + b64encode(f"{name}:{password}".encode()).decode())


# --- tokens -----------------------------------------------------------------------------------------------------------


async def test_a_token_is_known_by_its_hash() -> None:
    secret, digest = new_secret()
    assert digest == "sha256:" + hashlib.sha256(secret.encode()).hexdigest()
    assert len(secret) == 43  # 256 bits in base64url
    tokens = BearerTokens([StoredSecret(name="ci", hash=digest, scopes=("a", "b"), tenant="acme")])
    for written in (f"Bearer {secret}", f"bearer   {secret} ", f"\tBEARER {secret}"):
        assert await tokens.verify(authorization(written)) == Proof("ci", frozenset("ab"), tenant="acme")
    assert await tokens.verify(PresentedCredentials({})) is None
    assert await tokens.verify(authorization("Basic eDp5")) is None


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("Bearer wrong", "The secret is unknown"),
        ("Bearer", "The Authorization header is malformed"),
        ("Bearer a b", "The Authorization header is malformed"),
        ("Bearer a, Bearer b", "The Authorization header is malformed"),
        ("Bearer ä", "The Authorization header is malformed"),
        ("Bearer " + "x" * 16_385, "The token is too long"),
    ],
)
async def test_other_tokens_are_refused(header: str, reason: str) -> None:
    tokens = BearerTokens([StoredSecret(name="ci", hash=hash_secret("right"))])
    with pytest.raises(Refused) as caught:
        await tokens.verify(authorization(header))
    assert caught.value.reason == reason


async def test_a_token_works_until_it_expires_and_is_rotated_by_a_second_of_the_same_name() -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    now = noon
    old = StoredSecret(name="ci", hash=hash_secret("old"), expires=noon + timedelta(hours=1))
    tokens = BearerTokens([old, StoredSecret(name="ci", hash=hash_secret("new"))], now=lambda: now)
    assert await tokens.verify(authorization("Bearer old")) == await tokens.verify(authorization("Bearer new"))
    now = noon + timedelta(hours=1)
    with pytest.raises(Refused, match=r"^The secret has expired$"):
        await tokens.verify(authorization("Bearer old"))
    assert await tokens.verify(authorization("Bearer new")) == Proof("ci")


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        (StoredSecret(name="", hash=hash_secret("x")), "tokens[1].name: it must not be empty"),
        (
            StoredSecret(name="ci", hash="hunter2"),
            "tokens[1].hash: it must be 'sha256:' and 64 hexadecimal digits in lower case",
        ),
        (
            StoredSecret(name="ci", hash=hash_secret("x"), expires=datetime(2026, 1, 1)),
            "tokens[1].expires: it needs a time zone; append Z for UTC",
        ),
    ],
)
def test_an_entry_that_cannot_work_is_named_and_not_quoted(entry: StoredSecret, problem: str) -> None:
    with pytest.raises(SettingError) as caught:
        BearerTokens([StoredSecret(name="ok", hash=hash_secret("ok")), entry])
    assert str(caught.value) == problem


# --- API keys ---------------------------------------------------------------------------------------------------------

STORED = [StoredSecret(name="ci", hash=hash_secret("k3y"))]


@pytest.mark.parametrize(
    ("location", "credentials", "others"),
    [
        (ApiKeyLocation.HEADER, PresentedCredentials({"key": "k3y"}), PresentedCredentials({}, {"Key": ["k3y"]})),
        (
            ApiKeyLocation.QUERY,
            PresentedCredentials({}, {"Key": ["k3y"]}),
            PresentedCredentials({"key": "k3y"}, {"key": ["k3y"]}),
        ),
        (
            ApiKeyLocation.COOKIE,
            PresentedCredentials({"cookie": 'a=b; Key="k3y" ;c'}),
            PresentedCredentials({"cookie": "key=k3y; d"}),
        ),
    ],
)
async def test_a_key_is_looked_for_in_its_place_only(
    location: ApiKeyLocation, credentials: PresentedCredentials, others: PresentedCredentials
) -> None:
    keys = ApiKeys(STORED, location=location, parameter="Key", description="Ask us.")
    assert keys.card == ApiKeyScheme(location, "Key", "Ask us.")
    assert keys.challenge == Challenge("ApiKey", {"in": location.value, "name": "Key"})
    assert await keys.verify(credentials) == Proof("ci")
    assert await keys.verify(others) is None


@pytest.mark.parametrize(
    ("credentials", "reason"),
    [
        (PresentedCredentials({}, {"Key": ["k3y", "k3y"]}), "The request has more than one key"),
        (PresentedCredentials({}, {"Key": ["x" * 16_385]}), "The key is too long"),
        (PresentedCredentials({}, {"Key": [""]}), "The secret is unknown"),
        (PresentedCredentials({}, {"Key": ["\udcff"]}), "The secret is unknown"),
    ],
)
async def test_other_keys_are_refused(credentials: PresentedCredentials, reason: str) -> None:
    keys = ApiKeys(STORED, location=ApiKeyLocation.QUERY, parameter="Key")
    with pytest.raises(Refused) as caught:
        await keys.verify(credentials)
    assert caught.value.reason == reason


# --- passwords --------------------------------------------------------------------------------------------------------


async def test_a_password_is_stored_with_the_cost_that_owasp_gives() -> None:
    written = hash_password("pass:wörd")
    assert written.startswith("$scrypt$ln=14,r=8,p=5$")
    assert hash_password("pass:wörd") != written
    users = BasicUsers([BasicUser(name="ada", password=written, scopes=("a",), tenant="acme")])
    assert users.card == HttpAuthScheme("Basic")
    assert users.challenge == Challenge("Basic", {"charset": "UTF-8"})
    assert await users.verify(pair("ada", "pass:wörd")) == Proof("ada", frozenset("a"), tenant="acme")
    await users.close()


async def test_wrong_names_and_wrong_passwords_get_the_same_answer() -> None:
    users = BasicUsers([BasicUser(name="ada", password=cheap("right"))])
    for credentials in (pair("ada", "wrong"), pair("eve", "right"), pair("", "")):
        with pytest.raises(Refused, match=r"^The user name or the password is wrong$"):
            await users.verify(credentials)
    assert await users.verify(PresentedCredentials({})) is None
    await users.close()


@pytest.mark.parametrize("token", ["!", "YWRh", "/////w==", b64encode(b"ada:" + b"x" * 1025).decode()])
async def test_a_malformed_pair_is_refused(token: str) -> None:
    users = BasicUsers([])
    with pytest.raises(Refused, match=r"malformed$"):
        await users.verify(authorization(f"Basic {token}"))


async def test_a_password_is_checked_once_however_many_ask_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = 0
    scrypt = hashlib.scrypt

    def counting(*args: Any, **options: Any) -> bytes:
        nonlocal checks
        checks += 1
        return scrypt(*args, **options)

    users = BasicUsers([BasicUser(name="ada", password=cheap("right"))])
    monkeypatch.setattr(hashlib, "scrypt", counting)
    proofs = await asyncio.gather(*(users.verify(pair("ada", "right")) for _ in range(50)))
    assert proofs == [Proof("ada")] * 50
    assert await users.verify(pair("ada", "right")) == Proof("ada")
    assert checks == 1
    await users.close()


async def test_only_so_many_passwords_wait_to_be_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(basic, "WAITING", 3)
    users = BasicUsers([BasicUser(name="ada", password=cheap("right"))])
    guesses = [users.verify(pair("ada", f"guess {number}")) for number in range(5)]
    outcomes = await asyncio.gather(*guesses, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [Refused] * 3 + [UnavailableError] * 2
    await users.close()


@pytest.mark.parametrize(
    ("user", "problem"),
    [
        (
            BasicUser(name="a:b", password=cheap("x")),
            "users[1].name: it must not be empty or contain a colon",
        ),
        (BasicUser(name="ada", password=cheap("x")), "users[1].name: 'ada' is repeated"),
        (BasicUser(name="b", password="hunter2"), "users[1].password: it is not a hash of `parley password`"),
        (
            BasicUser(name="b", password=cheap("x").replace("ln=10", "ln=40")),
            "users[1].password: the cost of the hash is out of range",
        ),
    ],
)
def test_a_user_that_cannot_work_is_named_and_not_quoted(user: BasicUser, problem: str) -> None:
    with pytest.raises(SettingError) as caught:
        BasicUsers([BasicUser(name="ada", password=cheap("x")), user])
    assert str(caught.value) == problem
    assert user.password not in repr(user)


# --- kept answers -----------------------------------------------------------------------------------------------------


async def test_answers_are_kept_for_a_while_and_the_one_used_longest_ago_goes_first() -> None:
    time, asked = 0.0, list[str]()
    cache = CheckCache[str](seconds=30, size=2, clock=lambda: time)

    async def get(secret: str) -> str:
        async def ask() -> str:
            asked.append(secret)
            return secret.upper()

        return await cache.get(secret, ask)

    assert [await get(secret) for secret in "abacab"] == list("ABACAB")
    assert "".join(asked) == "abcb"
    assert len(cache) == 2
    time = 30.0
    await get("a")
    assert "".join(asked) == "abcba"


async def test_an_answer_is_still_found_for_others_when_the_first_who_asked_has_gone() -> None:
    cache = CheckCache[str](seconds=30, size=2)
    asked, gate = asyncio.Event(), asyncio.Event()

    async def ask() -> str:
        asked.set()
        await gate.wait()
        return "yes"

    with fail_after(5):
        first = asyncio.create_task(cache.get("a", ask))
        await asked.wait()
        second = asyncio.create_task(cache.get("a", ask))
        first.cancel()
        await asyncio.wait([first])
        gate.set()
        assert await second == "yes"


async def test_closing_stops_the_asking() -> None:
    cache = CheckCache[str](seconds=0, size=2)
    asked = asyncio.Event()

    async def ask() -> str:
        asked.set()
        await asyncio.Event().wait()
        return "never"

    with fail_after(5):
        waiting = asyncio.create_task(cache.get("a", ask))
        await asked.wait()
        await cache.close()
        await asyncio.wait([waiting])
    assert waiting.cancelled()

    async def answer() -> str:
        return "yes"

    assert await cache.get("a", answer) == "yes"
    assert len(cache) == 0


# --- certificates -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pem() -> bytes:
    issued = trustme.CA().issue_cert(
        "agent.example.com", "ada@example.com", "192.0.2.1", common_name="Ada", organization_name="Example"
    )
    return issued.cert_chain_pems[0].bytes()


def test_a_certificate_is_read_from_pem_and_from_der(pem: bytes) -> None:
    certificate = PeerCertificate.from_pem(pem)
    der = ssl.PEM_cert_to_DER_cert(pem.decode())
    assert certificate == PeerCertificate.from_der(der)
    assert certificate.subject.startswith("CN=Ada,") or certificate.subject.endswith(",CN=Ada")
    assert certificate.alternative_names == ("dns:agent.example.com", "email:ada@example.com", "ip:192.0.2.1")
    assert certificate.fingerprint == hashlib.sha256(der).hexdigest()
    with pytest.raises(ValueError, match=r"PEM"):
        PeerCertificate.from_pem(b"nothing")


def test_a_certificate_may_have_no_other_names() -> None:
    ca = trustme.CA()
    authority = PeerCertificate.from_pem(ca.cert_pem.bytes())
    assert authority.alternative_names == ()


async def test_any_verified_certificate_is_accepted_where_none_is_listed(pem: bytes) -> None:
    mesh = MutualTls()
    certificate = PeerCertificate.from_pem(pem)
    assert await mesh.verify(PresentedCredentials({}, certificate=certificate)) == Proof(
        f"subject:{certificate.subject}"
    )
    nameless = PeerCertificate("", (), "ab" * 32, b"")
    assert await mesh.verify(PresentedCredentials({}, certificate=nameless)) == Proof("sha256:" + "ab" * 32)
    assert await mesh.verify(PresentedCredentials({"x-forwarded-client-cert": "Subject=CN=Ada"})) is None
    await mesh.close()


async def test_only_listed_certificates_are_accepted_where_some_are_listed(pem: bytes) -> None:
    certificate = PeerCertificate.from_pem(pem)
    credentials = PresentedCredentials({}, certificate=certificate)
    for match in (
        f"subject:{certificate.subject}",
        "dns:Agent.Example.Com",
        "email:ada@example.com",
        "ip:192.0.2.1",
        f"sha256:{certificate.fingerprint}",
    ):
        mesh = MutualTls([AllowedCertificate(match=match, scopes=("a",), tenant="acme")])
        assert await mesh.verify(credentials) == Proof(match, frozenset("a"), tenant="acme")
    for match in ("dns:example.com", "email:ADA@example.com", "subject:CN=Ada", "uri:agent.example.com"):
        with pytest.raises(Refused, match=r"^The certificate is not allowed$"):
            await MutualTls([AllowedCertificate(match=match)]).verify(credentials)


def test_lists_of_certificates_that_cannot_work_are_refused() -> None:
    with pytest.raises(SettingError, match=r"^certificates: the list is empty"):
        MutualTls([])
    for match in ("Ada", "CN:Ada", "sha256:abc", "dns:"):
        with pytest.raises(SettingError, match=r"^certificates\[0\].match: it must be a kind"):
            MutualTls([AllowedCertificate(match=match)])
