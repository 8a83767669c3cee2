"""Every tuple with rows of the version of a table that is its own: what a Lookup with `refresh` is in a plan, beside TableVersions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from cep.errors import QueryError, meant
from cep.model.checked import check_fields
from cep.model.contract import phrases
from cep.model.contract.forms import PAIRS, SPAN, TABLE, TEXT, Form, optional
from cep.model.contract.matching import Matching, Pairs
from cep.model.contract.operator import EachAlone, Origins, TwoInputs, Wanted
from cep.model.operators.table_versions import EVENT_TIME, UNTIL, VERSION, column_of, grain_of, travelling
from cep.model.schema import Schema
from cep.model.tables import StaticTable
from cep.model.types import listing


@dataclass(frozen=True)
class VersionedLookup(Matching, EachAlone, TwoInputs):
    """Every left tuple with rows of `table`, whose versions come on the right and go everywhere."""

    name: str
    left: str
    right: str
    table: StaticTable
    refresh: int
    on: Pairs
    how: str = "inner"
    prefix: str = ""
    versions: str | None = None
    by: str = EVENT_TIME

    def __post_init__(self) -> None:
        check_fields(self)
        self.check_matching(("inner", "left"))
        check_versions(self.name, self.table.schema, self.versions)

    @staticmethod
    def keys() -> Mapping[str, Form]:
        tables = {"left": TEXT, "right": TEXT, "table": TABLE, "refresh": SPAN}
        return tables | {"on": PAIRS, "how": TEXT, "prefix": TEXT, "versions": optional(TEXT), "by": TEXT}

    def explained(self) -> str:
        return f"lookup in {self.table.path} on {phrases.equal(self.on)}"

    def output_schema(self, *inputs: Schema) -> Schema:
        return self.joined_schema(inputs[0], self.table.schema)

    def reads(self, port: int, names: tuple[str, ...], wanted: Wanted) -> Collection[str]:
        if not port:
            return {*(left for left, _ in self.on), *wanted(names)}
        needed = {right for _, right in self.on} | ({self.versions} if self.versions is not None else set())
        columns = {column: name for name in names if (column := column_of(name)) is not None}
        passed = set(wanted([self.prefix + column for column in columns]))
        kept = {travelling(column) for column in columns if column in needed or self.prefix + column in passed}
        return kept | {VERSION, UNTIL}

    def passes(self, column: str) -> tuple[str, ...] | None:
        return None  # none that both inputs have

    @property
    def keeps_time(self) -> bool:
        return True

    @property
    def origins(self) -> Origins:
        return Origins.NUMBERED

    @property
    def stateful(self) -> bool:
        return True

    @property
    def everywhere(self) -> int | None:
        return 1

    @property
    def why_together(self) -> str:
        return "needs every version of its table"

    def grain(self, below: int) -> int:
        return grain_of(self.refresh, self.by, below)

    @property
    def files(self) -> tuple[str, ...]:
        return ()


def read_of_table(operator: Matching, table: Schema) -> set[str]:
    """The columns of joined tuples that are the table's alone."""
    shared = {left for left, right in operator.on if left == right}
    return {operator.prefix + name for name in table.names if name not in shared}


def check_versions(operator: str, table: Schema, column: str | None) -> None:
    """Raises QueryError: `column` of a table does not say from when its row holds."""
    where = f"operator {operator!r}, versions"
    if column is None:
        return
    if column not in table:
        there = f"{meant(column, table.names)}; there {listing(table.names)}"
        raise QueryError(f"{where}: no column {column!r} in the table{there}", "/versions")
    if table[column].type.name != "timestamp" or table[column].nullable:
        raise QueryError(f"{where}: expected a timestamp that is never NULL, got {table[column]}", "/versions")
