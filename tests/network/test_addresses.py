"""What can be told from a host's text."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from parley.network.addresses import AmbiguousHostError, check_host, is_listed, is_local_name, is_public, read_address


@pytest.mark.parametrize("text", ["8.8.8.8", "1.1.1.1", "172.15.0.1", "172.32.0.1", "2606:4700::1", "2a00:1450::1"])
def test_addresses_of_the_internet_are_public(text: str) -> None:
    assert is_public(ip_address(text))


@pytest.mark.parametrize(
    "text",
    [
        "0.0.0.0",
        "10.1.2.3",
        "100.100.100.200",
        "127.0.0.1",
        "127.255.255.254",
        "168.63.129.16",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.192",
        "192.168.1.1",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:8.8.8.8",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b::808:808",
        "64:ff9b:1::808:808",
        "fe80::1",
        "fd00:ec2::254",
        "ff02::1",
        "2001:db8::1",
        "2002:7f00:1::1",
    ],
)
def test_addresses_of_networks_of_ones_own_are_not(text: str) -> None:
    assert not is_public(ip_address(text))


@pytest.mark.parametrize("host", ["127.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.0.0.1.", "1.2.3.0x4", "::g"])
def test_what_only_some_would_read_as_an_address_is_refused(host: str) -> None:
    with pytest.raises(AmbiguousHostError):
        read_address(host)


def test_an_address_with_a_zone_is_refused() -> None:
    with pytest.raises(AmbiguousHostError, match=r"^address must not have a zone$"):
        read_address("fe80::1%eth0")


def test_a_host_is_an_address_or_a_name() -> None:
    assert [read_address(host) for host in ("1.2.3.4", "::1", "agents.example", "7.example")] == [
        ip_address("1.2.3.4"),
        ip_address("::1"),
        None,
        None,
    ]


@pytest.mark.parametrize("host", ["", "a..b", "-a.example", "a-.example", "a b", "a%2eb", "x" * 64, "a." * 127 + "ab"])
def test_what_is_no_name_is_refused(host: str) -> None:
    with pytest.raises(AmbiguousHostError, match=r"^host name must consist of letters, digits and hyphens$"):
        check_host(host)


def test_names_that_mean_something_at_home_only_are_told_from_others() -> None:
    names = ("agents.example", "localhost", "printer", "metadata.google.internal", "nas.local", "a.localhost")
    for name in names:
        check_host(name)
    assert [is_local_name(name) for name in names] == [False, True, True, True, True, True]


def test_a_list_of_hosts_has_hosts_and_all_below_them() -> None:
    hosts = ("Agents.example", ".corp.example")
    asked = (
        "agents.EXAMPLE",
        "x.agents.example",
        "a.corp.example",
        "a.b.Corp.example",
        "corp.example",
        "acorp.example",
    )
    assert [is_listed(host, hosts) for host in asked] == [True, False, True, True, False, False]
