"""What a run of an engine leaves: what it measured, its answers, and all that the record of the run is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from hibench.runs.answers import Expected, RowsAgain, Windows
from hibench.runs.meter import Use
from hibench.runs.record import TABLES, Placed
from hibench.runs.result import RunResult


@dataclass(frozen=True)
class RunOutcome:
    """One run of one engine.

    rows         the answers, of the shape that they are expected in
    windows      how many records and answers there are by window
    tables, plan, explanation, placed   see `hibench.runs.record.RunRecord`
    """

    result: RunResult
    rows: RowsAgain
    windows: Windows
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    plan: Mapping[str, Any] | None = None
    explanation: str = ""
    placed: tuple[Placed, ...] = ()

    def checked(self, expected: Expected) -> RunOutcome:
        """This outcome, held against what was expected."""
        tables = {**self.tables, "windows": windows_table(expected.windows, self.windows)}
        return replace(self, result=self.result.checked(expected, self.rows), tables=tables)


def windows_table(expected: Windows, got: Windows) -> pa.Table:
    """Every window that either has; what one has not is 0."""
    starts = sorted({*expected, *got})
    rows = [(start * 1000, expected.get(start, (0, 0)), got.get(start, (0, 0))) for start in starts]
    return _table("windows", ((start, wanted[0], there[0], wanted[1], there[1]) for start, wanted, there in rows))


def timeline_table(use: Use) -> pa.Table:
    """The samples of the meter."""
    return _table("timeline", ((s.seconds, s.process, s.cpu_seconds, s.anonymous_bytes, s.events) for s in use.samples))


def operators_table(instances: Iterable[Mapping[str, Any]]) -> pa.Table:
    """The operators in the figures of the instances of a query (`Cluster.figures`)."""
    rows = [
        (each["subquery"], each["instance"], each["im"], step["name"], step["step"], step["rows_in"], step["cpu_ns"])
        for each in instances
        for step in each["operators"]
    ]
    return _table("operators", sorted(rows))


def pages_table(pages: Iterable[tuple[str, int | None, Mapping[int, int]]]) -> pa.Table:
    """The table of what is given as (process, the node it is bound to, node → pages)."""
    return _table("pages", ((process, bound, node, count) for process, bound, found in pages for node, count in found.items()))


def _table(name: str, rows: Iterable[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(TABLES[name])
    return pa.table([pa.array(column, type_) for column, type_ in zip(columns, TABLES[name].types, strict=True)], schema=TABLES[name])
