"""Which IP addresses a fetch may connect to: public ones, and those of ALLOW_NETS. Pure.

The tables are IANA's registries of special-purpose addresses, written out because Python's
`is_global` changes from one patch release to the next.
"""

from collections.abc import Sequence
from functools import lru_cache
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
)

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
ADDRESSES_REMEMBERED = 16_384

SPECIAL_IPV4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # shared by customers of a provider
            "127.0.0.0/8",  # loopback
            "169.254.0.0/16",  # link-local, cloud metadata
            "172.16.0.0/12",  # private
            "192.0.0.0/24",  # protocol assignments
            "192.0.2.0/24",  # documentation
            "192.88.99.0/24",  # old 6to4 relays
            "192.168.0.0/16",  # private
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, broadcast
        ),
    )
)
GLOBAL_UNICAST_IPV6 = IPv6Network("2000::/3")
SPECIAL_IPV6 = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments
            "2001:db8::/32",  # documentation
            "3fff::/20",  # documentation
        ),
    )
)
# The last 32 bits are an IPv4 address to which a gateway translates. 64:ff9b:1::/48 is for
# gateways of a private network, and not public.
NAT64 = IPv6Network("64:ff9b::/96")


# Names of this machine, whatever a resolver says.
LOCALHOST = "localhost"
LOOPBACK = "127.0.0.1"


class AddressRule:
    """Says whether a fetch may connect to an address. State: the latest verdicts, because each
    address is judged more than once, and checking all networks takes a while."""

    def __init__(self, allowed: Sequence[Network] = ()) -> None:
        self._allowed = allowed
        self.allows = lru_cache(maxsize=ADDRESSES_REMEMBERED)(self._judge)

    def may_allow(self, host: str) -> bool:
        """False for a name of this machine unless its address is allowed; what other names mean is
        not known before they are looked up."""
        is_here = host == LOCALHOST or host.endswith(f".{LOCALHOST}")
        return not is_here or self.allows(LOOPBACK)

    def _judge(self, text: str) -> bool:
        """`text` is an address from a resolver or a socket; anything else is refused."""
        try:
            address = ip_address(text)
        except ValueError:
            return False
        return self._is_fine(address) or self._leads_to_fine(address)

    def _is_fine(self, address: Address) -> bool:
        return is_public(address) or any(address in network for network in self._allowed)

    def _leads_to_fine(self, address: Address) -> bool:
        embedded = embedded_addresses(address)
        return bool(embedded) and all(map(self._is_fine, embedded))


def is_public(address: Address) -> bool:
    """Public as it stands; an address that stands for another is judged by that one."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in SPECIAL_IPV4)
    if address not in GLOBAL_UNICAST_IPV6 or address.scope_id is not None:
        return False
    if embedded_addresses(address):
        return False
    return not any(address in network for network in SPECIAL_IPV6)


def embedded_addresses(address: Address) -> tuple[IPv4Address, ...]:
    """The IPv4 addresses that a packet to this address goes to, or through."""
    if isinstance(address, IPv4Address):
        return ()
    if address.ipv4_mapped is not None:
        return (address.ipv4_mapped,)
    if address.sixtofour is not None:
        return (address.sixtofour,)
    if address.teredo is not None:
        return address.teredo
    if address in NAT64:
        return (IPv4Address(int(address) & 0xFFFF_FFFF),)
    return ()
