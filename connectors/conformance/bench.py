"""What the author of a connector gives to the suites: how the other side is filled, and looked at."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from connectors.contract import AnswerSink, RecordSource
from connectors.documents import Described, described


class _Bench(ABC):
    """`end`: the `from` or `to` of a document that reaches the other side."""

    end: dict[str, Any]
    side: str

    def described(self, **more: Any) -> Described:
        """The document of a connector called `bench`, with `more` in its end."""
        return described({"name": "bench", "stream": "s", self.side: self.end | more})


class SourceBench(_Bench):
    """Of a source. `silence_s`: for how long it must bear that it is not polled."""

    side = "from"
    silence_s = 30.0

    @abstractmethod
    def feed(self, values: Sequence[bytes]) -> None:
        """Puts these records where the source finds them, in that order, into its first partition."""

    def add_partition(self, values: Sequence[bytes]) -> bool:
        """Makes another partition with these records. False: there is never another."""
        return False

    def source(self) -> RecordSource:
        """A new one, as a process makes it that begins."""
        found = self.described()
        make = found.connector.source
        assert make is not None
        return make(found.options, found.format) if found.connector.formats else make(found.options)

    def value_of(self, polled: Any, index: int) -> bytes:
        """The record that was fed; for sources that give rows."""
        value: bytes = polled.values[index]
        return value


class SinkBench(_Bench):
    """Of a sink, whose rows have the columns of `SCHEMA`."""

    side = "to"
    SCHEMA = pa.schema([("number", pa.int64()), ("text", pa.string())])

    @abstractmethod
    def seen(self) -> list[int]:
        """The column `number` of all rows that a reader of the other side sees now, in any order."""

    def sink(self) -> AnswerSink:
        """A new one, as a process makes it that begins."""
        found = self.described()
        make = found.connector.sink
        assert make is not None
        return make(found.options, found.format) if found.connector.formats else make(found.options)
