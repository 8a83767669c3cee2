"""The table of a lookup with `refresh`, read by one instance for all: its versions go, as rows, to every instance of the lookup.

    version 1: rows, in pieces | (1, until) | (1, until) | version 3: rows, in pieces | (3, until) | …
                                 holds        it goes on   of version 2 only a part could be read

1. Behind the rows of a version comes one that is none of the table's: it says which version holds, and until when. What could not be read
   to its end is never named by one. A lookup needs to know nothing else, so all its instances see the same.
2. By event time a version holds until a multiple of `refresh`. When the watermark is there, the file is read again: tuples of that time and
   later see what was read, older ones do not, whenever they come. Several multiples that the watermark passes at once are one.
3. By the clock a version holds from when it has come until the next one has. The clock is looked at when the watermark moves.
4. The first version is read when the query is deployed, which fails where it cannot be read. Of the others one that cannot be read leaves
   the last one in use: the reason is a note of the operator, and the next time the file is read again.
5. A file is read again if it is another one, or of another size or time. One that changes while it is read is not taken.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from cep.compile.chain.casts import READERS
from cep.dataflow.channel import batch_bytes
from cep.dataflow.operators.context import BuildContext
from cep.dataflow.operators.operator import NOTHING, Clock, Keep, Part, check_state
from cep.dataflow.operators.static_table import read_pieces
from cep.elements import MAX_TIME, MIN_TIME, Batch
from cep.errors import DataError, QueryError
from cep.kernels.arrays import text_array
from cep.kernels.columns import NO_BYTES, Column, Columns
from cep.kernels.jit import warm
from cep.model.operators import TableVersions
from cep.model.operators.table_versions import CLOCK, UNTIL, VERSION, travelling
from cep.model.schema import INT64, DataType
from cep.transport.wire import Format
from cep.world.store import ReadableFile, Store

_STATE, _FIRST = "state", "first"


class TableFile:
    """The file of a table. `check` raises QueryError where no query may read it. `stamp`: which file was read to its end the last time."""

    def __init__(self, described: TableVersions, store: Store, check: Callable[[str], object]) -> None:
        assert described.table.path is not None, "only the table of a file is read again"
        self.table, self.path, self.store, self.check = described.table, described.table.path, store, check
        self.stamp: list[int] = []

    def read_again(self) -> Generator[Columns, None, bool]:
        """Its rows in pieces; none, and False, if it is as it was. Raises DataError: it cannot be read to its end, or not as declared."""
        try:
            self.check(self.path)
            opened = self.store.open(self.path)
            with ReadableFile(opened) as file:
                stamp = opened.version()
                if stamp == self.stamp:
                    return False
                yield from read_pieces(self.table, file)
                if opened.version() != stamp:
                    raise DataError(f"table {self.path!r}: it changed while it was read; write a new one beside it and rename that")
        except (OSError, QueryError) as error:
            raise DataError(f"table {self.path!r}: cannot be read: {error}") from None
        self.stamp = stamp
        return True


class TableVersionsOperator:
    """`format`: how its rows look where they go; `origin`: do they have origins there?"""

    def __init__(self, described: TableVersions, format_: Format, origin: bool, file: TableFile, clock: Clock, state_limit: int) -> None:
        self.name, self.refresh, self.by_clock = described.name, described.refresh, described.by == CLOCK
        self.format, self.origin, self.file, self.clock, self.state_limit = format_, origin, file, clock, state_limit
        self.since, self.incomplete = MIN_TIME, 0
        self.version = self.tried = 0  # the number of the version in use, and of the last that was begun
        self.next_read = MIN_TIME  # event time, or the clock in µs
        self.problem = ""  # why the file could not be read the last time
        self.first: list[Batch] = []  # what was read when the query was deployed, until it is let out
        self._watermark = MIN_TIME

    def read_first(self) -> None:
        """Raises DataError."""
        self.tried = 1
        self.first = [self._rows(columns, 1) for columns in self.file.read_again()]
        self._check()

    @property
    def notes(self) -> tuple[str, ...]:
        return (f"{self.problem}; the version before stays in use, and it is tried again",) if self.problem else ()

    @property
    def state_bytes(self) -> int:
        return sum(map(batch_bytes, self.first))

    @property
    def next_end(self) -> int | None:
        return None

    @property
    def last_end(self) -> int | None:
        return None

    def on_batch(self, batch: Batch, port: int) -> Iterable[Batch]:
        return NOTHING

    def on_watermark(self, watermark: int) -> Iterable[Batch]:
        now = self.clock() if self.by_clock else watermark
        set_back = self.by_clock and now < self.next_read - self.refresh  # the clock
        before, self._watermark = self._watermark, min(watermark, MAX_TIME - 1)
        if now < self.next_read and not set_back:
            return NOTHING
        return self._go_on(now, max(before, 0) if watermark == MAX_TIME else watermark)

    def watermark_after(self, watermark: int) -> int:
        return watermark

    def on_barrier(self) -> Iterator[Batch]:
        yield from ()

    def _go_on(self, now: int, time: int) -> Iterator[Batch]:
        """What is read now, and what is in use from now on, as rows of the event time `time`."""
        for rows in self._read():
            yield self._at(rows, time)
        if not self.version:
            self.version = 1
            yield from (self._at(rows, time) for rows in self.first)
        self.first = []
        period = now // self.refresh + 1
        self.next_read = now + self.refresh if self.by_clock else MAX_TIME if now == MAX_TIME else period * self.refresh
        yield self._at(end_of_version(self.version, MAX_TIME if self.by_clock else self.next_read, self.format), time)

    def _read(self) -> Iterator[Batch]:
        number = self.tried = self.tried + 1
        reading = self.file.read_again()
        try:
            while True:
                yield self._rows(next(reading), number)
        except StopIteration as read:
            self.problem = ""
            if read.value:
                self.version = number
        except DataError as error:
            self.problem = str(error)

    def _rows(self, columns: Columns, version: int) -> Batch:
        n = len(next(iter(columns.values()), ()))
        return rows_of_version({travelling(name): column for name, column in columns.items()}, n, version, self.format)

    def _at(self, rows: Batch, time: int) -> Batch:
        n = len(rows)
        origin = np.column_stack((np.full(n, -1), np.arange(n))) if self.origin else None
        return Batch(rows.columns, np.full(n, time), origin)

    # State

    def snapshot(self) -> list[Part]:
        """How far it is; and, if that is still to be let out, what was read when the query was deployed."""
        state = [self.version, self.tried, self.next_read, self._watermark, self.problem, self.file.stamp]
        parts = [Part(_STATE, 0, pa.record_batch({"json": text_array([json.dumps(state)])}))]
        return parts + [Part(_FIRST, 0, self.format.to_arrow(rows)) for rows in self.first]

    def restore(self, parts: Sequence[Part], keep: Keep) -> None:
        self.first = [self.format.from_arrow(part.batch) for part in parts if part.name == _FIRST]
        for part in parts:
            if part.name == _STATE:
                state = json.loads(part.batch.column("json")[0].as_py())
                self.version, self.tried, self.next_read, self._watermark, self.problem, self.file.stamp = state
        self._check()

    def clear(self) -> None:
        self.first = []

    def _check(self) -> None:
        check_state(self, self.state_limit)

    def contents(self) -> str:
        return f"the table {self.file.path!r}"


def rows_of_version(columns: Columns, n: int, version: int, format_: Format) -> Batch:
    """`n` rows of a table, at event time 0. `columns`: under the names that they have on their way, perhaps more than go on."""
    own = {VERSION: Column(INT64, np.full(n, version)), UNTIL: Column(INT64, np.full(n, MIN_TIME))}
    return Batch({name: own[name] if name in own else columns[name] for name in format_.schema.names}, np.zeros(n, np.int64))


def end_of_version(version: int, until: int, format_: Format) -> Batch:
    """The row behind the last one of a version, at event time 0. What it has in the table's columns is read by no one."""
    own = {VERSION: Column(INT64, np.array([version])), UNTIL: Column(INT64, np.array([until]))}
    columns = {f.name: own[f.name] if f.name in own else _any_value(f.type) for f in format_.schema.fields}
    return Batch(columns, np.zeros(1, np.int64))


def _any_value(type_: DataType) -> Column:
    if type_.is_bytes:
        return Column(type_, np.zeros(1, np.int32), None, NO_BYTES, np.zeros(1, np.int64))
    dtype = {"bool": "uint8", "timestamp": "int64"}.get(type_.name, type_.name)
    return Column(type_, np.zeros(1, dtype))


def build(described: TableVersions, context: BuildContext) -> TableVersionsOperator:
    if any(field.type.name == "timestamp" for field in described.table.schema.fields):
        warm(READERS["timestamp"])  # the file may have texts, now or later
    format_ = Format(context.columns(described.name))
    file, origin = TableFile(described, context.store, context.check_file), context.layout.origin(described.name)
    operator = TableVersionsOperator(described, format_, origin, file, context.clock, context.state_limit)
    if not context.arriving:
        operator.read_first()
    return operator
