"""Where the rows of a stream come from: what planner, documents and hosts ask of each kind of source, and the one place that tells the
kinds apart (`source_of`). Its other half, `cep.dataflow.sources.opening`, opens a source as it is described here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from cep.model.streams import Stream
from cep.plan.feeds import renumbered
from cep.plan.physical import Edge, Feed, PhysicalPlan


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

    def among_replicas(self, by: tuple[str, ...]) -> str:
        """How replicas of a query do first, whose state is kept by the columns `by`; empty: there is one copy, or any will do."""

    def can_move(self) -> str:
        """Why an instance that reads it cannot go on elsewhere; empty: it can."""

    @property
    def is_dealt(self) -> bool:
        """Does each replica of the query read a part of its own, of which the source alone knows what is in it?"""

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
    is_paced = is_dealt = False

    def readers(self) -> str:
        return ""

    def shares(self) -> str:
        return "publishers send batches in turn"

    def among_replicas(self, by: tuple[str, ...]) -> str:
        return f"publishers choose one of {self.copies} replicas by {', '.join(by)}" if by and self.copies > 1 else ""

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
    copies: int  # replicas of the query
    by: tuple[str, ...] = ()  # columns by which all of its state is kept, once the plan has edges; none: it has no state
    has_publishers = False
    is_paced = True

    def readers(self) -> str:
        return ""

    @property
    def is_dealt(self) -> bool:
        return self.copies > 1 and bool(self.stream.partitioned_by)

    def files_of(self, replica: int) -> tuple[tuple[str, int], ...]:
        """Those that it reads, in order of their paths: all replicas have about as many bytes."""
        read, dealt = [0] * self.copies, dict[str, int]()
        for path, size in sorted(self.files, key=lambda file: (-file[1], file[0])):
            least = read.index(min(read))
            dealt[path] = least
            read[least] += size
        return tuple(file for file in self.files if dealt[file[0]] == replica)

    def shares(self) -> str:
        return "block i is read by instance i mod n"

    def among_replicas(self, by: tuple[str, ...]) -> str:
        if not self.is_dealt:
            return ""
        counts = ", ".join(str(len(self.files_of(replica))) for replica in range(self.copies))
        return f"each replica reads files of its own ({counts})"

    def can_move(self) -> str:
        return f"it reads stream {self.stream.name!r} out of files, and keeps its place in them"

    def replicas(self, by: tuple[str, ...]) -> str:
        partitioned = self.stream.partitioned_by
        if not by or (partitioned and set(partitioned) <= set(by)):
            return ""
        if partitioned:
            apart = f"the files of stream {self.stream.name!r} are partitioned by {', '.join(partitioned)}, its groups by {', '.join(by)}"
            return f"{apart}; rows of one group may be in several files"
        blocks = f"stream {self.stream.name!r} is read from files, whose blocks hold rows of any {', '.join(by)}"
        fields = by[0] if len(by) == 1 else f"one or more of {', '.join(by)}"
        needed = f"a published stream, or files of which each has keys of its own (partitioned_by {fields})"
        return f"{blocks}; replicas of a query with state need {needed}"

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
    is_paced = is_dealt = False

    def readers(self) -> str:
        return f"it reads {self.stream.name!r}, an output of query {self.feed.query!r}, and merges what its instances say"

    def shares(self) -> str:
        return "one instance reads it"

    def among_replicas(self, by: tuple[str, ...]) -> str:
        return ""

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
        by = next((edge.fields for edge in plan.edges if edge.is_input and edge.consumer == name), ())
        return FileStream(stream, tuple(plan.files.get(name, ())), plan.query.options.replicas, by)
    return PublishedStream(stream, plan.query.options.replicas)


def read_together(plan: PhysicalPlan, subquery: str) -> bool:
    """Do the instances of `subquery`, which read files, read no further than those beside them, which feed another input of the operator
    that they feed? What that one holds is then as much as they are apart, and not all that the faster ones have.

    It is so only where each of them does nothing but read for that one operator: then the one that is furthest behind waits for nobody.
    Behind an operator that holds time back, or with another one to feed, two could wait for each other.
    """
    feeds = _fed(plan, subquery)
    if len(feeds) != 1 or not _only_reads_files(plan, subquery):
        return False
    beside = [edge for edge in plan.edges_into(feeds[0].target) if edge.is_inner and edge.consumer == feeds[0].consumer]
    alone = all(len(_fed(plan, edge.source)) == 1 and _only_reads_files(plan, edge.source) for edge in beside)
    return alone and len({edge.port for edge in beside}) > 1


def _fed(plan: PhysicalPlan, subquery: str) -> list[Edge]:
    return [edge for edge in plan.edges_out_of(subquery) if edge.is_inner]


def _only_reads_files(plan: PhysicalPlan, name: str) -> bool:
    subquery = plan.subquery(name)
    if not subquery.streams or subquery.stateful or subquery.pre_aggregates or any(edge.is_inner for edge in plan.edges_into(name)):
        return False
    return all(source_of(plan, each).is_paced and plan.streams[each].event_time is not None for each in subquery.streams)
