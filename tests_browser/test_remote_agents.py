"""Agents anywhere in a browser, through `parley console`: other SDKs' servers, cards, logins, checks and the wire."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal
from joserfc.jwk import ECKey
from playwright.sync_api import Page, expect
from tests.console.foreign_agents import agent_elsewhere, card, foreign_server
from tests.console.test_login import BEARER, SECRET, oauth_security
from tests.interop.javascript import ENVIRONMENT, find_node
from tests.peer_environments import ROOT, python_of, serving_process
from tests.server.authorization_server import PUBLIC_CLIENT, authorization_server

from tests_browser.chatting import composer, ended, log, say
from tests_browser.servers import Server, serve_command, serving

PEERS = {
    "a2a-sdk-1.3.0": "server_sdk_1_3_0.py",
    "a2a-sdk-0.3.26": "server_sdk_pydantic.py",
    "fasta2a": "server_fasta2a.py",
    "a2a-js": "server_js_1_3_0.mjs",
}


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """`parley console`: no agents of its own."""
    with serving(tmp_path_factory.mktemp("console"), "console", ready="/console/") as server:
        yield server


@pytest.fixture(scope="module")
def url_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """Where a peer's server is; each is started when it is asked for first."""
    urls: dict[str, str] = {}
    with ExitStack() as stack:

        def find(peer: str) -> str:
            if peer not in urls:
                script = ROOT / "tests" / "peers" / PEERS[peer]
                command = [find_node()[0] if peer == "a2a-js" else python_of(peer), script]
                place = ENVIRONMENT if peer == "a2a-js" else ROOT
                log = tmp_path_factory.mktemp("peer") / "server.log"
                urls[peer], _ = stack.enter_context(serving_process(command, cwd=place, log=log))
            return urls[peer]

        yield find


def add(page: Page, console: Server, url: str) -> None:
    """Add an agent by its address, which leads to its card."""
    page.goto(f"{console.console}agents")
    page.get_by_role("button", name="Add agent", exact=True).click()
    page.get_by_role("textbox", name="Address").fill(url)
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_role("tab", name="Card")).to_be_visible()


def chat(page: Page) -> None:
    """From the card of an agent to a conversation with it."""
    page.get_by_role("main").get_by_role("link", name="Chat", exact=True).first.click()
    expect(composer(page)).to_be_focused()


@pytest.mark.parametrize("peer", PEERS)
def test_the_same_page_talks_to_agents_of_other_sdks(
    page: Page, console: Server, url_of: Callable[[str], str], peer: str
) -> None:
    add(page, console, url_of(peer))
    expect(page.get_by_role("heading", name="Interfaces")).to_be_visible()
    chat(page)
    say(page, "echo hello there")
    ended(page)
    expect(log(page).locator(".artifact")).to_contain_text("hello there")
    say(page, "count 30")
    ended(page)
    expect(log(page).get_by_role("article").last).to_contain_text(" ".join(map(str, range(1, 31))))
    say(page, "ask")
    ended(page, "Needs input")
    say(page, "4")
    expect(log(page)).to_contain_text("A table for 4.")


@pytest.mark.parametrize("peer", [peer for peer in PEERS if peer != "fasta2a"])
def test_a_reply_of_another_sdk_is_shown_while_it_is_streamed(
    open_page: Callable[..., Page], console: Server, url_of: Callable[[str], str], peer: str
) -> None:
    gate = "ABCDEF"[["a2a-sdk-1.3.0", "a2a-sdk-0.3.26", "a2a-js"].index(peer)]
    page = open_page()
    add(page, console, url_of(peer))
    chat(page)
    address = page.url
    say(page, f"count 9 pausing after 4 at {gate}")
    expect(log(page).locator(".artifact")).to_contain_text("1 2 3 4")
    other = page.context.new_page()
    other.goto(address)
    say(other, f"open {gate}")
    ended(other)
    ended(page)
    expect(log(page).locator(".artifact")).to_contain_text("1 2 3 4 5 6 7 8 9")


def test_the_tasks_of_an_agent_elsewhere_are_those_that_it_lists(page: Page, console: Server, tmp_path: Path) -> None:
    page.goto(f"{console.console}tasks")
    main = page.get_by_role("main")
    expect(main.get_by_text("There are no agents yet")).to_be_visible()
    with serving(tmp_path, *serve_command(tmp_path)) as agents:
        add(page, console, f"{agents.url}/agents/scripted")
        chat(page)
        say(page, "say from afar")
        ended(page)
        page.get_by_role("link", name="Task", exact=True).click()
        expect(page.get_by_role("heading", level=1, name="say from afar")).to_be_visible()
        expect(main).to_contain_text("You said: say from afar")
        page.get_by_role("navigation", name="Pages").get_by_role("link", name="Tasks").click()
        expect(page.get_by_role("combobox", name="Agent")).to_have_text("Scripted (elsewhere)")
        expect(page.get_by_role("link", name="say from afar")).to_be_visible()
        agents.kill()
        page.reload()
        expect(main).to_contain_text("connection refused")


def test_every_page_without_agents_leads_to_adding_one(page: Page, console: Server) -> None:
    for path in ("", "agents", "chat", "tasks", "check"):
        page.goto(f"{console.console}{path}")
        page.get_by_role("main").get_by_role("link", name="Add an agent by URL").click()
        expect(page.get_by_label("Address")).to_be_focused()


def test_the_examples_of_agents_elsewhere_are_sent_with_one_click(page: Page, console: Server, tmp_path: Path) -> None:
    with serving(tmp_path, *serve_command(tmp_path)) as agents:
        add(page, console, f"{agents.url}/agents/scripted")
        page.goto(console.console)
        page.get_by_role("main").get_by_role("link", name="say hello").click()
        ended(page)
        expect(log(page)).to_contain_text("You said: say hello")


def test_an_address_without_an_agent_is_refused_with_the_reason(page: Page, console: Server) -> None:
    page.goto(f"{console.console}agents?add=1")
    page.get_by_role("textbox", name="Address").fill("http://127.0.0.1:9")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text("127.0.0.1:9")
    expect(page.get_by_role("dialog").get_by_role("button", name="Add", exact=True)).to_be_enabled()


def test_the_card_is_a_page_with_skills_interfaces_security_problems_and_its_signature(
    page: Page, console: Server
) -> None:
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(foreign_server()) as foreign:
        scheme = {"httpAuthSecurityScheme": {"scheme": "Bearer", "description": "A token of the company"}}
        skill = {"id": "rates", "name": "Rates", "description": "Knows rates", "tags": ["money"], "examples": ["1 USD"]}
        foreign.card = card(
            foreign.url,
            skills=[skill],
            securitySchemes={"company": scheme},
            supportedInterfaces=[
                {"url": foreign.url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
                {"url": "ftp://odd.example.com", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
            ],
        )
        add(page, console, foreign.url)
        main = page.get_by_role("main")
        expect(main.get_by_role("heading", name="1 skill")).to_be_visible()
        expect(main.get_by_role("heading", name="Rates")).to_be_visible()
        expect(main.get_by_role("table", name="Interfaces")).to_contain_text("JSONRPC used1.0")
        expect(main).to_contain_text("A token of the company")
        expect(main.get_by_role("heading", name="The card has")).to_be_visible()
        expect(main.get_by_role("complementary", name="About the agent")).to_contain_text("Not signed")
        page.get_by_role("tab", name="JSON").click()
        expect(main).to_contain_text("supportedInterfaces")
        page.get_by_role("tab", name="Card").click()
        main.get_by_role("button", name="1 USD").click()
        expect(log(page)).to_contain_text("1 USD")


def test_a_card_that_is_signed_by_a_key_of_its_host_is_verified(page: Page, console: Server, tmp_path: Path) -> None:
    key = ECKey.generate_key("P-256", {"kid": "signer"}).as_pem(private=True)
    (tmp_path / "key.pem").write_bytes(key)
    with serving(tmp_path, *serve_command(tmp_path, "scripted", options=["--signing-key", "key.pem"])) as signed:
        add(page, console, signed.url)
        expect(page.get_by_role("complementary", name="About the agent")).to_contain_text("Verified")


def test_a_login_at_an_agent_with_a_token_is_tried_at_once(page: Page, console: Server) -> None:
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(agent_elsewhere(security=BEARER)) as url,
    ):
        add(page, console, url)
        page.get_by_label("Token").fill("wrong")
        page.get_by_role("button", name="Log in", exact=True).click()
        expect(page.get_by_role("main")).to_contain_text("refused")
        page.get_by_label("Token").fill(SECRET)
        page.get_by_role("button", name="Log in", exact=True).click()
        expect(page.get_by_text("Logged in").first).to_be_visible()
        chat(page)
        say(page, "hello")
        ended(page)
        assert SECRET not in page.content()


def test_an_agent_that_wants_a_login_is_not_offered_on_home(page: Page, console: Server) -> None:
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(agent_elsewhere(security=BEARER)) as url,
    ):
        add(page, console, url)
        page.goto(console.console)
        expect(page.get_by_role("main")).to_contain_text("No agent can be asked now")


def test_a_login_with_oauth_goes_through_a_window_and_comes_back(page: Page, console: Server) -> None:
    with start_blocking_portal() as portal, ExitStack() as stack:
        issuer = stack.enter_context(portal.wrap_async_context_manager(authorization_server()))
        security = oauth_security(issuer, "authorization_code")
        url = stack.enter_context(portal.wrap_async_context_manager(agent_elsewhere(security=security)))
        add(page, console, url)
        page.get_by_label("Client id").fill(PUBLIC_CLIENT)
        page.get_by_role("button", name="Log in in a new window").click()
        with page.context.expect_page() as window:
            page.get_by_role("link", name="Open the login window").click()
        if not window.value.is_closed():
            window.value.wait_for_event("close")
        expect(page.get_by_text("Logged in").first).to_be_visible()
        chat(page)
        say(page, "hello")
        ended(page)


def test_a_check_runs_and_its_report_is_read_here(page: Page, console: Server, url_of: Callable[[str], str]) -> None:
    add(page, console, url_of("a2a-sdk-1.3.0"))
    page.get_by_role("main").get_by_role("link", name="Check", exact=True).click()
    page.get_by_role("button", name="Run the check").click()
    main = page.get_by_role("main")
    expect(main).to_contain_text("G1.", timeout=60_000)
    with page.expect_download() as download:
        main.get_by_role("link", name="HTML").or_(main.get_by_role("button", name="HTML")).first.click()
    assert "G1." in Path(download.value.path()).read_text()


def test_the_wire_of_a_proxy_shows_both_sides(page: Page, url_of: Callable[[str], str], tmp_path: Path) -> None:
    command = ["proxy", url_of("a2a-sdk-0.3.26"), "--allow-private", "--dialect", "0.3"]
    with serving(tmp_path, *command, ready="/console/") as proxy:
        page.goto(f"{proxy.console}wire")
        expect(page.get_by_text("Nothing has passed yet")).to_be_visible()
        other = page.context.new_page()
        other.goto(f"{proxy.console}chat")
        say(other, "echo through the proxy")
        ended(other)
        lines = page.get_by_role("listbox", name="Lines").get_by_role("option")
        for direction in ("caller → proxy", "proxy → agent", "agent → proxy", "proxy → caller"):
            expect(lines.filter(has_text=direction).first).to_be_visible()
        lines.filter(has_text="proxy → agent").first.click()
        expect(page.get_by_role("main")).to_contain_text("message/stream")  # as 0.3 calls it
        page.get_by_role("button", name="Side by side").click()
        expect(page.get_by_role("listbox", name="Exchanges")).to_contain_text("message/stream")
