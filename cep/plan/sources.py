"""Where the rows of a stream come from: what planner, documents and hosts ask of each kind of source, and the one place that tells the
kinds apart (`source_of`). Its other half, `cep.dataflow.sources.opening`, opens a source as it is described here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from cep.model.streams import Stream
from cep.plan.feeds import renumbered
from cep.plan.physical import Feed, PhysicalPlan


class SourceDescription(Protocol):
    @property
    def has_publishers(self) -> bool:
        """Do clients send its rows, and have to be told its readers?"""

    @property
    def is_paced(self) -> bool:
        """Do its readers wait for the watermarks of those that they send to?"""

    def readers(self) -> str:
        """Why one instance alone may read it; empty: any number may."""

    def shares(self) -> str:
        """How several readers share it out."""

    def can_move(self) -> str:
        """Why an instance that reads it cannot go on elsewhere; empty: it can."""

    def replicas(self, by: tuple[str, ...]) -> str:
        """Why replicas of a query cannot share it out, whose state is kept by the columns `by`; empty: they can."""

    def can_replay(self) -> str:
        """Why its rows cannot be read again from any place on; empty: they can."""

    def explain(self) -> str:
        """Where its rows come from."""


@dataclass(frozen=True, slots=True)
class PublishedStream:
    """Clients send it."""

    stream: Stream
    copies: int  # replicas of the query
    has_publishers = True
    is_paced = False

    def readers(self) -> str:
        return ""

    def shares(self) -> str:
        return "publishers send batches in turn"

    def can_move(self) -> str:
        chosen = f"it reads stream {self.stream.name!r}, whose publishers choose among replicas of the query by key"
        return chosen if self.copies > 1 else ""

    def replicas(self, by: tuple[str, ...]) -> str:
        return ""

    def can_replay(self) -> str:
        return "its publishers choose among replicas of the query, and keep nothing for them yet" if self.copies > 1 else ""

    def explain(self) -> str:
        return "published"


@dataclass(frozen=True, slots=True)
class FileStream:
    """It is read out of files, each (path, size in bytes)."""

    stream: Stream
    files: tuple[tuple[str, int], ...]
    has_publishers = False
    is_paced = True

    def readers(self) -> str:
        return ""

    def shares(self) -> str:
        return "block i is read by instance i mod n"

    def can_move(self) -> str:
        return f"it reads stream {self.stream.name!r} out of files, and keeps its place in them"

    def replicas(self, by: tuple[str, ...]) -> str:
        if not by:
            return ""
        blocks = f"stream {self.stream.name!r} is read from files, whose blocks hold rows of any {', '.join(by)}"
        return f"{blocks}; replicas of a query with state need a published stream"

    def can_replay(self) -> str:
        return ""

    def explain(self) -> str:
        assert self.stream.files is not None
        return f"{len(self.files)} files of {self.stream.files.format}, {sum(size for _, size in self.files):,} bytes"


@dataclass(frozen=True, slots=True)
class QueryStream:
    """Another query puts it out. `renumbering`: source index in the rows' origins -> index here."""

    stream: Stream
    feed: Feed
    renumbering: tuple[int, ...]
    has_publishers = False
    is_paced = False

    def readers(self) -> str:
        return f"it reads {self.stream.name!r}, an output of query {self.feed.query!r}, and merges what its instances say"

    def shares(self) -> str:
        return "one instance reads it"

    def can_move(self) -> str:
        return f"it reads stream {self.stream.name!r}, which query {self.feed.query!r} puts out; that one knows where it is"

    def replicas(self, by: tuple[str, ...]) -> str:
        output = f"stream {self.stream.name!r} is an output of query {self.feed.query!r}"
        return f"{output}, whose rows are not shared out among replicas; leave it out"

    def can_replay(self) -> str:
        return f"it is an output of query {self.feed.query!r}, and chains of queries do not recover together yet"

    def explain(self) -> str:
        producers = len(self.feed.producers)
        return f"output of query {self.feed.query!r}, from {producers} {'instance' if producers == 1 else 'instances'}"


def source_of(plan: PhysicalPlan, name: str) -> SourceDescription:
    """The source of a stream that the plan reads."""
    stream = plan.streams[name]
    if name in plan.feeds:
        return QueryStream(stream, plan.feeds[name], renumbered(plan, plan.feeds[name]))
    if stream.files is not None:
        return FileStream(stream, tuple(plan.files.get(name, ())))
    return PublishedStream(stream, plan.query.options.replicas)
