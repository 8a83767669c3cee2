"""Queries in users' tests: in this process, without a cluster, rows in and answers out. How to: docs/testing.md.

    with testing.run(query) as run:
        run.send("visits", [{"ip": "10.0.0.1", "ts": at(3)}])
        run.advance("visits", at(60))
        assert run.answers("per_ip") == [...]

The parts are those of a cluster, the answers too. Nothing happens by itself: rows are taken when they are sent, and the clock goes on when
it is told to. Machine code is not compiled unless that is asked for, so a run begins at once, and a row costs microseconds to
milliseconds.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa

from cep.compile.user.functions import allowed
from cep.dataflow.channel import Inbox, batch_bytes
from cep.dataflow.local import LocalRun, Outcome
from cep.dataflow.reports import waits_for
from cep.dataflow.sources.lateness import greatest_of, stamp_of
from cep.dataflow.sources.published import PublishedSource
from cep.dataflow.sources.publishers import Closing, Published, PublisherPartition
from cep.elements import MIN_TIME, Batch, Element, Idle, Watermark
from cep.errors import ClusterError, Conflict, NotFound, QueryError, QueryFailed
from cep.kernels.columns import columns_to_arrow
from cep.kernels.jit import interpreted
from cep.model import query as documents
from cep.model.duration import parse_duration
from cep.model.growth import wider
from cep.model.references import references_in, split_reference
from cep.model.schema import Schema
from cep.model.streams import CLOCK, Stream
from cep.model.times.iso_instants import instant_text
from cep.model.topology import Topology
from cep.plan.feeds import feed_of
from cep.plan.physical import Feed, PhysicalPlan, Worker
from cep.plan.planner import plan
from driver.builder.query import Query
from driver.cluster import Deployable
from driver.streams.arrow import instant, time_column, with_shown_times
from driver.streams.published_rows import PublishedRows

#: What the clock shows when a run begins, unless it is told otherwise.
START = datetime(2024, 1, 1, tzinfo=UTC)
PUBLISHER = "publisher"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CREDIT_BYTES = 1 << 20

Rows = list[dict[str, Any]]


def run(
    *queries: Deployable,
    streams: Iterable[Stream] = (),
    instances: int = 1,
    now: datetime = START,
    seed: int = 0,
    compiled: bool = False,
) -> Run:
    """Queries that run in this process: use it as a context manager.

    Args:
        queries: builders, values or documents. A query may read what those before it put out.
        streams: declarations of streams that they read by name and none of them puts out.
        instances: how many instance managers there would be; answers do not depend on it, the order of theirs does.
        now: what the clock shows at first.
        seed: of the order in which instances take their turns.
        compiled: with machine code, as on a cluster: it is slow to begin, and for many rows.

    Raises:
        QueryError: what a cluster would refuse.
        Conflict: two declarations of a stream, of which neither is the other with nullable columns more.
    """
    return Run(queries, streams, instances, now, seed, compiled)


def answers(query: Deployable, rows: Mapping[str, Any], **options: Any) -> dict[str, Rows]:
    """All answers to all rows, of every output and of the late stream, by name: each stream is sent whole, then it ends.

    Args:
        rows: of every stream that the query reads, by name: what `Run.send` takes.
        options: those of `run`.

    Raises:
        QueryError: what a cluster would refuse; or a stream without rows, or rows of one that is not read.
        DataError: rows do not fit their stream.
    """
    with run(query, **options) as running:
        if rows.keys() != running.streams.keys():
            raise QueryError(f"rows: expected those of {_names(running.streams)}, got those of {_names(rows)}")
        for stream, data in rows.items():
            running.send(stream, data)
        running.close()
        return {output: running.answers(output) for output in running.outputs}


class Run:
    """Queries at work. `streams` are those that rows are sent to, `outputs` those that have answers, by name."""

    def __init__(
        self, queries: Sequence[Deployable], declared: Iterable[Stream], instances: int, now: datetime, seed: int, compiled: bool
    ) -> None:
        values = [_value(query) for query in queries]
        self._functions = {split_reference(name)[0] for value in values for name, _ in references_in(documents.to_json(value))}
        self._compiled, self._instances, self._choose = compiled, instances, random.Random(seed)
        self._now_us = parse_duration(now - _EPOCH)
        self._plans, known = _planned(values, declared, instances)
        self.streams = {name: known[name] for each in self._plans for name in each.streams if name not in each.feeds}
        self.outputs: dict[str, Schema] = {}
        self._runs: list[LocalRun] = []
        self._publishers: dict[str, dict[str, _Publisher]] = {name: {} for name in self.streams}
        self._taken: dict[tuple[str, int], int] = {}  # of each output of each instance, how many elements have been read
        self._ending: ExitStack | None = None  # while it works

    def __enter__(self) -> Run:
        with ExitStack() as undo:
            undo.enter_context(allowed(*self._functions))
            if not self._compiled:
                undo.enter_context(interpreted())
            for each in self._plans:
                with _failing(each):
                    self._runs.append(LocalRun(each, credit_bytes=CREDIT_BYTES, clock=lambda: self._now_us, upstream=self._runs[:]))
                self.outputs |= self._runs[-1].collect(Outcome()).schemas
            self._settle()
            self._ending = undo.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._ending is not None:
            self._ending.close()
        self._ending = None

    # In

    def open(self, stream: str, publisher: str) -> None:
        """Opens a publisher before it has rows. One that is opened by its first `send` begins where the others are: older rows are late."""
        self._open(stream, publisher)
        self._settle()

    def send(self, stream: str, rows: Any, publisher: str = PUBLISHER) -> int:
        """Sends rows (dicts, or whatever else `Publisher.send` takes); returns how many. What is late is decided by each publisher's rows.

        Raises:
            DataError: they do not fit the stream; none was taken.
            NotFound: no query here reads the stream.
            ClusterError: the publisher is closed.
            QueryFailed: a query cannot go on.
        """
        sent = self._open(stream, publisher).send(rows)
        self._settle()
        return sent

    def advance(self, stream: str, to: datetime | int | str, publisher: str = PUBLISHER) -> None:
        """Promises that no row older than `to` will come, as `Publisher.advance` does: windows that end by then have their answers.

        Raises: DataError: it is no time; and what `send` raises.
        """
        self._open(stream, publisher).advance(instant(to, self.streams[stream]))
        self._settle()

    def close(self, stream: str | None = None, publisher: str | None = None) -> None:
        """Closes a publisher; all of a stream; or everything. A stream ends with its last one, and its windows have their answers."""
        for name in self.streams if stream is None else [stream]:
            there = self._of(name)
            if publisher is not None or not there:
                self._open(name, publisher or PUBLISHER)
            self._close(there, list(there) if publisher is None else [publisher])
        self._settle()

    def pass_time(self, duration: str | timedelta) -> None:
        """The clock goes on: what `now()` says, when rows are stamped that have no event time, and which publishers are silent
        (`idle_after`)."""
        self._now_us += parse_duration(duration)
        for publishers in self._publishers.values():
            for each in publishers.values():
                each.look()
        self._settle()

    @property
    def now(self) -> datetime:
        """What the clock shows."""
        return _EPOCH + timedelta(microseconds=self._now_us)

    # Out

    def answers(self, output: str, event_time: bool | str = False) -> Rows:
        """What has come out on a stream since it was asked last, in the order in which it came.

        An instant that is outside of the years of Python's datetimes, 1 to 9999, is the text that REST has of it.

        Args:
            event_time: adds each answer's event time as a last column, None at the end of event time; a text is its name.

        Raises: NotFound: no query here puts it out.
        """
        if output not in self.outputs:
            raise NotFound(f"no query here puts out a stream {output!r}; there are {_names(self.outputs)}")
        name = time_column(event_time, output, self.outputs[output].names)
        found = [batch for each in self._runs for batch in self._new_batches(each, output)]
        return [row for batch in found for row in _rows(batch, self.outputs[output], name if event_time else None)]

    def dead_letters(self) -> list[dict[str, str]]:
        """Bad input and failed functions since it was asked last: operator, reason, source, position and record, as `cep dead-letters`."""
        letters = [each.dead_letters for run in self._runs for each in run.instances]
        return [letter.to_json() for each in letters for letter in each.take(len(each.letters))]

    @property
    def late_rows(self) -> int:
        """How many rows have come too late. `Query.late` makes a stream of them, which is an output like others."""
        return sum(source.late_rows for run in self._runs for each in run.instances for source, _ in each.sources)

    def waits_for(self) -> dict[str, str]:
        """What holds every instance up, by its name: where windows have no answers, why."""
        return {each.name: waits_for(each, self._now_us) for run in self._runs for each in run.instances}

    # Inside

    def _of(self, stream: str) -> dict[str, _Publisher]:
        if self._ending is None:
            raise ClusterError("nothing runs here: use it as a context manager, with testing.run(query) as run: ...")
        if stream not in self._publishers:
            raise NotFound(f"no query here reads a stream {stream!r} that rows are sent to; there are {_names(self.streams)}")
        return self._publishers[stream]

    def _open(self, stream: str, name: str) -> _Publisher:
        there = self._of(stream)
        if name not in there:
            there[name] = _Publisher(self._runs, self.streams[stream], name, len(there), lambda: self._now_us)
        return there[name]

    def _close(self, there: Mapping[str, _Publisher], names: Sequence[str]) -> None:
        for name in names:
            others = [each for other, each in there.items() if other != name]
            if not there[name].closed:
                there[name].close(last=all(each.closed for each in others))

    def _settle(self) -> None:
        """Until nothing can move any more. Raises QueryFailed."""
        for each in self._runs:
            with _failing(each.plan):
                while each.turn(self._choose):
                    pass

    def _new_batches(self, run: LocalRun, output: str) -> Iterator[Batch]:
        for place, sink in sorted(run.wires.sinks.items()):
            if place[0] == output:
                elements, taken = sink.elements, self._taken.get(place, 0)
                self._taken[place] = len(elements)
                yield from (each for each in elements[taken:] if isinstance(each, Batch))


class _Publisher:
    """What `driver.streams.publisher.Publisher` is to readers in other processes, to readers in this one."""

    def __init__(self, runs: Sequence[LocalRun], stream: Stream, name: str, partition: int, clock: Callable[[], int]) -> None:
        self.runs, self.stream, self.name, self.clock = runs, stream, name, clock
        self.disorder, self.rows = stream.disorder or 0, PublishedRows(stream)
        self.max_time, self.record, self.since = MIN_TIME, 0, clock()
        self.idle = self.closed = False
        opened = [source.open(PublisherPartition(name, partition, self._inbox())) for readers in self._readers() for source in readers]
        self._start_at(max(opened, default=MIN_TIME))

    def send(self, data: Any) -> int:
        self._wake()
        first = self.record
        for piece in self.rows.pieces(data, lambda: max(self.max_time, self.clock())):
            batch, before, record = self.rows.format.from_arrow(piece.whole, 0), self.max_time, self.record
            for run, readers in self._reading():
                self.max_time, self.record = before, record
                self._deal(readers, _as_declared(batch, run.plan.streams[self.stream.name]))
        self._tell(Watermark(self.stamp))
        return self.record - first

    def advance(self, to_us: int) -> None:
        self._wake()
        self.max_time = max(self.max_time, to_us + self.disorder)
        self._tell(Watermark(self.stamp))

    def look(self) -> None:
        """The clock has gone on."""
        if self.closed:
            return
        if self.stream.event_time is None or self.stream.watermark == CLOCK:
            self.max_time = max(self.max_time, self.clock())
            self._tell(Watermark(self.stamp))
        silent = self.clock() - self.since
        if self.stream.idle_after is not None and silent >= self.stream.idle_after and not self.idle:
            self.idle = True
            self._tell(Idle())

    def close(self, last: bool) -> None:
        self.closed = True
        self._tell(Closing(self.name, last))

    @property
    def stamp(self) -> int:
        return stamp_of(self.max_time, self.disorder)

    def _deal(self, readers: Sequence[PublishedSource], batch: Batch) -> None:
        """A piece of the rows to each instance that reads them."""
        for reader, rows in zip(readers, np.array_split(np.arange(len(batch)), len(readers)), strict=True):
            if len(rows):
                reader.publishers[self.name].last_row_us = self.clock()
                piece, before, record = batch.take(rows), self.max_time, self.record
                self.max_time, self.record = max(before, greatest_of(piece.time, self.stream.times)), record + len(rows)
                self._put(reader, Published(piece, before, record), batch_bytes(piece))

    def _wake(self) -> None:
        """It has something to say."""
        if self.closed:
            raise ClusterError(f"publisher {self.name!r} of stream {self.stream.name!r} is closed; open another one")
        self.since = self.clock()
        if self.idle:
            self.idle = False
            self._start_at(max(source.wake(self.name) for readers in self._readers() for source in readers))
            self._tell(Watermark(self.stamp))

    def _start_at(self, watermark: int) -> None:
        """No reader gets a row that is late for it."""
        if watermark > MIN_TIME:
            self.max_time = max(self.max_time, watermark + self.disorder)

    def _tell(self, element: Element | Closing) -> None:
        for readers in self._readers():
            for reader in readers:
                self._put(reader, element, 0)

    def _put(self, reader: PublishedSource, element: object, size: int) -> None:
        inbox = reader.publishers[self.name].inbox
        inbox.accept(element, size, inbox.sequence, self.stamp, MIN_TIME)

    def _inbox(self) -> Inbox:
        return Inbox(f"{self.stream.name}<{self.name}", CREDIT_BYTES)

    def _readers(self) -> Iterator[list[PublishedSource]]:
        return (readers for _, readers in self._reading())

    def _reading(self) -> Iterator[tuple[LocalRun, list[PublishedSource]]]:
        """Each query that reads the stream, and its instances that do."""
        for run in self.runs:
            sources = [source for each in run.instances for source, _ in each.sources]
            there = [each for each in sources if isinstance(each, PublishedSource) and each.stream == self.stream.name]
            if there:
                yield run, there


def _as_declared(batch: Batch, stream: Stream) -> Batch:
    """With the columns of a query that may know fewer."""
    return replace(batch, columns={name: batch.columns[name] for name in stream.schema.names})


def _value(query: Deployable) -> documents.Query:
    """As a cluster has it: it has been a document once."""
    document = query.to_json() if isinstance(query, Query) else query if isinstance(query, Mapping) else documents.to_json(query)
    return documents.from_json(dict(document))


def _tested(query: documents.Query) -> documents.Query:
    """Its streams are published, its answers go to no file, and there is one copy of it."""
    outputs, options = tuple(replace(output, files=None) for output in query.outputs), replace(query.options, replicas=1)
    return replace(query, streams=tuple(map(_published, query.streams)), outputs=outputs, options=options)


def _published(stream: Stream) -> Stream:
    """It takes the test's rows instead of files."""
    return stream if stream.files is None else replace(stream, files=None, partitioned_by=())


def _planned(
    queries: Sequence[documents.Query], declared: Iterable[Stream], instances: int
) -> tuple[list[PhysicalPlan], dict[str, Stream]]:
    """Plans, and the streams by name as all declarations make them. Each query knows what those before it put out. Raises QueryError, and
    Conflict where a cluster does."""
    topology = Topology.one_node(range(instances))
    workers = [Worker(f"im-{core}", 0, core, "") for core in range(instances)]
    plans: list[PhysicalPlan] = []
    feeds: dict[str, Feed] = {}
    known = _declared({}, declared)
    streams = {name: _published(each) for name, each in known.items()}
    for query in queries:
        known = _declared(known, query.streams)
        plans.append(plan(_tested(query), streams, workers, topology, feeds=feeds))
        streams |= {each.name: _published(known[each.name]) for each in query.streams}
        for output in query.outputs:
            streams[output.stream], feeds[output.stream] = feed_of(plans[-1], 1, output.stream)
    return plans, streams


def _declared(known: Mapping[str, Stream], streams: Iterable[Stream]) -> dict[str, Stream]:
    """What is declared by each name once these are too."""
    found = dict(known)
    for stream in streams:
        try:
            found[stream.name] = wider(found.get(stream.name, stream), stream)
        except QueryError as error:
            raise Conflict(error.message) from None
    return found


@contextmanager
def _failing(plan: PhysicalPlan) -> Iterator[None]:
    """Whatever is raised inside is the failure of its query."""
    try:
        yield
    except Exception as error:
        raise QueryFailed(plan.query.name, "", None, f"{type(error).__name__}: {error}") from error


def _rows(batch: Batch, schema: Schema, time: str | None) -> Rows:
    shown = columns_to_arrow(batch.columns, schema)
    if time is not None:
        times = pa.array(batch.time, pa.timestamp("us", tz="UTC"))
        shown = with_shown_times(pa.RecordBatch.from_arrays([*shown.columns, times], names=[*schema.names, time]))
    return [dict(zip(shown.schema.names, row, strict=True)) for row in zip(*map(_values, shown.columns), strict=True)]


def _values(column: pa.Array) -> list[Any]:
    try:
        return list(column.to_pylist())
    except OverflowError:
        return [_shown(each) for each in column]


def _shown(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except OverflowError:  # Python's datetimes have the years 1 to 9999
        return [_shown(each) for each in scalar] if isinstance(scalar, pa.ListScalar) else instant_text(scalar.value)


def _names(found: Iterable[str]) -> str:
    return ", ".join(map(repr, found)) or "none"
