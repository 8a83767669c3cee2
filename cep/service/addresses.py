"""Whether an address can be reached from other machines."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable


def is_loopback(host: str) -> bool:
    """Is it this machine's alone, whatever it resolves to? Raises OSError: it is not known."""
    return are_loopback(str(entry[4][0]) for entry in socket.getaddrinfo(host, None))


def are_loopback(addresses: Iterable[str]) -> bool:
    """Are all of them, with their scopes (`fe80::1%eth0`)? A name that has another one too can be reached there."""
    return all(is_loopback_address(address.partition("%")[0]) for address in addresses)


def is_loopback_address(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
