"""Every tuple with rows of a table, which may have versions: rows that hold from an instant on, and a file that is read again."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from cep.errors import QueryError
from cep.model.checked import check_fields
from cep.model.contract import phrases
from cep.model.contract.forms import PAIRS, SPAN, TABLE, TEXT, Form, optional
from cep.model.contract.matching import Matching, Pairs
from cep.model.contract.operator import OneInput, Operator, Origins, Stateless, Wanted
from cep.model.duration import format_duration
from cep.model.expr import lit
from cep.model.operators.filter import Filter
from cep.model.operators.table_versions import EVENT_TIME, TIMES, TableVersions
from cep.model.operators.versioned_lookup import VersionedLookup, check_versions, read_of_table
from cep.model.schema import Schema
from cep.model.tables import StaticTable
from cep.model.windows import check_span


@dataclass(frozen=True)
class Lookup(Matching, Stateless, OneInput):
    """Every tuple with every row of a table where the pairs `on` are equal; `how` inner or left.

    `versions` names a column of the table, the event time from which its row holds: a tuple meets of its key only the rows with the
    greatest one that is not after its own. `refresh`, µs: the table's file is read again that often, `by` event time or the clock.
    """

    name: str
    input: str
    table: StaticTable
    on: Pairs
    how: str = "inner"
    prefix: str = ""
    versions: str | None = None
    refresh: int | None = None
    by: str = EVENT_TIME

    def __post_init__(self) -> None:
        check_fields(self)
        self.check_matching(("inner", "left"))
        check_versions(self.name, self.table.schema, self.versions)
        self._check_refresh()

    def _check_refresh(self) -> None:
        where = f"operator {self.name!r}"
        if self.by not in TIMES:
            raise QueryError(f"{where}: by: expected one of {', '.join(TIMES)}, got {self.by!r}", "/by")
        if self.refresh is None:
            if self.by != EVENT_TIME:
                raise QueryError(f"{where}: by: says when the table is read again, but there is no refresh; say refresh='1m'", "/by")
            return
        check_span(self.refresh, f"{where}: refresh", "/refresh")
        if self.table.path is None:
            raise QueryError(
                f"{where}: refresh: a table in the query's document stays as it is; write it to a file under a folder of the cluster and "
                "name its path",
                "/refresh",
            )

    @staticmethod
    def keys() -> Mapping[str, Form]:
        return {
            "input": TEXT,
            "table": TABLE,
            "on": PAIRS,
            "how": TEXT,
            "prefix": TEXT,
            "versions": optional(TEXT),
            "refresh": optional(SPAN),
            "by": TEXT,
        }

    def in_full(self) -> tuple[Operator, ...]:
        """Where the file is read again one instance reads it, and every instance of the lookup gets the versions from there. That one
        needs no tuples, only to know how far event time has come."""
        if self.refresh is None:
            return (self,)
        moments = Filter(f"{self.name}.moments", self.input, lit(False))
        table = TableVersions(f"{self.name}.table", moments.name, self.table, self.refresh, self.by)
        every = self.table, self.refresh
        matching: tuple[Any, ...] = self.on, self.how, self.prefix, self.versions, self.by
        return moments, table, VersionedLookup(self.name, self.input, table.name, *every, *matching)

    def explained(self) -> str:
        again = "" if self.refresh is None else f", read again every {format_duration(self.refresh)} by the {self.by.replace('_', ' ')}"
        as_of = "" if self.versions is None else f" as of {self.versions}"
        return f"lookup in {self.table.path or 'a table of the query'}{as_of} on {phrases.equal(self.on)}{again}"

    def output_schema(self, *inputs: Schema) -> Schema:
        return self.joined_schema(inputs[0], self.table.schema)

    def reads(self, port: int, names: tuple[str, ...], wanted: Wanted) -> Collection[str]:
        return {*(left for left, _ in self.on), *wanted(names)}

    def passes(self, column: str) -> tuple[str, ...] | None:
        return None if column in read_of_table(self, self.table.schema) else (column,)

    @property
    def keeps_time(self) -> bool:
        return True

    @property
    def origins(self) -> Origins:
        return Origins.NUMBERED

    @property
    def files(self) -> tuple[str, ...]:
        return () if self.table.path is None else (self.table.path,)
