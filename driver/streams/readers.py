"""The source instances that read a publisher's stream, and what each of them has said to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cep.dataflow.channel import Credit
from cep.elements import MIN_TIME
from cep.plan.channels import ChannelId, publisher_channel
from cep.plan.route import Route
from cep.transport.wire import Header
from driver.streams.commands import Leave, StreamCommand

NOT_KNOWN = -1

Document = Mapping[str, Any]
"""A reader, as the orchestrator describes it; or what an instance says."""


class StreamReader:
    """One source instance that reads the stream, and our channel to it."""

    def __init__(self, document: Document, stream: str, publisher: str) -> None:
        self.query, self.endpoint = str(document["query"]), str(document["endpoint"])
        self.entry = ChannelId.entry(self.query, stream, document["instance"], document["epoch"]).id
        self.channel = publisher_channel(self.entry, publisher)
        self.credit = Credit()
        self.replica = int(document["replica"])
        self.route = None if document["route"] is None else Route.from_json(document["route"])
        self.sequence = 0
        self.watermark = MIN_TIME  # the last one it was told
        self.process = 0  # which it is in, once it has said so
        self.since = 0  # heartbeats later than this one find us there
        self.opened = self.gone = self.closed = False
        self.refused = ""  # why it was closed, if what we sent was no batch
        self.taken: int | None = None  # it counts us as closed: the number of the first row that it did not take
        self.told_idle = False  # and has not answered since

    @property
    def is_here(self) -> bool:
        """It has let us in, and is there for us."""
        return self.opened and not self.gone and not self.closed

    @property
    def sleeps(self) -> bool:
        """It was told that we are idle, and has to be asked before we say more."""
        return self.told_idle and not self.gone and not self.closed

    def open(self, header: Header, said: Document, beaten: int) -> None:
        """It lets us in, or is not there."""
        self.opened, self.gone = bool(said["here"]), not said["here"]
        self.process, self.since = said.get("process", 0), beaten
        # Where it was already, by an earlier publisher of our name, its numbering goes on.
        self.credit.limit, self.sequence = said.get("limit", 0), header.sequence
        self.credit.sent, self.credit.consumed = said.get("received", 0), said.get("consumed", 0)
        self.watermark = header.watermark

    def close(self, word: Document, said_goodbye: bool) -> None:
        """It has heard our last word, or has given us up, which is no answer to our last word; or is over itself."""
        self.refused = word.get("reason", self.refused)
        if said_goodbye and word and not word.get("heard"):
            return
        self.taken = word.get("record")
        self.closed = bool(word)
        self.gone |= not word

    def forget_us(self, beat: int, word: Document) -> None:
        """The process there knows nothing of us: it is another one, and the query went with the one before, or it has given us up."""
        if beat <= self.since or word["endpoint"] != self.endpoint or not self.process or self.closed:
            return
        if word["process"] != self.process:
            self.gone = True
        elif not self.gone:
            self.taken, self.closed = NOT_KNOWN, True


class StreamReaders(dict[int, StreamReader]):
    """All readers of stream `stream` that `publisher` knows, by channel. Other threads look at them while one adds and forgets."""

    def __init__(self, stream: str, publisher: str) -> None:
        super().__init__()
        self.stream, self.publisher = stream, publisher
        self._turn = 0

    # Which of them gets a batch

    def only(self, size: int) -> StreamReader | None:
        """The only reader that there is, if it takes all rows and has credit for so many bytes, as nearly always."""
        if len(self) != 1:
            return None
        (reader,) = self.values()
        return reader if reader.is_here and reader.route is None and reader.credit.allows(size) else None

    def queries(self) -> list[list[StreamReader]]:
        """The readers of each query, beginning with the one whose turn it is."""
        here = [reader for reader in list(self.values()) if not reader.gone]
        if len(here) < 2:
            return [here] if here else []
        queries: dict[str, list[StreamReader]] = {}
        for reader in here:
            queries.setdefault(reader.query, []).append(reader)
        self._turn += 1
        return [[*readers[self._turn % len(readers) :], *readers[: self._turn % len(readers)]] for readers in queries.values()]

    # Which there are

    def add(self, documents: Iterable[Document]) -> list[StreamReader]:
        """Those among them that are not known yet."""
        new = [reader for reader in self._described(documents) if reader.channel not in self]
        self.update((reader.channel, reader) for reader in new)
        return new

    def drop_gone(self, documents: Iterable[Document]) -> None:
        """`documents` describe what reads the stream now: a reader that is not among them is gone."""
        found = {reader.channel for reader in self._described(documents)}
        for reader in self.values():
            reader.gone |= reader.channel not in found

    def forget_gone(self) -> Sequence[StreamCommand]:
        """Those that are gone are no readers any more."""
        gone = [channel for channel, reader in self.items() if reader.gone]
        for channel in gone:
            del self[channel]
        return [Leave(channel) for channel in gone]

    def _described(self, documents: Iterable[Document]) -> list[StreamReader]:
        return [StreamReader(document, self.stream, self.publisher) for document in documents]

    @property
    def endpoints(self) -> set[str]:
        """Where readers are, as far as is known."""
        return {reader.endpoint for reader in list(self.values()) if not reader.gone}

    @property
    def asleep(self) -> dict[int, StreamReader]:
        """Readers that have to be asked before we say more."""
        return {channel: reader for channel, reader in self.items() if reader.sleeps}

    @property
    def unclosed(self) -> list[StreamReader]:
        """Readers that have not confirmed our last word."""
        return [reader for reader in self.values() if not reader.closed and not reader.gone]

    def lose_unclosed(self, gone: set[str]) -> None:
        """The processes at these endpoints have ended."""
        for reader in self.unclosed:
            reader.gone = reader.endpoint in gone

    # What they complain of

    def unheard(self) -> str:
        """What to say of the publisher if readers have closed it; empty if none has."""
        for reader in self.values():
            if reader.refused:
                return f"was closed by query {reader.query!r}, which could not take what it sent: {reader.refused}"
        deaf = {reader.query: reader.taken for reader in self.values() if reader.taken is not None}
        if not deaf:
            return ""
        where = ", ".join(f"query {query!r} {_took(taken)}" for query, taken in deaf.items())
        again = "what it sent since was not taken; open another one of this name and send that again"
        return f"was silent for so long that it counts as closed at {where}: {again}"


def _took(before: int) -> str:
    if before == NOT_KNOWN:
        return "(how many rows it took is not known)"
    return f"(which took rows up to number {before - 1})" if before else "(which took no row)"


def first_with_credit(readers: Iterable[StreamReader], size: int) -> StreamReader | None:
    """The first that is there and may get a batch of `size` bytes."""
    for reader in readers:
        if reader.is_here and reader.credit.allows(size):
            return reader
    return None
