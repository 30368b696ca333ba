"""Which addresses may be connected to: every special range is refused, in every disguise."""

from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.shared.public_addresses import SPECIAL_IPV4, AddressRule, is_public

PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "169.253.255.255",
    "169.255.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.0",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "2606:4700:4700::1111",
    "2a00:1450:4001::8888",
    "2001:4860:4860::8888",
    "2001:200::1",
    "3fff:1000::1",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
    "2002:808:808::1",
]
SPECIAL = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.169.254",
    "169.254.170.2",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:0:127.0.0.1",
    "64:ff9b::127.0.0.1",
    "64:ff9b::10.0.0.1",
    "64:ff9b:1::8.8.8.8",
    "100::1",
    "2001::1",
    "2001:0:7f00:1::",
    "2001:2::1",
    "2001:10::1",
    "2001:20::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::1",
    "2002:c0a8:1::1",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%lo",
    "2606:4700::1111%lo",
    "fec0::1",
    "ff02::1",
    "4000::1",
]
# A server and a client at public addresses; the client's is written inverted.
TEREDO_OF_PUBLIC = "2001:0:808:808:0:0:f7f7:f7f7"
TEREDO_OF_LOOPBACK = "2001:0:808:808:0:0:80ff:fffe"


@pytest.mark.parametrize("address", [*PUBLIC, TEREDO_OF_PUBLIC])
def test_a_public_address_is_allowed(address):
    assert AddressRule().allows(address)


@pytest.mark.parametrize("address", [*SPECIAL, TEREDO_OF_LOOPBACK])
def test_every_other_address_is_refused(address):
    assert not AddressRule().allows(address)


@pytest.mark.parametrize("text", ["", "localhost", "127.1", "0x7f000001", "2130706433", "[::1]"])
def test_what_is_no_address_is_refused(text):
    assert not AddressRule().allows(text)


@given(st.integers(0, 2**32 - 1))
def test_a_disguise_is_judged_by_what_it_stands_for(number):
    address = IPv4Address(number)
    is_allowed = AddressRule().allows(str(address))
    for disguise in (0xFFFF << 32, 0x64_FF9B << 96):
        assert AddressRule().allows(str(IPv6Address(disguise + number))) == is_allowed
    assert AddressRule().allows(str(IPv6Address((0x2002 << 112) + (number << 80)))) == is_allowed


@given(st.sampled_from(SPECIAL_IPV4), st.data())
def test_no_address_of_a_special_network_is_public(network, data):
    offset = data.draw(st.integers(0, network.num_addresses - 1))
    assert not is_public(network[offset])


@pytest.mark.parametrize(
    ("network", "allowed", "still_refused"),
    [
        ("127.0.0.0/8", "127.9.9.9", "10.0.0.1"),
        ("127.0.0.0/8", "::ffff:127.0.0.1", "::1"),
        ("127.0.0.0/8", "64:ff9b::7f00:1", "::127.0.0.1"),
        ("10.1.0.0/16", "10.1.2.3", "10.2.0.1"),
        ("10.1.0.0/16", "2002:a01:203::1", "2002:a02:1::1"),
        ("::1/128", "::1", "127.0.0.1"),
        ("fd00::/8", "fd12::1", "fe80::1"),
        ("2001:db8::/32", "2001:db8::1", "2001:2::1"),
    ],
)
def test_an_allowed_network_is_let_through_and_nothing_else(network, allowed, still_refused):
    rule = AddressRule([ip_network(network)])
    assert rule.allows(allowed)
    assert not rule.allows(still_refused)
    assert rule.allows("8.8.8.8")
