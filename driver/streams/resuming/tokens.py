"""Tokens: where a program is in a subscription of a query that recovers, as a text that it keeps beside what it has made of the rows.

A token is opaque: `cep1-` and base64 of a CRC and of JSON. Its numbers are those of the elements that the instances sent, which go on over
all attempts of a query, so that it holds whatever dies meanwhile, the process that it was given to included.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from cep.errors import CepError, QueryError
from cep.model.shapes import read_shape

VERSION = 1
_PREFIX = f"cep{VERSION}-"
_CRC_BYTES = 4


@dataclass(frozen=True, slots=True)
class Position:
    """Of one instance: `following` is the number of the element that the program takes next, if its stream has not `ended` there.
    `lineage`: of the numbers; a subscription that was dropped and made anew counts from the beginning."""

    instance: int
    lineage: str
    following: int
    ended: bool = False


@dataclass(frozen=True, slots=True)
class ResumeToken:
    """A cut through the stream `stream` of deployment `epoch` of `query`, as subscription `id` has taken it."""

    query: str
    epoch: int
    stream: str
    id: str
    event_time: bool
    positions: tuple[Position, ...]

    @property
    def text(self) -> str:
        body = json.dumps(asdict(self), separators=(",", ":")).encode()
        return _PREFIX + base64.urlsafe_b64encode(zlib.crc32(body).to_bytes(_CRC_BYTES, "little") + body).decode()

    @staticmethod
    def of(text: str) -> ResumeToken:
        """Raises QueryError: it is none, of another version, or damaged."""
        if not isinstance(text, str) or not (found := re.match(r"cep(\d+)-", text)):
            raise QueryError(f"resume: expected a token, as `Subscription.token` gives them, got {text!r:.60}", "/resume")
        if found[0] != _PREFIX:
            raise QueryError(f"resume: the token is of version {found[1]}, and this client reads version {VERSION}", "/resume")
        try:
            data = base64.b64decode(text[len(_PREFIX) :].encode(), b"-_", validate=True)
            body = data[_CRC_BYTES:]
            if int.from_bytes(data[:_CRC_BYTES], "little") != zlib.crc32(body):
                raise ValueError("its CRC is another one")
            return _read(json.loads(body))
        except (ValueError, binascii.Error, CepError) as error:
            raise QueryError(f"resume: the token is damaged: {error}", "/resume") from None

    def check(self, stream: str, query: str | None, event_time: bool) -> None:
        """Raises QueryError: it is of another stream or query than is asked for, or its rows look otherwise."""
        if self.stream != stream or query not in (None, self.query):
            asked = f"stream {stream!r}" + ("" if query is None else f" of query {query!r}")
            raise QueryError(f"resume: expected a token of {asked}, got one of stream {self.stream!r} of query {self.query!r}", "/resume")
        if self.event_time != event_time:
            has = "with" if self.event_time else "without"
            raise QueryError(f"resume: the rows of the token are {has} their event times: ask for them in the same way", "/event_time")


def _read(document: Mapping[str, Any]) -> ResumeToken:
    """Raises ProtocolError."""
    return read_shape(ResumeToken, document)
