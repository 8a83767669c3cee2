"""What a workload is: one query for both engines, and what it has to answer, computed apart from both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from cep.model.streams import Stream
from driver import Query, files, stream
from hibench.records.dataset import FIELDS
from hibench.runs.answers import Shape

VISITS = "visits"
ANSWERS = "answers"
"""The output stream of every workload."""

REPORTED = "reported"
"""The column with the clock of the last operator, in every answer; it is outside of what is compared."""

CREATION, ADDRESS = FIELDS[:2]


@dataclass(frozen=True)
class RunTerms:
    """The numbers of a run that decide what is answered.

    window_ms, slide_ms  of event time; windows that do not overlap have slide_ms == window_ms
    side                 the file with the small side stream, of a workload that has one
    """

    window_ms: int
    slide_ms: int
    disorder_ms: int
    seed: int
    side: Path | None = None


@dataclass(frozen=True)
class Workload:
    """One of HiBench's streaming workloads, or what we add to them.

    balancer  the balancer that carries its records into the operator `behind`
    query     (visits, terms) → the query, without its output; the same for both engines
    shape     terms → what an answer is
    expected  (tables of the records in order, with `columns`, terms) → tables of the answers
    columns   the fields of a record that it needs, by type
    created   the column of an answer with the creation of the record that it is about, or of the earliest of them
    by_window an answer comes out when its window closes, not when its record has come
    in_files  answers are as many and as large as records, so they go to files rather than to a subscriber
    slides    its windows may overlap
    events    how many records a run has unless asked otherwise, so that all engines are done within five minutes
    side      (terms, first and last event time in ms) → the text of its side stream
    """

    name: str
    balancer: str
    line: str
    behind: str
    query: Callable[[Stream, RunTerms], Query]
    shape: Callable[[RunTerms], Shape]
    expected: Callable[[Iterable[pa.Table], RunTerms], Iterator[pa.Table]]
    columns: dict[str, object]
    created: str
    by_window: bool = False
    in_files: bool = False
    slides: bool = False
    events: int = 10_000_000
    side: Callable[[RunTerms, int, int], str] | None = None


def visits_of_files(columns: dict[str, object], paths: Iterable[Path], disorder_ms: int) -> Stream:
    """The records of text files. A field that is not needed is declared, since it has its place in the line, and not parsed."""
    fields = {name: columns.get(name, str) for name in FIELDS}
    found = [str(path) for path in paths]
    return files(VISITS, fields, paths=found, event_time=CREATION, disorder=f"{disorder_ms}ms")


def visits_published(columns: dict[str, object], disorder_ms: int) -> Stream:
    """Records that are published, with these columns."""
    return stream(VISITS, columns, event_time=CREATION, disorder=f"{disorder_ms}ms")
