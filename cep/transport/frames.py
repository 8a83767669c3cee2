"""Frames of a link (`cep.transport.link`): a head of fixed size, and for some kinds a payload.

    major minor kind flags head_bytes round  source target number acknowledged limit   then what a greater minor adds, and the payload

A frame of the same major is read whatever its minor: fields that are not known end where `head_bytes` says. Of another major only the first
two bytes are looked at.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, NamedTuple

from cep.errors import ProtocolError

MAJOR, MINOR = 1, 0
VERSION = f"{MAJOR}.{MINOR}"
_HEAD = Struct("<BBBBHxxQQQQQQ")
HEAD_BYTES = _HEAD.size

HELLO, WELCOME, DATA, ACK, PROBE, UNKNOWN, REFUSED, BYE = range(1, 9)
NAMES = {HELLO: "HELLO", WELCOME: "WELCOME", DATA: "DATA", ACK: "ACK", PROBE: "PROBE", UNKNOWN: "UNKNOWN", REFUSED: "REFUSED", BYE: "BYE"}
AGAIN = 1  # a flag of ACK: something is missing, send from `acknowledged` on


class OtherVersion(ProtocolError):
    """A frame of another major version; the other end is to be told."""


class Frame(NamedTuple):
    """The head of a frame.

    `source`, `target`: incarnations of the end that sends it, and of the one that it is for; 0 while that is not known. `number`: of DATA
    the packet's; of PROBE the next packet's; of UNKNOWN the incarnation that is not known. `acknowledged`: all packets below have come.
    `limit`: bytes of packets that may be sent in all. `round`: how often its end has gone back to send again; an ACK has the round that
    it answers.
    """

    kind: int
    source: int
    target: int
    number: int = 0
    acknowledged: int = 0
    limit: int = 0
    round: int = 0
    flags: int = 0

    def pack(self) -> bytes:
        kind, source, target, number, acknowledged, limit, round_, flags = self
        return _HEAD.pack(MAJOR, MINOR, kind, flags, HEAD_BYTES, round_, source, target, number, acknowledged, limit)

    def __str__(self) -> str:
        said = f"{NAMES[self.kind]} {self.number} acknowledged {self.acknowledged} limit {self.limit} round {self.round}"
        return f"{said} from {self.source:x} to {self.target:x}" + " again" * bool(self.flags & AGAIN)


def read(found: Any) -> tuple[Frame, int]:
    """The frame that begins there, and where its payload does. Raises ProtocolError; OtherVersion where the major is another one."""
    if len(found) >= 2 and found[0] != MAJOR:
        raise OtherVersion(
            f"link: expected version {MAJOR}.x, got {found[0]}.{found[1]}; this end has {VERSION}: use the same release at both"
        )
    if len(found) < HEAD_BYTES:
        raise ProtocolError(f"link: expected a frame of at least {HEAD_BYTES} bytes, got {len(found)}")
    _, minor, kind, flags, begin, round_, source, target, number, acknowledged, limit = _HEAD.unpack_from(found, 0)
    if not HEAD_BYTES <= begin <= len(found):
        raise ProtocolError(f"link: expected a head of {HEAD_BYTES} to {len(found)} bytes, got {begin}")
    if kind not in NAMES:
        raise ProtocolError(f"link: expected a kind of frame from {HELLO} to {BYE}, got {kind} of version {MAJOR}.{minor}")
    return Frame(kind, source, target, number, acknowledged, limit, round_, flags), begin
