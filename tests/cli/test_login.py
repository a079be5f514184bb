"""`parley login`, against real agents and a real authorization server: every flow, and what is kept of it."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import httpx2
import pytest
from typer.main import get_command

from parley.cli import login as command
from parley.cli.login import Wish
from parley.cli.main import app
from parley.client.errors import CredentialsError
from parley.client.oauth_client import Flow, OAuthClient
from parley.client.token_store import FileLogins
from parley.protocol.cards import (
    AgentCard,
    ApiKeyLocation,
    ApiKeyScheme,
    MutualTlsScheme,
    OAuth2Scheme,
    OAuthFlow,
    OAuthFlows,
    OpenIdConnectScheme,
    SecurityRequirement,
    SecurityScheme,
)
from parley.server.schemes.api_keys import ApiKeys
from parley.server.schemes.basic import BasicUser, BasicUsers, hash_password
from parley.server.schemes.jwt_issuer import JwtIssuer
from parley.server.schemes.openid import OpenIdConnect
from parley.server.schemes.stored_secrets import StoredSecret, hash_secret
from parley.server.security import Security
from tests.cli.sampler import SECONDS, parley, sampler_on_a_port
from tests.server.authorization_server import AUDIENCE, CLIENT, PUBLIC_CLIENT, AuthorizationServer, authorization_server


@contextmanager
def issuer_on_a_port() -> Generator[AuthorizationServer]:
    """An authorization server that runs in a thread until the block ends."""
    ready: SimpleQueue[Any] = SimpleQueue()

    async def serve() -> None:
        stop = asyncio.Event()
        async with authorization_server() as issuer:
            ready.put((issuer, asyncio.get_running_loop(), stop))
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    issuer, loop, stop = ready.get(timeout=SECONDS)
    try:
        yield issuer
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(SECONDS)


@pytest.fixture(scope="module")
def issuer() -> Generator[AuthorizationServer]:
    with issuer_on_a_port() as issuer:
        yield issuer


@pytest.fixture(autouse=True)
def logins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FileLogins:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return FileLogins(tmp_path / "parley" / "logins")


def flows_of(issuer: AuthorizationServer) -> OAuthFlows:
    url = issuer.url
    return OAuthFlows(
        client_credentials=OAuthFlow(token_url=f"{url}/token"),
        device_code=OAuthFlow(token_url=f"{url}/token", device_authorization_url=f"{url}/device"),
        authorization_code=OAuthFlow(token_url=f"{url}/token", authorization_url=f"{url}/authorize"),
    )


def guarded(scheme: Any, *scopes: str) -> Security:
    return Security({"company": scheme}, [{"company": scopes}])


def test_a_key_is_asked_for_kept_used_listed_and_forgotten(logins: FileLogins) -> None:
    keys = ApiKeys([StoredSecret(name="ada", hash=hash_secret("k-hush"))])
    with sampler_on_a_port(security=guarded(keys)) as url:
        refused = parley("send", url, "hello")
        assert (refused.exit_code, "parley login" in refused.stderr) == (1, True)
        done = parley("login", url, input="k-hush\n")
        assert (done.exit_code, done.output) == (0, f"Logged in to Sampler at {url}, scheme company.\n")
        assert parley("send", url, "hello").stdout.strip() == "hello"
        assert parley("login", "--list").stdout == f"{url}  company  apikey, until it is forgotten\n"
        assert json.loads(parley("login", "--list", "--json").stdout) == {
            "origin": url,
            "scheme": "company",
            "kind": "apikey",
            "expires": None,
            "renews": False,
        }
        assert parley("login", url, "--forget").stdout.startswith(f"Forgotten: 1 for {url}.")
        assert (logins.all(), parley("send", url, "hello").exit_code) == ([], 1)
        again = parley("login", url, "--forget")
        assert (again.exit_code, f"Nothing is kept for {url}" in again.stderr) == (1, True)


def test_a_name_and_a_password_are_asked_for_together() -> None:
    people = BasicUsers([BasicUser(name="ada", password=hash_password("pw"))])
    with sampler_on_a_port(security=guarded(people)) as url:
        wrong = parley("login", url, input="ada\n")
        assert (wrong.exit_code, "That is no name:password" in wrong.stderr) == (1, True)
        assert parley("login", url, input="ada:pw\n").exit_code == 0
        assert parley("send", url, "hello").stdout.strip() == "hello"


def test_a_code_is_shown_for_another_device(issuer: AuthorizationServer, logins: FileLogins) -> None:
    with sampler_on_a_port(security=guarded(OpenIdConnect(issuer.url, AUDIENCE), "agent:call")) as url:
        done = parley("login", url, "--no-browser", "--client-id", PUBLIC_CLIENT)
        assert (done.exit_code, done.stdout) == (0, f"Logged in to Sampler at {url}, scheme company.\n")
        assert done.stderr == (
            f"The card names the authorization server {issuer.url}.\n"
            f"Open {issuer.url}/here and type in the code WDJB-MJHT\n"
            f"or open {issuer.url}/here?user_code=WDJB-MJHT and compare the code.\n"
        )
        (kept,) = logins.all()
        assert (kept.kind, kept.tokens and kept.tokens.scopes) == (
            "device-code",
            ("agent:call", "openid", "offline_access"),
        )
        assert parley("send", url, "hello").stdout.strip() == "hello"
        assert parley("login", "--list").stdout == f"{url}  company  device-code, renews itself\n"


def test_a_browser_is_opened(issuer: AuthorizationServer, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[threading.Thread] = []

    def browse(url: str) -> bool:
        thread = threading.Thread(target=lambda: httpx2.get(url, follow_redirects=True, timeout=SECONDS))
        opened.append(thread)
        thread.start()
        return True

    monkeypatch.setattr(command.webbrowser, "open", browse)
    scheme = JwtIssuer(issuer.url, AUDIENCE, jwks_url=f"{issuer.url}/keys", flows=flows_of(issuer))
    with sampler_on_a_port(security=guarded(scheme, "agent:call")) as url:
        done = parley("login", url, "--client-id", PUBLIC_CLIENT)
        opened[0].join(SECONDS)
        assert (done.exit_code, done.stdout) == (0, f"Logged in to Sampler at {url}, scheme company.\n")
        assert f"Log in with a browser on this machine at\n{issuer.url}/authorize?response_type=code" in done.stderr
        assert parley("send", url, "hello").stdout.strip() == "hello"
        monkeypatch.setattr(command, "BROWSER_SECONDS", 0.01)
        monkeypatch.setattr(command.webbrowser, "open", lambda url: False)
        nobody = parley("login", url, "--client-id", PUBLIC_CLIENT)
        assert (nobody.exit_code, "Nobody has logged in; try again" in nobody.stderr) == (1, True)


def test_a_machine_logs_in_with_its_secret(issuer: AuthorizationServer, logins: FileLogins) -> None:
    scheme = JwtIssuer(issuer.url, AUDIENCE, jwks_url=f"{issuer.url}/keys", flows=flows_of(issuer))
    with sampler_on_a_port(security=guarded(scheme, "agent:call")) as url:
        env = {"PARLEY_CLIENT_ID": CLIENT[0], "PARLEY_CLIENT_SECRET": CLIENT[1]}
        refused = parley("login", url, env=env)
        assert (refused.exit_code, "The card has the client's secret sent to" in refused.stderr) == (1, True)
        done = parley("login", url, "--issuer", issuer.url, "--scope", "extra", env=env)
        assert (done.exit_code, CLIENT[1] in done.output) == (0, False)
        (kept,) = logins.all()
        assert (kept.kind, kept.tokens and kept.tokens.scopes) == ("client-credentials", ("agent:call", "extra"))
        assert parley("send", url, "hello").stdout.strip() == "hello"


def test_mistakes_are_told_with_their_cure(issuer: AuthorizationServer) -> None:
    assert (parley("login").exit_code, "Which agent?" in parley("login").stderr) == (2, True)
    with sampler_on_a_port() as url:
        assert parley("login", url).stdout == "Sampler demands no credentials.\n"
    with sampler_on_a_port(security=guarded(OpenIdConnect(issuer.url, AUDIENCE))) as url:
        unnamed = parley("login", url)
        assert (unnamed.exit_code, "say it with --client-id" in unnamed.stderr) == (1, True)
        unknown = parley("login", url, "--scheme", "other")
        assert (unknown.exit_code, "The card has no scheme 'other'; it has 'company'" in unknown.stderr) == (1, True)


def test_the_page_on_credentials_names_every_option() -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "credentials.md").read_text()
    options: Any = get_command(app)
    real = {name for option in options.commands["login"].params for name in option.opts if name.startswith("--")}
    shared = {"--help", "--ca", "--cert", "--key", "--allow-private", "--json", "--browser", "--client-secret"}
    assert set(re.findall(r"`(--[a-z-]+)", page)) - {"--no-browser"} == real - shared


# --- which scheme -----------------------------------------------------------------------------------------------------

FLOW = OAuthFlow(token_url="https://login.example/token")
SCHEMES: dict[str, SecurityScheme] = {
    "tls": MutualTlsScheme(),
    "key": ApiKeyScheme(ApiKeyLocation.HEADER, "X-Key"),
    "browser": OAuth2Scheme(OAuthFlows(authorization_code=FLOW)),
    "device": OAuth2Scheme(OAuthFlows(device_code=FLOW)),
    "machine": OAuth2Scheme(OAuthFlows(client_credentials=FLOW)),
    "implicit": OAuth2Scheme(OAuthFlows(implicit=FLOW)),
    "oidc": OpenIdConnectScheme("https://login.example/.well-known/openid-configuration"),
}


def wish(**options: Any) -> Wish:
    usual: dict[str, Any] = {"url": "https://a.example", "scheme": None, "flow": None, "client": None}
    return Wish(**{**usual, "port": 0, "opens_browser": True, "allow_private": False, **options})


def card(*names: str | dict[str, tuple[str, ...]]) -> AgentCard:
    security: list[SecurityRequirement] = [{name: ()} if isinstance(name, str) else name for name in names]
    used = {name: SCHEMES[name] for requirement in security for name in requirement if name in SCHEMES}
    return AgentCard("A", "", "1", (), security_schemes=used, security=tuple(security))


MACHINE = OAuthClient("m", "secret")


@pytest.mark.parametrize(
    ("offered", "wanted", "chosen"),
    [
        (card("tls", "key"), wish(), {"key": ()}),
        (card("device", "browser"), wish(), {"browser": ()}),
        (card("browser", "device"), wish(opens_browser=False), {"device": ()}),
        (card("browser", "device", "machine"), wish(client=MACHINE), {"machine": ()}),
        (card("browser", "device", "key"), wish(flow=Flow.DEVICE_CODE), {"device": ()}),
        (card("implicit", "oidc"), wish(flow=Flow.DEVICE_CODE), {"oidc": ()}),
        (card({"key": (), "browser": ("read",)}), wish(), {"key": (), "browser": ("read",)}),
        (card({"key": (), "browser": ("read",)}), wish(scheme="browser"), {"browser": ("read",)}),
        (card("unexplained"), wish(), {}),
    ],
)
def test_the_alternative_that_fits_who_is_there_is_chosen(
    offered: AgentCard, wanted: Wish, chosen: dict[str, tuple[str, ...]]
) -> None:
    assert command._demanded(offered, wanted) == chosen


@pytest.mark.parametrize(
    ("offered", "wanted", "complaint"),
    [
        (card("tls"), wish(), "demands what cannot be logged in for"),
        (card("implicit"), wish(), "demands what cannot be logged in for"),
        (card("key"), wish(flow=Flow.DEVICE_CODE), "offers no device-code flow"),
    ],
)
def test_what_cannot_be_logged_in_for_is_told(offered: AgentCard, wanted: Wish, complaint: str) -> None:
    with pytest.raises(CredentialsError, match=complaint):
        command._demanded(offered, wanted)


def test_a_scheme_that_was_asked_for_may_have_no_flow_that_fits(issuer: AuthorizationServer) -> None:
    only = OAuthFlows(client_credentials=flows_of(issuer).client_credentials)
    scheme = JwtIssuer(issuer.url, AUDIENCE, jwks_url=f"{issuer.url}/keys", flows=only)
    with sampler_on_a_port(security=guarded(scheme)) as url:
        done = parley("login", url, "--scheme", "company", "--client-id", PUBLIC_CLIENT)
    assert (done.exit_code, "no flow of OAuth 2.0 that fits; see --flow" in done.stderr) == (1, True)


@pytest.mark.parametrize("typed", ["k-hush", ""])
def test_a_person_is_asked_without_showing_what_is_typed(typed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, Any]] = []

    def prompt(text: str, **options: Any) -> str:
        asked.append((text, options))
        return typed

    is_terminal: Callable[[], bool] = lambda: True  # noqa: E731
    monkeypatch.setattr(command.sys.stdin, "isatty", is_terminal, raising=False)
    monkeypatch.setattr(command.typer, "prompt", prompt)
    if typed:
        kept = command._ask_secret(wish(), "key", SCHEMES["key"])
        assert (kept.secret, kept.kind) == ("k-hush", "apikey")
    else:
        with pytest.raises(CredentialsError, match="That is no secret for an API key"):
            command._ask_secret(wish(), "key", SCHEMES["key"])
    assert asked == [
        ("an API key (scheme “key”, header X-Key); the secret", {"hide_input": True, "err": True}),
    ]
