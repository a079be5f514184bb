"""`parley login`, against real agents and a real authorization server: every flow, and what is kept of it."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import httpx2
import pytest
from msgspec import structs
from scripts.terminal import terminal
from typer.main import get_command

from parley.cli.login import credentials as login_secrets
from parley.cli.login.choice import LoginOptions, chosen_requirement
from parley.cli.main import app
from parley.cli.options.client import ClientOptions
from parley.client.credentials.oauth_client import Flow, OAuthClient
from parley.client.credentials.token_store import FileLogins
from parley.client.errors import CredentialsError
from parley.protocol.cards import (
    AgentCard,
    ApiKeyLocation,
    ApiKeyScheme,
    HttpAuthScheme,
    MutualTlsScheme,
    OAuth2Scheme,
    OAuthFlow,
    OAuthFlows,
    OpenIdConnectScheme,
    SecurityRequirement,
    SecurityScheme,
)
from parley.server.security.authentication import Security
from parley.server.security.schemes.api_keys import ApiKeys
from parley.server.security.schemes.basic import BasicUser, BasicUsers, hash_password
from parley.server.security.schemes.jwt_issuer import JwtIssuer
from parley.server.security.schemes.openid import OpenIdConnect
from parley.server.security.schemes.stored_secrets import StoredSecret, hash_secret
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
        assert parley("login", "--list").stdout == f"{url}  company  apikey, expiry unknown\n"
        assert json.loads(parley("login", "--list", "--json").stdout) == {
            "origin": url,
            "scheme": "company",
            "kind": "apikey",
            "expires": None,
            "renews": False,
        }
        assert parley("login", url, "--forget").stderr.startswith(f"Deleted: 1 for {url}.")
        assert (logins.all(), parley("send", url, "hello").exit_code) == ([], 1)
        again = parley("login", url, "--forget")
        assert (again.exit_code, f"There is no stored login for {url}" in again.stderr) == (1, True)


def test_what_the_agent_refuses_is_not_kept_and_what_was_kept_stays(logins: FileLogins) -> None:
    keys = ApiKeys([StoredSecret(name="ada", hash=hash_secret("k-hush"))])
    with sampler_on_a_port(security=guarded(keys)) as url:
        assert parley("login", url, input="k-hush\n").exit_code == 0
        wrong = parley("login", url, input="k-other\n")
        assert (wrong.exit_code, wrong.stdout, "which is not stored" in wrong.stderr) == (1, "", True)
        assert [kept.secret for kept in logins.all()] == ["k-hush"]


def test_what_cannot_be_tried_is_kept_and_told(logins: FileLogins) -> None:
    """As where the card demands two things, and only one is logged in for."""
    keys = ApiKeys([StoredSecret(name="ada", hash=hash_secret("k-hush"))])
    others = ApiKeys([StoredSecret(name="ada", hash=hash_secret("k-more"))], parameter="X-More")
    both = Security({"company": keys, "more": others}, [{"company": (), "more": ()}])
    with sampler_on_a_port(security=both) as url:
        done = parley("login", url, "--scheme", "company", input="k-hush\n")
        assert (done.exit_code, done.stdout) == (0, f"Stored for Sampler at {url}, scheme company.\n")
        assert done.stderr.startswith("The login could not be tested: The agent demands ")
        assert [kept.secret for kept in logins.all()] == ["k-hush"]


def test_a_login_that_is_refused_later_is_told_as_one(logins: FileLogins) -> None:
    keys = ApiKeys([StoredSecret(name="ada", hash=hash_secret("k-hush"))])
    with sampler_on_a_port(security=guarded(keys)) as url:
        assert parley("login", url, input="k-hush\n").exit_code == 0
        (kept,) = logins.all()
        logins.put(structs.replace(kept, secret="k-old"))
        kept_one = parley("send", url, "hello")
        given = parley("send", url, "hello", "--token", "k-wrong")
    assert f"The agent refused the stored login; log in again: parley login {url}" in kept_one.stderr
    assert "The agent refused the credentials." in given.stderr
    assert ("--token" in given.stderr, "--trust" in given.stderr) == (False, False)


def test_a_name_and_a_password_are_asked_for_together() -> None:
    people = BasicUsers([BasicUser(name="ada", password=hash_password("pw"))])
    with sampler_on_a_port(security=guarded(people)) as url:
        wrong = parley("login", url, input="ada\n")
        assert (wrong.exit_code, "Not a valid name:password" in wrong.stderr) == (1, True)
        assert parley("login", url, input="ada:pw\n").exit_code == 0
        assert parley("send", url, "hello").stdout.strip() == "hello"


def test_a_code_is_shown_for_another_device(issuer: AuthorizationServer, logins: FileLogins) -> None:
    with sampler_on_a_port(security=guarded(OpenIdConnect(issuer.url, AUDIENCE), "agent:call")) as url:
        done = parley("login", url, "--no-browser", "--client-id", PUBLIC_CLIENT)
        assert (done.exit_code, done.stdout) == (0, f"Logged in to Sampler at {url}, scheme company.\n")
        assert done.stderr == (
            f"Tokens come from {issuer.url}.\n"
            f"Open {issuer.url}/here and enter the code WDJB-MJHT\n"
            f"or open {issuer.url}/here?user_code=WDJB-MJHT and compare the code.\n"
        )
        (kept,) = logins.all()
        assert (kept.kind, kept.tokens and kept.tokens.scopes) == (
            "device-code",
            ("agent:call", "openid", "offline_access"),
        )
        assert parley("send", url, "hello").stdout.strip() == "hello"
        assert parley("login", "--list").stdout == f"{url}  company  device-code, renewed automatically\n"


def test_a_card_that_does_not_say_whose_tokens_it_wants_is_helped_by_the_issuer(
    issuer: AuthorizationServer, logins: FileLogins
) -> None:
    scheme = JwtIssuer(issuer.url, AUDIENCE, jwks_url=f"{issuer.url}/keys")
    with sampler_on_a_port(security=guarded(scheme)) as url:
        words = ("--client-id", PUBLIC_CLIENT, "--issuer", issuer.url, "--flow", "device-code", "--scope", "agent:call")
        assert parley("login", url, *words).exit_code == 0
        (kept,) = logins.all()
        assert (kept.kind, kept.secret) == ("device-code", None)
        assert parley("send", url, "hello").stdout.strip() == "hello"


def test_a_card_that_says_nothing_of_oauth_is_helped_by_the_agents_metadata(
    issuer: AuthorizationServer, logins: FileLogins
) -> None:
    scheme = JwtIssuer(issuer.url, AUDIENCE, jwks_url=f"{issuer.url}/keys")
    with sampler_on_a_port(security=guarded(scheme, "agent:call")) as url:
        done = parley("login", url, "--no-browser", "--client-id", PUBLIC_CLIENT)
        assert (done.exit_code, f"Tokens come from {issuer.url}." in done.stderr) == (0, True)
        (kept,) = logins.all()
        assert (kept.kind, kept.tokens and "agent:call" in kept.tokens.scopes) == ("device-code", True)
        assert parley("send", url, "hello").stdout.strip() == "hello"


def test_a_browser_is_opened(issuer: AuthorizationServer, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[threading.Thread] = []

    def browse(url: str) -> bool:
        thread = threading.Thread(target=lambda: httpx2.get(url, follow_redirects=True, timeout=SECONDS))
        opened.append(thread)
        thread.start()
        return True

    monkeypatch.setattr(login_secrets.webbrowser, "open", browse)
    scheme = JwtIssuer(issuer.url, AUDIENCE, jwks_url=f"{issuer.url}/keys", flows=flows_of(issuer))
    with sampler_on_a_port(security=guarded(scheme, "agent:call")) as url:
        done = parley("login", url, "--client-id", PUBLIC_CLIENT)
        opened[0].join(SECONDS)
        assert (done.exit_code, done.stdout) == (0, f"Logged in to Sampler at {url}, scheme company.\n")
        assert f"Log in with a browser on this machine:\n{issuer.url}/authorize?response_type=code" in done.stderr
        assert parley("send", url, "hello").stdout.strip() == "hello"
        monkeypatch.setattr(login_secrets, "BROWSER_SECONDS", 0.01)
        monkeypatch.setattr(login_secrets.webbrowser, "open", lambda url: False)
        nobody = parley("login", url, "--client-id", PUBLIC_CLIENT)
        assert (nobody.exit_code, "The login was not completed in time; try again" in nobody.stderr) == (1, True)


def test_a_machine_logs_in_with_its_secret(issuer: AuthorizationServer, logins: FileLogins) -> None:
    scheme = JwtIssuer(issuer.url, AUDIENCE, jwks_url=f"{issuer.url}/keys", flows=flows_of(issuer))
    with sampler_on_a_port(security=guarded(scheme, "agent:call")) as url:
        env = {"PARLEY_CLIENT_ID": CLIENT[0], "PARLEY_CLIENT_SECRET": CLIENT[1]}
        refused = parley("login", url, env=env)
        assert (refused.exit_code, "which would get the client's secret" in refused.stderr) == (1, True)
        done = parley("login", url, "--issuer", issuer.url, env=env)
        assert (done.exit_code, CLIENT[1] in done.output) == (0, False)
        (kept,) = logins.all()
        assert (kept.kind, kept.tokens and kept.tokens.scopes) == ("client-credentials", ("agent:call",))
        assert parley("send", url, "hello").stdout.strip() == "hello"
        assert parley("login", "--list").stdout.endswith("client-credentials, renewed automatically\n")
        # Servers such as Entra know one scope for all, and none of those that a card names.
        chosen = parley("login", url, "--issuer", issuer.url, "--scope", "all", "--scope", "extra", env=env)
        assert (chosen.exit_code, issuer.forms[-1]["scope"]) == (0, "all extra")


def test_a_machines_secret_is_read_from_standard_input(issuer: AuthorizationServer) -> None:
    scheme = JwtIssuer(issuer.url, AUDIENCE, jwks_url=f"{issuer.url}/keys", flows=flows_of(issuer))
    with sampler_on_a_port(security=guarded(scheme, "agent:call")) as url:
        words = ("login", url, "--issuer", issuer.url, "--flow", "client-credentials", "--client-id", CLIENT[0])
        done = parley(*words, "--json", input=f"{CLIENT[1]}\n")
        assert (done.exit_code, json.loads(done.stdout)["kind"]) == (0, "client-credentials")
        assert parley("send", url, "hello").stdout.strip() == "hello"
        nothing = parley(*words, input="")
        told = "Client credentials need the client's secret, in PARLEY_CLIENT_SECRET"
        assert (nothing.exit_code, told in nothing.stderr) == (1, True)


def test_mistakes_are_told_with_their_cure(issuer: AuthorizationServer) -> None:
    assert (parley("login").exit_code, "Give the URL of the agent." in parley("login").stderr) == (2, True)
    with sampler_on_a_port() as url:
        assert parley("login", url).stderr == "Sampler requires no credentials.\n"
    with sampler_on_a_port(security=guarded(OpenIdConnect(issuer.url, AUDIENCE))) as url:
        unnamed = parley("login", url)
        assert (unnamed.exit_code, unnamed.stderr) == (
            1,
            "Error: The authorization server needs the id of a client; give --client-id.\n",
        )
        unknown = parley("login", url, "--scheme", "other")
        assert (unknown.exit_code, "The card has no scheme 'other'; it has 'company'" in unknown.stderr) == (1, True)


def test_the_page_on_credentials_names_every_option() -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "credentials.md").read_text()
    options: Any = get_command(app)
    real = {name for option in options.commands["login"].params for name in option.opts if name.startswith("--")}
    shared = {"--help", "--ca", "--cert", "--key", "--allow-private", "--json", "--browser"}
    assert set(re.findall(r"`(--[a-z-]+)", page)) - {"--no-browser"} == real - shared


# --- which scheme -----------------------------------------------------------------------------------------------------

FLOW = OAuthFlow(token_url="https://login.example/token")
SCHEMES: dict[str, SecurityScheme] = {
    "tls": MutualTlsScheme(),
    "old-tls": HttpAuthScheme("mutualTLS"),
    "old-key": HttpAuthScheme("apiKey"),
    "key": ApiKeyScheme(ApiKeyLocation.HEADER, "X-Key"),
    "browser": OAuth2Scheme(OAuthFlows(authorization_code=FLOW)),
    "device": OAuth2Scheme(OAuthFlows(device_code=FLOW)),
    "machine": OAuth2Scheme(OAuthFlows(client_credentials=FLOW)),
    "implicit": OAuth2Scheme(OAuthFlows(implicit=FLOW)),
    "oidc": OpenIdConnectScheme("https://login.example/.well-known/openid-configuration"),
}


def login_options(**options: Any) -> LoginOptions:
    usual: dict[str, Any] = {"scheme": None, "flow": None, "client": None, "redirect": None, "opens_browser": True}
    return LoginOptions(agent=ClientOptions(url="https://a.example"), **{**usual, **options})


def card(*names: str | dict[str, tuple[str, ...]], others: tuple[str, ...] = ()) -> AgentCard:
    """A card that demands one of these, and declares others that it does not demand."""
    security: list[SecurityRequirement] = [{name: ()} if isinstance(name, str) else name for name in names]
    used = dict.fromkeys((*others, *(name for requirement in security for name in requirement)))
    schemes = {name: SCHEMES[name] for name in used if name in SCHEMES}
    return AgentCard("A", "", "1", (), security_schemes=schemes, security=tuple(security))


MACHINE = OAuthClient("m", "secret")


@pytest.mark.parametrize(
    ("offered", "wanted", "chosen"),
    [
        (card("tls", "key"), login_options(), {"key": ()}),
        (card("device", "browser"), login_options(), {"browser": ()}),
        (card("browser", "device"), login_options(opens_browser=False), {"device": ()}),
        (card("browser", "device", "machine"), login_options(client=MACHINE), {"machine": ()}),
        (card("browser", "device", "key"), login_options(flow=Flow.DEVICE_CODE), {"device": ()}),
        (card("implicit", "oidc"), login_options(flow=Flow.DEVICE_CODE), {"oidc": ()}),
        (card({"key": (), "browser": ("read",)}), login_options(), {"key": (), "browser": ("read",)}),
        (card({"key": (), "browser": ("read",)}), login_options(scheme="browser"), {"browser": ("read",)}),
        (card("device", others=("key",)), login_options(), {"device": ()}),
        (card("device", others=("key",)), login_options(scheme="key"), {"key": ()}),
        (card({}, "device", others=("key",)), login_options(), {"device": ()}),
        (card(others=("device", "key")), login_options(), {"key": ()}),
        (card("unexplained", "key"), login_options(), {"key": ()}),
        (card("old-tls", "old-key"), login_options(), {"old-key": ()}),
        (card(), login_options(), {}),
    ],
)
def test_the_alternative_that_fits_who_is_there_is_chosen(
    offered: AgentCard, wanted: LoginOptions, chosen: dict[str, tuple[str, ...]]
) -> None:
    assert chosen_requirement(offered, wanted) == chosen


@pytest.mark.parametrize(
    ("offered", "wanted", "complaint"),
    [
        (card("tls"), login_options(), "requires credentials that parley login cannot get"),
        (card("implicit"), login_options(), "requires credentials that parley login cannot get"),
        (card("key"), login_options(flow=Flow.DEVICE_CODE), "offers no device-code flow"),
        (card("unexplained"), login_options(), "requires “unexplained”, which its card does not declare"),
        (
            card({"key": (), "unexplained": ()}),
            login_options(),
            "requires “unexplained”, which its card does not declare",
        ),
    ],
)
def test_what_cannot_be_logged_in_for_is_told(offered: AgentCard, wanted: LoginOptions, complaint: str) -> None:
    with pytest.raises(CredentialsError, match=complaint):
        chosen_requirement(offered, wanted)


def test_a_scheme_that_was_asked_for_may_have_no_flow_that_fits(issuer: AuthorizationServer) -> None:
    only = OAuthFlows(client_credentials=flows_of(issuer).client_credentials)
    scheme = JwtIssuer(issuer.url, AUDIENCE, jwks_url=f"{issuer.url}/keys", flows=only)
    with sampler_on_a_port(security=guarded(scheme)) as url:
        done = parley("login", url, "--scheme", "company", "--client-id", PUBLIC_CLIENT)
    assert (done.exit_code, "no suitable flow of OAuth 2.0; see --flow" in done.stderr) == (1, True)


# --- a person at a terminal -------------------------------------------------------------------------------------------

KEYS = ApiKeys([StoredSecret(name="ada", hash=hash_secret("k-hush"))])
ASKED = "an API key (scheme “company”, header X-API-Key); the secret: "


def test_a_person_is_asked_without_showing_what_is_typed(tmp_path: Path, logins: FileLogins) -> None:
    with sampler_on_a_port(security=guarded(KEYS)) as url:
        with terminal("login", url, cwd=tmp_path) as login:
            login.until(ASKED)
            login.type("k-hush")
            assert (login.ended(), "hush" in login.shown) == (0, False)
        (kept,) = logins.all()
        assert kept.secret == "k-hush"


@pytest.mark.parametrize(("key", "code"), [(b"\x03", 130), (b"\x04", 1), (b"\n", 1)])
def test_a_person_who_changes_their_mind_is_let_go_at_once(
    key: bytes, code: int, tmp_path: Path, logins: FileLogins
) -> None:
    with sampler_on_a_port(security=guarded(KEYS)) as url, terminal("login", url, cwd=tmp_path) as login:
        login.until(ASKED)
        login.press(key)
        assert (login.ended(), "Traceback" in login.shown, logins.all()) == (code, False, [])


def test_a_person_who_does_not_confirm_a_code_presses_ctrl_c(issuer: AuthorizationServer, tmp_path: Path) -> None:
    issuer.device_answers = ["authorization_pending"] * 100
    with sampler_on_a_port(security=guarded(OpenIdConnect(issuer.url, AUDIENCE))) as url:
        words = ("login", url, "--client-id", PUBLIC_CLIENT)
        with terminal(*words, "--flow", "device-code", cwd=tmp_path) as login:
            login.until("and compare the code.\n")
            login.press(b"\x03")
            assert (login.ended(), "Traceback" in login.shown) == (130, False)
        with terminal(*words, "--no-browser", "--flow", "authorization-code", cwd=tmp_path) as login:
            login.until("Log in with a browser on this machine:\n")
            login.until("code_challenge")
            login.press(b"\x03")
            assert (login.ended(), "Traceback" in login.shown) == (130, False)
    issuer.device_answers = []


def test_a_person_types_a_machines_secret(issuer: AuthorizationServer, tmp_path: Path, logins: FileLogins) -> None:
    with sampler_on_a_port(security=guarded(OpenIdConnect(issuer.url, AUDIENCE))) as url:
        words = ("login", url, "--flow", "client-credentials", "--client-id", CLIENT[0], "--issuer", issuer.url)
        with terminal(*words, cwd=tmp_path) as login:
            login.until(f"The secret of {CLIENT[0]}: ")
            login.type(CLIENT[1])
            assert (login.ended(), CLIENT[1] in login.shown) == (0, False)
        assert logins.all()[0].client_secret == CLIENT[1]


@pytest.mark.parametrize("piped", [b"\xff\xfe\n", b"", b"k\x00\n"])
def test_what_no_key_can_be_is_told_without_a_traceback(piped: bytes, tmp_path: Path) -> None:
    with sampler_on_a_port(security=guarded(KEYS)) as url:
        command = [sys.executable, "-m", "parley.cli.main", "login", url]
        done = subprocess.run(command, input=piped, capture_output=True, timeout=SECONDS, cwd=tmp_path, check=False)
    assert (done.returncode, done.stderr.startswith(b"Error: "), b"Traceback" in done.stderr) == (1, True, False)


# --- where a browser comes back to ------------------------------------------------------------------------------------


@pytest.mark.parametrize("redirect", ["http://localhost", "http://localhost/", "http://127.0.0.1/parley/done"])
def test_a_browser_comes_back_to_where_the_server_knows(
    redirect: str, issuer: AuthorizationServer, tmp_path: Path, logins: FileLogins
) -> None:
    issuer.redirects = ("http://localhost", "http://127.0.0.1:")
    with sampler_on_a_port(security=guarded(OpenIdConnect(issuer.url, AUDIENCE), "agent:call")) as url:
        words = ("--client-id", PUBLIC_CLIENT, "--flow", "authorization-code", "--no-browser", "--redirect", redirect)
        with terminal("login", url, *words, cwd=tmp_path) as login:
            login.until("Log in with a browser on this machine:\n")
            page = login.until("\n").strip()
            assert httpx2.get(page, follow_redirects=True, timeout=SECONDS).status_code == 200
            assert login.ended() == 0
        assert re.fullmatch(redirect.replace("localhost", r"localhost:\d+").replace("0.1/", r"0.1:\d+/"), came_to(page))
        assert logins.all()[0].kind == "authorization-code"


def came_to(page: str) -> str:
    return httpx2.URL(page).params["redirect_uri"]


def test_a_browser_is_not_sent_elsewhere(issuer: AuthorizationServer) -> None:
    with sampler_on_a_port(security=guarded(OpenIdConnect(issuer.url, AUDIENCE))) as url:
        done = parley("login", url, "--client-id", PUBLIC_CLIENT, "--redirect", "http://evil.example/callback")
    assert (done.exit_code, "http://127.0.0.1 or http://localhost only" in done.stderr) == (1, True)
