"""Where a foreign card may send a client: everything that can be told from a URL's text, and what is dialled."""

from __future__ import annotations

from ipaddress import ip_address

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.client.errors import ForbiddenTargetError
from parley.client.guard import DialRules, Guard, read_target
from tests.network.wire import Wire

HERE = "https://agents.example/currency"
LOCAL = "http://localhost:8080"


@pytest.mark.parametrize(
    ("url", "card_url"),
    [
        ("https://agents.example/a2a", HERE),
        ("https://agents.example:8443/a2a", HERE),
        ("https://AGENTS.example/", HERE),
        ("https://other.example/a2a", HERE),
        ("https://8.8.8.8/a2a", HERE),
        ("https://[2606:4700::1]/a2a", HERE),
        ("grpcs://other.example:50051", HERE),
        ("agents.example:50051", HERE),
        ("other.example:443", HERE),
        ("https://other.example/a2a", None),
        ("http://agents.example/a2a", "http://agents.example"),
        ("http://localhost:8080/a2a", LOCAL),
        ("http://127.0.0.1:9000/a2a", LOCAL),
        ("http://0.0.0.0:8080/", LOCAL),
        ("localhost:50051", LOCAL),
        ("grpc://[::1]:50051", LOCAL),
        ("http://10.0.0.5:9000/rpc", "http://10.0.0.5:8080/"),
        ("http://printer/rpc", "http://printer"),
    ],
)
def test_a_card_may_point_to_the_host_that_was_named_and_to_public_hosts_over_tls(
    url: str, card_url: str | None
) -> None:
    Guard().check_interface(url, card_url=card_url)


@pytest.mark.parametrize("card_url", [HERE, "http://agents.example", "http://192.168.1.5:8080", None])
@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/a2a",
        "https://localhost/a2a",
        "https://[::1]/a2a",
        "https://[::ffff:10.0.0.1]/",
        "https://[64:ff9b::808:808]/",
        "https://0.0.0.0/",
        "https://10.0.0.1/",
        "https://169.254.169.254/latest/meta-data/",
        "https://metadata.google.internal/computeMetadata/v1/",
        "https://printer/",
        "127.0.0.1:50051",
        "grpcs://10.0.0.1:443",
    ],
)
def test_a_card_may_not_point_to_private_networks(url: str, card_url: str | None) -> None:
    with pytest.raises(ForbiddenTargetError, match="which is not public; if that is right, allow it"):
        Guard().check_interface(url, card_url=card_url)


@pytest.mark.parametrize("url", ["http://other.example/", "grpc://other.example:50051", "http://agents.example/"])
def test_a_card_that_came_over_tls_leads_to_nothing_without_it(url: str) -> None:
    with pytest.raises(ForbiddenTargetError, match="which is not encrypted"):
        Guard().check_interface(url, card_url=HERE)


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://agents.example/",
        "ws://agents.example/",
        "unix:/var/run/docker.sock",
        "unix:///var/run/docker.sock",
        "dns:///agents.example",
        "dns:agents.example:443:1",
        "vsock:1:2",
        "",
        "/rpc",
        "https://",
        "https://:443/",
        "https://agents.example:/",
        "https://agents.example:0/",
        "https://agents.example:99999/",
        "https://me:secret@agents.example/",
        "https://agents.example\\@evil.example/",
        "https://agents.example /",
        "https://agents.example/\r\nhost: evil",
        "https://ágents.example/",
        "https://agents%2eexample/",
        "https://127.1/",
        "https://2130706433/",
        "https://0x7f.1/",
        "https://[fe80::1%25eth0]/",
        "https://[zz]/",
        "https://[::1]9/",
        "https://x[::1]/",
        "https://agents.example/" + "x" * 2_048,
    ],
)
def test_what_is_no_url_of_an_agent_is_refused_even_by_a_guard_that_allows_everything(url: str) -> None:
    with pytest.raises(ForbiddenTargetError, match=r"^Invalid URL: "):
        Guard(allow_private=True, allowed_hosts=(".example",)).check_interface(url, card_url=LOCAL)


def test_a_guard_may_allow_everything_that_is_a_url() -> None:
    for url in ("http://10.0.0.1/", "grpc://printer:50051", "https://localhost/", "http://other.example/"):
        Guard(allow_private=True).check_interface(url, card_url=HERE)


def test_a_guard_may_allow_hosts() -> None:
    guard = Guard(allowed_hosts=("10.0.0.1", ".corp.example"))
    guard.check_interface("http://10.0.0.1:8080/", card_url=HERE)
    guard.check_interface("http://a.corp.example/", card_url=HERE)
    with pytest.raises(ForbiddenTargetError):
        guard.check_interface("http://10.0.0.2:8080/", card_url=HERE)


def test_a_guard_may_refuse_other_hosts() -> None:
    guard = Guard(allow_other_origins=False, allowed_hosts=("friend.example",))
    guard.check_interface("https://agents.example:8443/a2a", card_url=HERE)
    guard.check_interface("https://friend.example/", card_url=HERE)
    with pytest.raises(ForbiddenTargetError, match=r"another host, https://other\.example;"):
        guard.check_interface("https://other.example/a2a?key=secret", card_url=HERE)
    with pytest.raises(ForbiddenTargetError, match="another host"):
        Guard(allow_private=True, allow_other_origins=False).check_interface("http://10.0.0.1", card_url=HERE)
    with pytest.raises(ForbiddenTargetError, match="another host"):
        guard.check_interface("https://other.example/", card_url=None)


def test_what_strangers_named_is_trusted_no_more_than_a_card() -> None:
    guard = Guard(trust_named=False, allowed_hosts=("10.0.0.1",))
    guard.check_named(HERE)
    guard.check_named("http://10.0.0.1")
    guard.check_interface("https://agents.example/", card_url=HERE)
    for url in ("http://agents.example", "https://127.0.0.1/", "https://printer/"):
        with pytest.raises(ForbiddenTargetError, match=r"^The URL leads to"):
            guard.check_named(url)
        with pytest.raises(ForbiddenTargetError, match=r"^The card points to"):
            guard.check_interface(url, card_url=url)


@pytest.mark.parametrize(
    ("url", "card_url", "guard", "expected"),
    [
        ("https://agents.example/", HERE, Guard(), True),
        ("grpcs://localhost:50051", LOCAL, Guard(), True),
        ("grpc://localhost:50051", LOCAL, Guard(), False),
        ("http://localhost:50051", LOCAL, Guard(), False),
        ("localhost:50051", LOCAL, Guard(), False),
        ("localhost:443", LOCAL, Guard(), True),
        ("agents.example:50051", HERE, Guard(), True),
        ("other.example:50051", HERE, Guard(), True),
        ("other.example:50051", LOCAL, Guard(), True),
        ("10.0.0.1:50051", LOCAL, Guard(allowed_hosts=("10.0.0.1",)), False),
        ("10.0.0.1:50051", None, Guard(allow_private=True), False),
    ],
)
def test_a_target_that_does_not_say_is_encrypted_as_its_card_was(
    url: str, card_url: str | None, guard: Guard, expected: bool
) -> None:
    assert guard.encrypts(url, card_url=card_url) is expected


def test_only_exempt_hosts_are_dialled_at_private_addresses() -> None:
    rules = DialRules(Guard(allowed_hosts=(".corp.example",)))
    rules.trust("localhost")
    private, public = [ip_address("10.0.0.1")], [ip_address("8.8.8.8")]
    for host in ("localhost", "127.0.0.1", "a.corp.example"):
        rules.check_addresses(host, private)
    rules.check_addresses("agents.example", public)
    with pytest.raises(ForbiddenTargetError, match=r"^agents\.example has an address that is not public$"):
        rules.check_addresses("agents.example", public + private)


def test_only_exempt_hosts_are_resolved_that_are_no_public_names() -> None:
    rules = DialRules(Guard())
    rules.trust("printer")
    for host in ("printer", "agents.example", "8.8.8.8"):
        rules.check_host(host)
    for host in ("scanner", "10.0.0.1", "::1"):
        with pytest.raises(ForbiddenTargetError, match=rf"^{host} is not a public host$"):
            rules.check_host(host)
    rules.trust("localhost")
    assert not rules.is_exempt("127.1")


def test_a_named_host_may_be_private_but_does_not_become_so() -> None:
    rules = DialRules(Guard())
    rules.trust("Intranet.example")
    rules.trust("rebinding.example")
    rules.check_addresses("intranet.example", [ip_address("10.0.0.1")])
    rules.check_addresses("intranet.example", [ip_address("10.0.0.2")])
    rules.check_addresses("rebinding.example", [])
    rules.check_addresses("rebinding.example", [ip_address("8.8.8.8")])
    with pytest.raises(ForbiddenTargetError, match=r"^rebinding\.example has an address that is not public$"):
        rules.check_addresses("rebinding.example", [ip_address("127.0.0.1")])


@pytest.mark.anyio
async def test_a_name_that_is_rebound_between_two_connections_is_not_followed() -> None:
    answers = [["8.8.8.8"], ["127.0.0.1"]]

    async def rebinding(host: str, port: int) -> list[str]:
        return answers.pop(0)

    rules = DialRules(Guard())
    rules.trust("rebinding.example")
    wire = Wire(rules, rebinding)
    await wire.call("rebinding.example", 80)
    with pytest.raises(ForbiddenTargetError):
        await wire.call("rebinding.example", 6379)
    assert answers == []


@given(
    st.builds(
        "{}{}{}".format,
        st.sampled_from(
            ["http://", "HTTPS://", "https:///", "https:", "https://a.example", "https://[::1]", "https://1.2.3.4"]
        ),
        st.text(alphabet="aZ09.-_:@[]/\\?#%;&=+~!$'()*,|\t\n é。\u2100", max_size=20),
        st.sampled_from(["", "agents.example", ":443", "/a2a", "@evil.example", "#@evil.example/", "?@10.0.0.1"]),
    )
)
def test_whatever_passes_leads_a_connection_to_the_same_place(url: str) -> None:
    """Two parsers that disagree about a URL are how guards are bypassed: another one finds the same host."""
    try:
        target = read_target(url)
    except ForbiddenTargetError:
        return
    if target.scheme in ("http", "https"):
        other = httpx2.URL(url)
        assert (other.scheme, other.host.lower()) == (target.scheme, target.host)
        assert other.port in (None, target.port)
