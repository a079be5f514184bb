"""How calls to webhooks are authenticated, over real HTTP, and which configs are refused when they are registered."""

import asyncio
import base64
import dataclasses
import hashlib
import hmac
import logging
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
import trustme
from starlette.responses import JSONResponse, Response

from parley.engine.webhooks.deliveries import DeliveryError
from parley.protocol.errors import InvalidParamsError
from parley.protocol.masking import MASK
from parley.protocol.push import PushAuthentication, PushConfig
from parley.protocol.versions import Version
from parley.server.webhooks.auth_file import parse_webhook_auth
from parley.server.webhooks.auth_settings import WebhookAuthSettings
from parley.server.webhooks.authentication import WebhookAuthenticator
from parley.server.webhooks.guard import check_webhook
from parley.server.webhooks.sender import WebhookSender
from parley.server.webhooks.webhook_tokens import FAILURE_SECONDS, WebhookTokens
from tests.server.authorization_server import CLIENT, AuthorizationServer, authorization_server
from tests.server.webhook_receiver import (
    ANYWHERE,
    DONE,
    TASK,
    KeySigner,
    Webhook,
    answer,
    notification,
    webhook,
)

pytestmark = pytest.mark.anyio

ISSUER = "https://agents.example.com/agents/cook"
SECRET = b"\x00\xffsecret of twenty-four b."
HMAC = f"whsec_{base64.b64encode(SECRET).decode()}"
NOW = 1_800_000_000.7


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


def signing(signer: KeySigner | None = None, settings: WebhookAuthSettings | None = None, **more: Any) -> Any:
    return WebhookAuthenticator(
        settings,
        signer=signer or KeySigner(),
        issuer_of=lambda agent: f"https://agents.example.com/agents/{agent}",
        **more,
    )


def asking(scheme: str, credentials: str | None = None) -> PushAuthentication:
    return PushAuthentication((scheme,), credentials)


def verified(token: str, signer: KeySigner, *, audience: str) -> dict[str, Any]:
    """The claims of a token as PyJWT reads them; it checks the signature, the audience and the issuer."""
    (key,) = jwt.PyJWKSet.from_dict(signer.key_set).keys
    options: Any = {"require": ["iss", "aud", "iat", "exp", "jti"], "verify_exp": False, "verify_iat": False}
    return jwt.decode(token, key, algorithms=["ES256"], audience=audience, issuer=ISSUER, options=options)


# --- API keys ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ApiKey", "apikey", "APIKEY"])
async def test_an_api_key_has_a_header_of_its_own(name: str) -> None:
    async with webhook() as receiver, WebhookSender(ANYWHERE) as sender:
        await sender.send(notification(receiver.url(), authentication=asking(name, "k-1 2")))
        (request,) = receiver.requests
        assert (request.headers["x-api-key"], "authorization" in request.headers) == ("k-1 2", False)


# --- signed tokens ----------------------------------------------------------------------------------------------------


async def test_a_jwt_names_the_agent_the_webhook_the_delivery_and_the_body() -> None:
    signer = KeySigner()
    async with webhook() as receiver, WebhookSender(ANYWHERE, authentication=signing(signer, now=Clock())) as sender:
        await sender.send(notification(receiver.url("/hook?key=1"), authentication=asking("jwt")))
        (request,) = receiver.requests
    scheme, _, token = request.headers["authorization"].partition(" ")
    assert scheme == "Bearer"
    assert jwt.get_unverified_header(token) == {"alg": "ES256", "kid": "k-1", "typ": "JWT"}
    assert verified(token, signer, audience=receiver.url("/hook")) == {
        "iss": ISSUER,
        "aud": receiver.url("/hook"),
        "iat": 1_800_000_000,
        "exp": 1_800_000_300,
        "jti": "t-1:7",
        "taskId": "t-1",
        "request_body_sha256": hashlib.sha256(request.body).hexdigest(),
    }
    assert request.headers["parley-event-id"] == "t-1:7"


class SlowSigner(KeySigner):
    """A key in a KMS that does not answer until it may."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()
        self.may_answer = threading.Event()

    def sign_token(self, claims: Any) -> str:
        self.asked.set()
        self.may_answer.wait(10)
        return super().sign_token(claims)


async def test_a_key_that_signs_slowly_holds_up_its_own_deliveries_only() -> None:
    signer = SlowSigner()
    async with webhook() as receiver, WebhookSender(ANYWHERE, authentication=signing(signer)) as sender:
        signed = asyncio.create_task(sender.send(notification(receiver.url("/a"), authentication=asking("JWT"))))
        await asyncio.to_thread(signer.asked.wait, 5)
        await sender.send(notification(receiver.url("/b"), authentication=asking("Bearer", "b")))
        assert [request.target for request in receiver.requests] == ["/b"]
        signer.may_answer.set()
        await signed
        assert [request.target for request in receiver.requests] == ["/b", "/a"]


async def test_a_key_that_does_not_answer_is_worth_another_try(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("parley.server.signing_threads.SIGN_SECONDS", 0.05)
    signer = SlowSigner()
    try:
        async with webhook() as receiver, WebhookSender(ANYWHERE, authentication=signing(signer)) as sender:
            with pytest.raises(DeliveryError, match="The server could not sign a token for it") as caught:
                await sender.send(notification(receiver.url(), authentication=asking("JWT")))
            assert type(caught.value) is DeliveryError
            assert receiver.requests == []
    finally:
        signer.may_answer.set()
    assert "The key that signs cards and tokens did not answer" in caplog.text


async def test_the_credentials_of_a_jwt_are_its_audience() -> None:
    signer = KeySigner()
    async with webhook() as receiver, WebhookSender(ANYWHERE, authentication=signing(signer)) as sender:
        await sender.send(notification(receiver.url(), authentication=asking("JWT", "my-webhook")))
        (request,) = receiver.requests
    assert verified(request.headers["authorization"][7:], signer, audience="my-webhook")["aud"] == "my-webhook"


async def test_each_attempt_has_a_token_of_its_own_and_the_same_id() -> None:
    signer, clock = KeySigner(), Clock()
    async with webhook() as receiver:
        async with WebhookSender(ANYWHERE, authentication=signing(signer, now=clock)) as sender:
            for _ in range(2):
                await sender.send(notification(receiver.url(), authentication=asking("JWT")))
                clock.now += 3600
        claims = [
            verified(each.headers["authorization"][7:], signer, audience=receiver.url()) for each in receiver.requests
        ]
    assert [one["iat"] for one in claims] == [1_800_000_000, 1_800_003_600]
    assert [one["jti"] for one in claims] == ["t-1:7", "t-1:7"]


@pytest.mark.parametrize(
    ("authentication", "is_signed"),
    [
        (None, True),
        (PushAuthentication(()), True),
        (asking("Bearer"), True),
        (asking("Bearer", "theirs"), False),
        (asking("ApiKey", "theirs"), False),
        (asking("HMAC", HMAC), False),
    ],
)
async def test_a_server_may_sign_all_that_name_no_authentication(authentication: Any, is_signed: bool) -> None:
    signer = KeySigner()
    settings = parse_webhook_auth('sign = "always"')
    async with webhook() as receiver, WebhookSender(ANYWHERE, authentication=signing(signer, settings)) as sender:
        await sender.send(notification(receiver.url(), authentication=authentication))
        (request,) = receiver.requests
    token = request.headers.get("authorization", "")[7:]
    if is_signed:
        assert verified(token, signer, audience=receiver.url())["jti"] == "t-1:7"
    else:
        assert "." not in token


def test_a_server_without_a_key_cannot_sign_everything() -> None:
    with pytest.raises(ValueError, match="no key to sign with"):
        WebhookAuthenticator(parse_webhook_auth('sign = "always"'))


# --- Bearer without credentials ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", Version)
async def test_bearer_without_credentials_is_a_token_that_the_server_signs(version: Version) -> None:
    """The asymmetric key flow of the document of 0.2."""
    signer, event = KeySigner(), DONE if version is Version.V1_0 else TASK
    async with webhook() as receiver, WebhookSender(ANYWHERE, authentication=signing(signer)) as sender:
        await sender.send(notification(receiver.url(), event, version=version, authentication=asking("bearer")))
        (request,) = receiver.requests
    assert verified(request.headers["authorization"][7:], signer, audience=receiver.url())["taskId"] == "t-1"


@pytest.mark.parametrize("sign", ["when-asked", "always"])
async def test_bearer_without_credentials_is_the_operators_token_at_a_host_that_has_one(sign: str) -> None:
    async with authorization_server() as server, webhook() as receiver:
        settings = dataclasses.replace(oauth_settings(server, receiver), sign=sign)
        async with WebhookSender(ANYWHERE, authentication=signing(settings=settings)) as sender:
            await sender.send(notification(receiver.url(), authentication=asking("Bearer")))
            await sender.send(notification(receiver.url(), authentication=asking("Bearer", "theirs")))
        issued, given = tokens_of(receiver)
        (key,) = jwt.PyJWKSet.from_dict({"keys": [one.as_dict(private=False) for one in server.keys]}).keys
        claims = jwt.decode(issued, key, algorithms=["ES256"], options={"verify_aud": False})
    assert (claims["sub"], given) == (CLIENT[0], "theirs")


async def test_bearer_without_credentials_is_not_the_operators_token_where_others_can_read_it() -> None:
    signer = KeySigner()
    config = PushConfig("http://plain.example.com/x", authentication=asking("Bearer"))
    authenticator = signing(signer, OAUTH)
    authenticator.check(config)
    headers = await authenticator.headers(
        authenticator.call(notification(config.url, authentication=asking("Bearer")), b"")
    )
    assert verified(headers["Authorization"][7:], signer, audience=config.url)["jti"] == "t-1:7"


async def test_settings_may_be_replaced_while_a_webhook_is_being_called() -> None:
    bearer, either = asking("Bearer"), PushAuthentication(("HMAC", "Bearer"))
    authenticator = WebhookAuthenticator()
    call = authenticator.call(notification(URL, authentication=bearer), b"")
    headers = await authenticator.headers(call)
    authenticator.use(OAUTH)
    authenticator.refused(call, headers)
    authenticator.check(PushConfig(URL, authentication=either))
    authenticator.use(WebhookAuthSettings())
    with pytest.raises(DeliveryError, match="HMAC"):
        await authenticator.headers(authenticator.call(notification(URL, authentication=either), b""))


# --- several names of schemes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "credentials", "header", "value"),
    [
        (("OAuth2", "mTLS", "BASIC"), "c2VjcmV0", "authorization", "BASIC c2VjcmV0"),
        (("mtls", "APIKEY", "Bearer"), "k-1", "x-api-key", "k-1"),
        (("JWT", "Bearer"), "b-1", "authorization", "Bearer b-1"),
        (("Bearer", "HMAC"), HMAC, "authorization", f"Bearer {HMAC}"),
        (("OAuth2", "hmac", "Bearer"), HMAC, "webhook-id", "t-1:7"),
        (("Bearer", "HMAC"), None, "authorization", None),
    ],
)
async def test_the_first_name_that_the_server_can_follow_counts(
    names: tuple[str, ...], credentials: str | None, header: str, value: str | None
) -> None:
    authentication = PushAuthentication(names, credentials)
    async with webhook() as receiver, WebhookSender(ANYWHERE) as sender:
        config = PushConfig(receiver.url(), authentication=authentication)
        check_webhook(config, ANYWHERE, version=Version.V0_3, authentication=WebhookAuthenticator())
        await sender.send(notification(receiver.url(), TASK, version=Version.V0_2, authentication=authentication))
        (request,) = receiver.requests
    expected = value.replace("t-1:7", "t-1:0.2:7") if value else None
    assert request.headers.get(header) == expected
    found = {"authorization", "x-api-key", "webhook-id"} & set(request.headers)
    assert found == ({header} if value else set())


@pytest.mark.parametrize("names", [("ApiKey", "JWT"), ("HMAC", "Bearer"), ("Custom", "Basic", "bearer")])
async def test_without_credentials_the_server_signs_if_one_of_the_names_says_so(names: tuple[str, ...]) -> None:
    signer = KeySigner()
    authentication = PushAuthentication(names)
    async with webhook() as receiver, WebhookSender(ANYWHERE, authentication=signing(signer)) as sender:
        await sender.send(notification(receiver.url(), authentication=authentication))
        (request,) = receiver.requests
    assert verified(request.headers["authorization"][7:], signer, audience=receiver.url())["jti"] == "t-1:7"


async def test_a_certificate_is_presented_also_if_another_scheme_is_named_before(
    tmp_path: Path, authority: trustme.CA
) -> None:
    write_certificate(tmp_path, authority)
    async with webhook(tls=receiver_tls(authority)) as receiver:
        settings = parse_webhook_auth(MTLS.format(port=receiver.port), directory=tmp_path)
        async with WebhookSender(ANYWHERE, authentication=WebhookAuthenticator(settings)) as sender:
            told = notification(receiver.url(scheme="https"), authentication=PushAuthentication(("Bearer", "mTLS")))
            await sender.send(told)
        assert (len(receiver.certificates), all(receiver.certificates)) == (1, True)


@pytest.mark.parametrize(
    ("names", "credentials", "member", "text"),
    [
        (("OAuth2", "HMAC", "Bearer"), "s3cret", "credentials", "The secret of HMAC must be"),  # not sent in plain
        (("mTLS", "Bea\rer"), "b", "schemes[1]", "The name of a scheme must be printable"),
        (("OAuth2", "mTLS"), None, "schemes[0]", "This server has no OAuth2 settings"),
        (("HMAC", "Bearer"), None, "credentials", "The secret of HMAC must be"),
        (("Basic", "Custom"), None, "credentials", "Basic needs credentials"),
    ],
)
def test_where_no_name_can_be_followed_the_error_is_about_the_first_that_the_credentials_suit(
    names: tuple[str, ...], credentials: str | None, member: str, text: str
) -> None:
    config = PushConfig(URL, authentication=PushAuthentication(names, credentials))
    with pytest.raises(InvalidParamsError) as refusal:
        check_webhook(config, version=Version.V0_2, authentication=WebhookAuthenticator())
    assert refusal.value.path == f"$.authentication.{member}"
    assert refusal.value.message.startswith(text)


async def test_a_webhook_without_credentials_that_was_registered_before_they_were_demanded_is_still_called() -> None:
    async with webhook() as receiver, WebhookSender(ANYWHERE) as sender:
        for name in ("ApiKey", "Basic"):
            await sender.send(notification(receiver.url(), authentication=asking(name)))
        assert [{"authorization", "x-api-key"} & set(each.headers) for each in receiver.requests] == [set(), set()]


# --- HMAC -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", Version)
async def test_an_hmac_is_over_the_id_the_time_and_the_bytes_that_are_sent(version: Version) -> None:
    event = DONE if version is Version.V1_0 else TASK
    async with webhook() as receiver, WebhookSender(ANYWHERE, authentication=signing(now=Clock())) as sender:
        await sender.send(notification(receiver.url(), event, version=version, authentication=asking("HMAC", HMAC)))
        (request,) = receiver.requests
    identifier, timestamp = request.headers["webhook-id"], request.headers["webhook-timestamp"]
    expected_id = "t-1:7" if version is Version.V1_0 else f"t-1:{version}:7"
    assert (identifier, timestamp) == (expected_id, "1800000000")
    signed = f"{identifier}.{timestamp}.".encode() + request.body
    expected = base64.b64encode(hmac.new(SECRET, signed, hashlib.sha256).digest()).decode()
    assert request.headers["webhook-signature"] == f"v1,{expected}"
    assert "authorization" not in request.headers


# --- OAuth2 -----------------------------------------------------------------------------------------------------------


def oauth_settings(server: AuthorizationServer, receiver: Webhook, **more: str) -> WebhookAuthSettings:
    lines = "\n".join(f"{name} = {value}" for name, value in more.items())
    return parse_webhook_auth(
        f"""
        [[oauth2]]
        hosts = ["127.0.0.1:{receiver.port}"]
        token_url = "{server.url}/token"
        client_id = "{CLIENT[0]}"
        client_secret = "env:HOOK_SECRET"
        {lines}
        """,
        environ={"HOOK_SECRET": CLIENT[1]},
    )


def oauth_sender(settings: WebhookAuthSettings, now: Callable[[], float] | None = None, **more: Any) -> WebhookSender:
    async def no_pause(seconds: float) -> None:
        pass

    tokens = WebhookTokens(**({"now": now} if now else {}), sleep=no_pause, **more)
    return WebhookSender(ANYWHERE, authentication=WebhookAuthenticator(settings, tokens=tokens))


def tokens_of(receiver: Webhook) -> list[str]:
    return [request.headers["authorization"].removeprefix("Bearer ") for request in receiver.notifications]


async def test_a_token_of_the_authorization_server_is_fetched_once_for_all_calls() -> None:
    async with authorization_server() as server, webhook() as receiver:
        settings = oauth_settings(server, receiver, scopes='["notify"]', audience='"https://hooks.example"')
        async with oauth_sender(settings) as sender:
            told = notification(receiver.url(), authentication=asking("OAuth2"))
            await asyncio.gather(*(sender.send(told) for _ in range(5)))
            await sender.send(told)
        (form,) = server.forms
        assert form == {"grant_type": "client_credentials", "scope": "notify", "audience": "https://hooks.example"}
        (token,) = set(tokens_of(receiver))
        (key,) = jwt.PyJWKSet.from_dict({"keys": [one.as_dict(private=False) for one in server.keys]}).keys
        claims = jwt.decode(token, key, algorithms=["ES256"], options={"verify_aud": False})
        assert (claims["sub"], claims["scope"]) == (CLIENT[0], "notify")


async def test_a_token_is_replaced_shortly_before_it_expires() -> None:
    clock = Clock()
    async with authorization_server() as server, webhook() as receiver:
        server.token_seconds = 600
        async with oauth_sender(oauth_settings(server, receiver), clock) as sender:
            told = notification(receiver.url(), authentication=asking("oauth2"))
            for seconds in (0, 560, 15):  # 30 seconds before its end a token is good no more
                clock.now += seconds
                await sender.send(told)
        first, second, third = tokens_of(receiver)
        assert (first == second, second == third, len(server.forms)) == (True, False, 2)


async def test_a_token_that_the_webhook_refuses_is_not_used_again() -> None:
    statuses = [401, 200, 200]
    async with authorization_server() as server, webhook(lambda _: answer(statuses.pop(0))) as receiver:
        async with oauth_sender(oauth_settings(server, receiver)) as sender:
            told = notification(receiver.url(), authentication=asking("OAuth2"))
            with pytest.raises(DeliveryError, match="status 401"):
                await sender.send(told)
            await sender.send(told)
            await sender.send(told)
        refused, *others = tokens_of(receiver)
        assert (refused in others, len(set(others)), len(server.forms)) == (False, 1, 2)


@pytest.mark.parametrize(
    "reply",
    [
        JSONResponse({"error": "invalid_client", "error_description": f"not {CLIENT[1]}"}, status_code=401),
        Response(status_code=500),
        JSONResponse({}),
        JSONResponse({"access_token": "x\r\ny: z"}),
        JSONResponse({"access_token": "mac", "token_type": "mac"}),
        Response("x" * 600_000),
        Response(status_code=302, headers={"location": "https://elsewhere.example"}),
    ],
)
async def test_an_authorization_server_that_fails_is_asked_again_later(
    reply: Response, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monotonic = Clock()
    async with authorization_server() as server, webhook() as receiver:
        server.token_answers = [reply] * 3
        async with oauth_sender(oauth_settings(server, receiver), clock=monotonic) as sender:
            told = notification(receiver.url(), authentication=asking("OAuth2"))
            for _ in range(2):  # the second does not ask again so soon
                with pytest.raises(DeliveryError) as failure:
                    await sender.send(told)
                assert failure.value.message == "The server could not get an access token for it"
                assert type(failure.value) is DeliveryError
            asked = len(server.forms)
            server.token_answers = []
            monotonic.now += FAILURE_SECONDS
            await sender.send(told)
        assert (len(server.forms) - asked, len(receiver.requests)) == (1, 1)
    assert "No access token for webhooks from http://127.0.0.1" in caplog.text
    assert CLIENT[1] not in caplog.text


async def test_an_authorization_server_that_does_not_answer_holds_a_delivery_up_for_a_while_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("parley.server.webhooks.webhook_tokens.FETCH_SECONDS", 0.05)
    async with authorization_server() as server, webhook() as receiver:
        server.gate = asyncio.Event()
        async with oauth_sender(oauth_settings(server, receiver)) as sender:
            told = notification(receiver.url(), authentication=asking("OAuth2"))
            failures = await asyncio.gather(*(sender.send(told) for _ in range(3)), return_exceptions=True)
        assert [str(failure) for failure in failures] == ["The server could not get an access token for it"] * 3
        assert receiver.requests == []


# --- mutual TLS -------------------------------------------------------------------------------------------------------


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


def receiver_tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


def write_certificate(directory: Path, authority: trustme.CA) -> None:
    issued = authority.issue_cert("parley@example.com", common_name="parley")
    (directory / "client.pem").write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(directory / "client.key")
    authority.cert_pem.write_to_path(directory / "ca.pem")


MTLS = '[[mtls]]\nhosts = ["127.0.0.1:{port}"]\ncertificate = "client.pem"\nkey = "client.key"\nauthorities = "ca.pem"'


async def test_a_certificate_is_presented_to_webhooks_that_ask_for_it_and_to_no_others(
    tmp_path: Path, authority: trustme.CA
) -> None:
    write_certificate(tmp_path, authority)
    plain = ssl.create_default_context()
    authority.configure_trust(plain)
    async with webhook(tls=receiver_tls(authority)) as receiver:
        settings = parse_webhook_auth(MTLS.format(port=receiver.port), directory=tmp_path)
        async with WebhookSender(ANYWHERE, tls=plain, authentication=WebhookAuthenticator(settings)) as sender:
            url = receiver.url(scheme="https")
            await sender.send(notification(url, authentication=asking("mTLS")))
            await sender.send(notification(url))
            await sender.send(notification(url, authentication=asking("mtls")))
        names = [
            dict(part for (part,) in certificate["subject"]).get("commonName") if certificate else None
            for certificate in receiver.certificates
        ]
    assert names == ["parley", None, "parley"]


async def test_a_renewed_certificate_is_presented_without_a_restart(tmp_path: Path, authority: trustme.CA) -> None:
    write_certificate(tmp_path, authority)
    async with webhook(tls=receiver_tls(authority)) as receiver:
        settings = parse_webhook_auth(MTLS.format(port=receiver.port), directory=tmp_path)
        async with WebhookSender(ANYWHERE, authentication=WebhookAuthenticator(settings)) as sender:
            told = notification(receiver.url(scheme="https"), authentication=asking("mTLS"))
            await sender.send(told)
            await sender.send(told)
            write_certificate(tmp_path, authority)
            await sender.send(told)
        first, second, third = (certificate["serialNumber"] for certificate in receiver.certificates)
    assert (first == second, second == third) == (True, False)


async def test_a_certificate_that_is_gone_is_worth_another_try(tmp_path: Path, authority: trustme.CA) -> None:
    write_certificate(tmp_path, authority)
    async with webhook(tls=receiver_tls(authority)) as receiver:
        settings = parse_webhook_auth(MTLS.format(port=receiver.port), directory=tmp_path)
        async with WebhookSender(ANYWHERE, authentication=WebhookAuthenticator(settings)) as sender:
            told = notification(receiver.url(scheme="https"), authentication=asking("mTLS"))
            content = (tmp_path / "client.key").read_bytes()
            (tmp_path / "client.key").unlink()
            with pytest.raises(DeliveryError, match="cannot read its client certificate") as failure:
                await sender.send(told)
            assert type(failure.value) is DeliveryError
            (tmp_path / "client.key").write_bytes(content)
            await sender.send(told)
        assert len(receiver.notifications) == 1


# --- what is refused when it is registered ----------------------------------------------------------------------------


URL = "https://hooks.example.com/x"
OAUTH = WebhookAuthSettings(
    oauth2=parse_webhook_auth(
        '[[oauth2]]\nhosts = ["hooks.example.com", "plain.example.com:80"]\ntoken_url = "https://login.example.com/t"\n'
        'client_id = "a"\nclient_secret = "b"'
    ).oauth2
)


def secret_of(length: int) -> str:
    return f"whsec_{base64.b64encode(bytes(range(length))).decode()}"


REFUSED: list[tuple[str, str | None, str, str, str]] = [
    ("ApiKey", None, URL, "credentials", "ApiKey needs credentials"),
    ("basic", None, URL, "credentials", "Basic needs credentials"),
    ("Basic", "", URL, "credentials", "Basic needs credentials"),
    ("ApiKey", "k\r\ny: z", URL, "credentials", "An API key must be printable ASCII, up to 8192 characters"),
    ("JWT", None, URL, "scheme", "This server has no key to sign tokens for webhooks with"),
    ("jwt", "aud", URL, "scheme", "This server has no key to sign tokens for webhooks with"),
    ("OAuth2", None, URL, "scheme", "This server has no OAuth2 settings for the host of the webhook"),
    ("OAuth2", "s3cret", URL, "credentials", "OAuth2 takes no credentials from callers"),
    ("mTLS", None, URL, "scheme", "This server has no client certificate for the host of the webhook"),
    ("mTLS", "s3cret", URL, "credentials", "mTLS takes no credentials from callers"),
]
HMAC_SECRETS = [
    None,
    "",
    "s3cret",
    "whsec_",
    secret_of(23),
    secret_of(65),
    secret_of(24).removeprefix("whsec_"),
    secret_of(24).upper(),
    secret_of(25).rstrip("="),
    f"{secret_of(24)}!",
    f" {secret_of(24)}",
    f"{secret_of(24)}\n",
    "whsec_ü" + "A" * 40,
]
PLAIN = "The secret of HMAC must be whsec_ and the base64 of 24 to 64 random bytes"


@pytest.mark.parametrize(
    ("scheme", "credentials", "url", "member", "text"),
    [*REFUSED, *(("HMAC", secret, URL, "credentials", PLAIN) for secret in HMAC_SECRETS)],
)
def test_what_the_server_cannot_do_is_refused_with_its_path(
    scheme: str, credentials: str | None, url: str, member: str, text: str
) -> None:
    config = PushConfig(url, authentication=asking(scheme, credentials))
    authentication = WebhookAuthenticator()
    for version in Version:
        if version is Version.V0_1 and scheme == "JWT" and credentials is None:  # as the document of 0.1 has it
            check_webhook(config, version=version, authentication=authentication)
            continue
        with pytest.raises(InvalidParamsError) as refusal:
            check_webhook(config, path="$.hook", version=version, authentication=authentication)
        name = "schemes[0]" if member == "scheme" and version is not Version.V1_0 else member
        assert refusal.value.path == f"$.hook.authentication.{name}"
        assert refusal.value.message.startswith(text)
        if credentials and credentials not in text:
            assert credentials not in repr(refusal.value) + refusal.value.message


@pytest.mark.parametrize(
    ("scheme", "url", "path"),
    [
        ("OAuth2", "http://plain.example.com/x", "$.url"),  # a token is not sent where others can read it
        ("OAuth2", "https://hooks.example.com:8443/x", "$.authentication.scheme"),  # another service of that host
        ("OAuth2", "https://sub.hooks.example.com/x", "$.authentication.scheme"),
        ("mTLS", "http://plain.example.com/x", "$.url"),
    ],
)
def test_the_credentials_of_the_operator_go_only_where_the_operator_says(scheme: str, url: str, path: str) -> None:
    with pytest.raises(InvalidParamsError) as refusal:
        WebhookAuthenticator(OAUTH).check(PushConfig(url, authentication=asking(scheme)))
    assert refusal.value.path == path


@pytest.mark.parametrize(
    ("scheme", "credentials"),
    [
        *(("HMAC", secret_of(length)) for length in (24, 32, 64)),
        ("JWT", None),
        ("JWT", "audience"),
        ("OAuth2", None),
        ("Bearer", None),
        ("ApiKey", MASK),
        ("Custom", "x"),
        ("Custom", None),
    ],
)
def test_what_the_server_can_do_is_accepted(scheme: str, credentials: str | None) -> None:
    authentication = signing(settings=OAUTH)
    check_webhook(PushConfig(URL, authentication=asking(scheme, credentials)), authentication=authentication)


LONGEST = {"Bearer": 8_192 - len("Bearer "), "ApiKey": 8_192, "JWT": 2_048}


@pytest.mark.parametrize("version", list(Version))
@pytest.mark.parametrize("scheme", LONGEST)
async def test_the_longest_credentials_that_are_accepted_are_sent(scheme: str, version: Version) -> None:
    """A little more is refused when it is registered, because no delivery could carry it."""
    authenticator, longest = signing(), "k" * LONGEST[scheme]
    for credentials in (f"{longest}k", longest[:-1] + "\x7f"):
        config = PushConfig(URL, authentication=asking(scheme, credentials))
        with pytest.raises(InvalidParamsError) as refusal:
            check_webhook(config, path="$.hook", version=version, authentication=authenticator)
        assert refusal.value.path == "$.hook.authentication.credentials"
    async with webhook() as receiver, WebhookSender(ANYWHERE, authentication=authenticator) as sender:
        config = PushConfig(receiver.url(), authentication=asking(scheme, longest))
        check_webhook(config, ANYWHERE, version=version, authentication=authenticator)
        event = DONE if version is Version.V1_0 else TASK
        told = notification(receiver.url(), event, version=version, authentication=config.authentication)
        await sender.send(told)
        (request,) = receiver.requests
    sent = request.headers["x-api-key" if scheme == "ApiKey" else "authorization"]
    assert sent == {"Bearer": f"Bearer {longest}", "ApiKey": longest}.get(scheme, sent)
    assert len(sent) <= 8_192


@pytest.mark.parametrize("version", list(Version))
def test_an_audience_counts_as_the_token_carries_it(version: Version) -> None:
    config = PushConfig(URL, authentication=asking("JWT", '"' * 1_025))
    with pytest.raises(InvalidParamsError) as refusal:
        check_webhook(config, path="$.hook", version=version, authentication=signing())
    assert refusal.value.path == "$.hook.authentication.credentials"


def test_a_scheme_that_no_header_can_carry_is_refused_with_its_path() -> None:
    config = PushConfig(URL, authentication=asking("Bea\rer", "b"))
    for version in Version:
        with pytest.raises(InvalidParamsError) as refusal:
            check_webhook(config, path="$.hook", version=version, authentication=signing())
        name = "scheme" if version is Version.V1_0 else "schemes[0]"
        assert refusal.value.path == f"$.hook.authentication.{name}"


def test_where_another_server_calls_the_webhook_its_schemes_are_not_judged() -> None:
    check_webhook(PushConfig(URL, authentication=asking("JWT")))
    check_webhook(PushConfig(URL, authentication=asking("HMAC", "any secret")))


@pytest.mark.parametrize("authentication", [asking("JWT"), asking("OAuth2"), asking("mTLS"), asking("HMAC", "s3cret")])
async def test_a_scheme_that_the_operator_has_turned_off_is_worth_another_try(authentication: Any) -> None:
    async with webhook() as receiver, WebhookSender(ANYWHERE) as sender:
        with pytest.raises(DeliveryError) as failure:
            await sender.send(notification(receiver.url(), authentication=authentication))
        assert (type(failure.value), receiver.requests) == (DeliveryError, [])
        assert "s3cret" not in str(failure.value)


def test_secrets_are_not_shown() -> None:
    shown = repr(
        parse_webhook_auth(
            '[[oauth2]]\nhosts = ["a.example"]\ntoken_url = "https://l.example/t"\n'
            'client_id = "a"\nclient_secret = "s3cret"'
        )
    )
    assert "s3cret" not in shown
