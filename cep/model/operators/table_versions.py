"""The table of a lookup, read again and again by one instance: what a Lookup with `refresh` is in a plan, beside VersionedLookup."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import gcd

from cep.model.contract.forms import SPAN, TABLE, TEXT, Form
from cep.model.contract.operator import EachAlone, OneInput, Origins, Wanted
from cep.model.duration import format_duration
from cep.model.schema import INT64, Field, Schema
from cep.model.tables import StaticTable

EVENT_TIME, CLOCK = TIMES = ("event_time", "clock")
#: Which version a row is of; and in the row behind the last of a version, which is none of the table, until when that holds.
VERSION, UNTIL = "version", "until"
_OF_TABLE = "of."


def travelling(column: str) -> str:
    """What a column of the table is called on its way."""
    return _OF_TABLE + column


def column_of(name: str) -> str | None:
    """The column of the table that is called so on its way; None: it is none of the table's."""
    return name.removeprefix(_OF_TABLE) if name.startswith(_OF_TABLE) else None


@dataclass(frozen=True)
class TableVersions(EachAlone, OneInput):
    """Of the tuples that come it reads nothing, only how far event time has come. It has no key: what one instance has read is for all."""

    name: str
    input: str
    table: StaticTable
    refresh: int
    by: str = EVENT_TIME

    @staticmethod
    def keys() -> Mapping[str, Form]:
        return {"input": TEXT, "table": TABLE, "refresh": SPAN, "by": TEXT}

    def explained(self) -> str:
        return f"{self.table.path}, read again every {format_duration(self.refresh)} by the {self.by.replace('_', ' ')}"

    def output_schema(self, *inputs: Schema) -> Schema:
        rows = (Field(travelling(field.name), field.type, field.nullable) for field in self.table.schema.fields)
        return Schema((Field(VERSION, INT64), Field(UNTIL, INT64), *rows))

    def reads(self, port: int, names: tuple[str, ...], wanted: Wanted) -> Collection[str]:
        return ()

    def passes(self, column: str) -> tuple[str, ...] | None:
        return None

    @property
    def keeps_time(self) -> bool:
        return False

    @property
    def origins(self) -> Origins:
        return Origins.HASHED

    @property
    def stateful(self) -> bool:
        return True

    @property
    def why_together(self) -> str:
        return "reads its table for all instances of the lookup, so that they see the same versions"

    def grain(self, below: int) -> int:
        return grain_of(self.refresh, self.by, below)

    @property
    def files(self) -> tuple[str, ...]:
        return () if self.table.path is None else (self.table.path,)


def grain_of(refresh: int, by: str, below: int) -> int:
    """By event time it waits for the multiples of `refresh`."""
    return gcd(below, refresh) if by == EVENT_TIME else below
