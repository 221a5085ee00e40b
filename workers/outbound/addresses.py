"""Addresses that a caller may have this server connect to: those of the public internet.

The lists are IANA's special-purpose registries. `ipaddress.is_global` is not enough: up to Python
3.12 it lets NAT64 and 6to4 pass, which lead to IPv4 addresses of any kind, and multicast.
"""

import socket
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any

NOT_PUBLIC_V4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
            "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24",
            "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15",
            "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
            "168.63.129.16/32",  # Azure's own services, reached from inside its machines alone
        ),
    )
)  # fmt: skip
UNICAST_V6 = IPv6Network("2000::/3")
NOT_PUBLIC_V6 = tuple(
    map(
        IPv6Network,
        ("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20"),
    )
)


class AddressRefused(OSError):
    """The address is none of the public internet. It is not named: that would map a network."""

    def __init__(self) -> None:
        super().__init__(0, "its address is not a public one")


def is_public(address: str) -> bool:
    """Tell whether an address, as text, is a host's on the public internet."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(parsed, IPv6Address):
        return parsed in UNICAST_V6 and not any(parsed in network for network in NOT_PUBLIC_V6)
    return not any(parsed in network for network in NOT_PUBLIC_V4)


def public_socket(target: Any) -> socket.socket:
    """Return a socket for `getaddrinfo`'s entry; this is the address that is connected to next.

    Raises `AddressRefused`. Whatever a name resolved to before plays no part.
    """
    family, kind, protocol, _, address = target
    if not is_public(str(address[0])):
        raise AddressRefused
    return socket.socket(family=family, type=kind, proto=protocol)
