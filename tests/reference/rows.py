"""What goes into the reference and what goes through it.

Values are plain Python: bool, int, float, str, bytes, and for a timestamp int µs, whatever unit its type declares; None
is NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cep.model.expr import Expr
from cep.model.schema import Schema

Values = tuple[Any, ...]
#: Two integers or more, compared from the left; a shorter one comes before its continuations. Of a source's row: (source << 48 |
#: partition, record number); an aggregate's row has (hash of operator, key and window start, window start), a joined row the
#: fold of both sides'; FlatMap, Lookup and Apply append a number. Rule 4.5; the packing is in docs/features/data_plane.md.
Origin = tuple[int, ...]
#: (operator name, key, window start) -> the origin of an aggregate's row.
AggregateOrigin = Callable[[str, Values, int], Origin]
#: (operator name, left origin, right origin), None for a side that is not there -> the origin of a joined row.
JoinedOrigin = Callable[[str, Origin | None, Origin | None], Origin]
#: (expression, schema of the row, its values by name) -> its value; raises Failed.
Evaluate = Callable[[Expr, Schema, Mapping[str, Any]], Any]

BAD_INPUT = "bad input"
SUM_OVERFLOW = "sum overflow"
USER_FUNCTION = "user's function"


class Failed(Exception):
    """The row goes to the dead letters."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Bad:
    """A record that did not parse. `time` is its event time if that did: it moves the stamp even so (rule 4.7)."""

    reason: str
    time: int | None = None


@dataclass(frozen=True)
class Idle:
    """A publisher is silent. By itself it changes no answer."""


@dataclass(frozen=True)
class Awake:
    """It was idle, and its stamp starts here: at the greatest answer of its readers."""

    stamp: int


@dataclass(frozen=True)
class Advance:
    """It promises that no row older than `to` will come."""

    to: int


Mark = Idle | Awake | Advance


@dataclass(frozen=True)
class Partition:
    """Part of a source's definition: a publisher, or a block of `file`. Its rows stand in the order they came.

    `index` numbers it among the partitions of its stream: it decides between rows of one event time. A row is a tuple
    in schema order, a mapping by name, or Bad. `stamp` is where a publisher was registered (rule 4.11). `times` are
    the stamps of ingestion, for a stream that declares no event time. `marks`: what a publisher said between its rows, each with the
    number of the row that comes next.
    """

    index: int
    rows: Sequence[Values | Mapping[str, Any] | Bad]
    file: str | None = None
    stamp: int | None = None
    times: Sequence[int] | None = None
    marks: Sequence[tuple[int, Mark]] = ()


@dataclass(frozen=True)
class Row:
    """A tuple under way: hidden event time, origin, columns."""

    time: int
    origin: Origin
    values: Values


@dataclass(frozen=True)
class DeadLetter:
    """`operator` is what failed, or the stream whose record was bad; `reason` is a class, not a sentence."""

    operator: str
    reason: str
    origin: Origin
