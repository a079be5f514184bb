"""Whatever a request brings, nothing comes out but an identity or one of the two errors."""

import asyncio
import json
from base64 import b64encode, urlsafe_b64encode

from hypothesis import given, settings
from hypothesis import strategies as st

from parley.protocol.cards import ApiKeyLocation
from parley.protocol.errors import UnauthenticatedError, UnavailableError
from parley.protocol.jsonvalue import JsonObject
from parley.server.security.authentication import Security, challenges_of
from parley.server.security.credentials import PresentedCredentials
from parley.server.security.schemes.api_keys import ApiKeys
from parley.server.security.schemes.basic import BasicUser, BasicUsers
from parley.server.security.schemes.jwt import ALGORITHMS, JwtVerifier
from parley.server.security.schemes.key_set import KeySet
from parley.server.security.schemes.mutual_tls import MutualTls
from parley.server.security.schemes.scheme import Refused
from parley.server.security.schemes.stored_secrets import StoredSecret, hash_secret
from parley.server.security.schemes.token_claims import ClaimRules, prove_claims
from parley.server.security.schemes.tokens import BearerTokens
from tests.server.authorization_server import new_key
from tests.server.test_security_schemes import cheap

STORED = [StoredSecret(name="ci", hash=hash_secret("t0ken"))]
SECURITY = Security(
    {
        "token": BearerTokens(STORED),
        "header": ApiKeys(STORED),
        "query": ApiKeys(STORED, location=ApiKeyLocation.QUERY, parameter="key"),
        "cookie": ApiKeys(STORED, location=ApiKeyLocation.COOKIE, parameter="key"),
        "people": BasicUsers([BasicUser(name="ada", password=cheap("right"))]),
        "mesh": MutualTls(),
    }
)
KEY = new_key("first").as_dict(private=False)
RULES = ClaimRules(issuer="i", audience=("a",), tenant_claim="t")

texts = st.text(max_size=40) | st.text(st.characters(codec="latin-1"), max_size=40)
pairs = st.binary(max_size=30).map(lambda raw: b64encode(raw).decode())
headers = st.builds(
    lambda scheme, gap, token: scheme + gap + token,
    st.sampled_from(["Bearer", "bearer", "Basic", "BASIC", "Digest", ""]),
    st.sampled_from([" ", "  ", "", "\t", ","]),
    texts | pairs,
)
values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
claims = st.fixed_dictionaries(
    {},
    optional={
        "iss": st.just("i") | values,
        "aud": st.just(["a"]) | values,
        "exp": st.just(9e9) | values,
        "nbf": values,
        "sub": st.just("ada") | values,
        "cnf": values | st.dictionaries(st.just("x5t#S256"), values),
        "scope": values,
        "scp": values,
        "t": st.just("acme") | values,
    },
)


@settings(max_examples=300, deadline=None)
@given(headers | texts, texts, texts, st.lists(texts, max_size=2))
def test_no_header_brings_anything_but_an_identity_or_a_refusal(
    authorization: str, key: str, cookie: str, query: list[str]
) -> None:
    async def bring() -> None:
        credentials = PresentedCredentials(
            {"authorization": authorization, "x-api-key": key, "cookie": f"key={cookie}"}, {"key": query}
        )
        try:
            await SECURITY.authenticate(credentials)
        except UnauthenticatedError as error:
            for challenge in challenges_of(error):
                assert challenge.isascii()
                assert challenge.isprintable()
        finally:
            await SECURITY.close()

    asyncio.run(bring())


@settings(max_examples=300, deadline=None)
@given(claims)
def test_no_claims_bring_anything_but_a_proof_or_a_refusal(given: JsonObject) -> None:
    try:
        proof = prove_claims(given, RULES, PresentedCredentials({}), 1_000_000)
    except Refused:
        return
    assert (given.get("iss", "i"), proof.subject, proof.tenant) == ("i", given["sub"], given["t"])


segments = st.one_of(
    st.binary(max_size=60),
    values.map(lambda value: json.dumps(value).encode()),
    st.fixed_dictionaries(
        {"alg": st.sampled_from([*ALGORITHMS, "none", "HS256", "RS1"]) | values},
        optional={"kid": st.just("first") | values, "typ": values, "crit": values},
    ).map(lambda header: json.dumps(header).encode()),
    claims.map(lambda value: json.dumps(value).encode()),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(segments, min_size=2, max_size=4), st.booleans())
def test_no_token_brings_anything_but_a_refusal(parts: list[bytes], is_away: bool) -> None:
    """Nobody here can sign, so there is nothing that could be accepted."""

    async def fetch() -> JsonObject:
        if is_away:
            raise UnavailableError
        return {"keys": [dict(KEY)]}

    async def verify() -> None:
        text = ".".join(urlsafe_b64encode(part).decode().rstrip("=") for part in parts)
        try:
            await JwtVerifier(RULES, KeySet(fetch), ALGORITHMS).verify(text, PresentedCredentials({}), 1_000_000)
        except Refused:
            return
        except UnavailableError:
            assert is_away
            return
        raise AssertionError("It was accepted")

    asyncio.run(verify())
