"""Which readers the streams have that are published here, as answers of the orchestrator say: no question is asked here.

1. Answers are numbered. Several may be under way, and one that is older than what is known says nothing.
2. News for a publisher that is sending when it comes waits until that can take it; what comes later replaces it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from driver.streams.readers import Document

P = TypeVar("P", bound=Hashable)


class FollowingCore(Generic[P]):
    """What is known of the readers of publishers `P`."""

    def __init__(self) -> None:
        self.publishers: dict[str, list[P]] = {}  # by stream
        self.after = ""  # the last change that is known
        self.late: dict[P, Sequence[Document]] = {}  # news that waits
        self._seen = (-1, -1)

    @property
    def open(self) -> list[P]:
        return [publisher for each in self.publishers.values() for publisher in each]

    def opened(self, publishers: Iterable[tuple[str, P]], after: str) -> None:
        """Publishers of streams, as the orchestrator knows them since the change `after`."""
        for stream, publisher in publishers:
            self.publishers.setdefault(stream, []).append(publisher)
        self.after = self.after or after

    def closed(self, stream: str, publisher: P) -> None:
        self.late.pop(publisher, None)
        there = self.publishers[stream]
        there.remove(publisher)
        if not there:
            del self.publishers[stream]

    def answered(self, answer: Mapping[str, Any]) -> dict[P, Sequence[Document]]:
        """What is to be told to which publishers: their streams' readers."""
        term, _, number = answer["after"].partition(".")
        if (int(term), int(number)) < self._seen:
            return {}
        self._seen, self.after = (int(term), int(number)), answer["after"]
        return {publisher: readers for name, readers in answer["streams"].items() for publisher in self.publishers.get(name, ())}

    def due(self, news: Mapping[P, Sequence[Document]]) -> dict[P, Sequence[Document]]:
        """The same, with what has waited."""
        late, self.late = self.late, {}
        return late | dict(news)

    def put_off(self, publisher: P, readers: Sequence[Document]) -> None:
        """It is sending."""
        self.late[publisher] = readers
