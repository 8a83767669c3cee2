"""Whether an address can be reached from other machines."""

from __future__ import annotations

import ipaddress
import socket


def is_loopback(host: str) -> bool:
    """Is it this machine's alone, whatever it resolves to? Raises OSError: it is not known."""
    found = {entry[4][0] for entry in socket.getaddrinfo(host, None)}
    return all(is_loopback_address(str(address).partition("%")[0]) for address in found)


def is_loopback_address(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
