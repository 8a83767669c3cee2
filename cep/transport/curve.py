"""CURVE's keys, as ZeroMQ has them: 32 bytes, written as 40 characters of z85."""

from __future__ import annotations

import re
from dataclasses import dataclass

import zmq
from zmq.utils import z85

from cep.errors import ClusterError, DataError
from cep.secret import Secret

_HEX = re.compile(r"[0-9a-fA-F]{64}")
KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class KeyPair:
    """`public` and `secret` in z85."""

    public: str
    secret: Secret


def new_pair() -> KeyPair:
    public, secret = zmq.curve_keypair()
    return KeyPair(public.decode(), Secret(secret.decode()))


def pair_of(public: str, secret: str) -> KeyPair:
    """Raises ClusterError: these are no keys, or the public one is not that of the secret one."""
    try:
        checked = public_key(public), public_key(secret)
    except DataError:
        raise ClusterError("expected two CURVE keys, in z85 or hexadecimal") from None  # without them: one is secret
    if zmq.curve_public(checked[1].encode()).decode() != checked[0]:
        raise ClusterError("the public key is not that of the secret one")
    return KeyPair(checked[0], Secret(checked[1]))


def public_key(text: str) -> str:
    """A key, given in z85 or hexadecimal, in z85. Raises DataError: it is none."""
    try:
        raw = bytes.fromhex(text) if _HEX.fullmatch(text) else z85.decode(text.encode("ascii"))
    except (ValueError, KeyError, UnicodeEncodeError, IndexError):
        raw = b""
    if len(raw) != KEY_BYTES:
        raise DataError(f"expected a CURVE key: 40 characters of z85, or 64 hexadecimal digits; got {len(text)} characters")
    return str(z85.encode(raw).decode())


def as_hex(key: str) -> str:
    """A key in z85 as a name that may stand in a path."""
    return bytes(z85.decode(key.encode())).hex()
