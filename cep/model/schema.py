"""Types, fields and schemas of streams (rule 4.2).

A timestamp is stored as int64 µs UTC whatever its unit; the unit says what an integer means when a user hands one in.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import pyarrow as pa

from cep.errors import QueryError, meant
from cep.model.ids import name_id

UNIT_US = {"s": 1_000_000, "ms": 1_000, "us": 1}


@dataclass(frozen=True, slots=True)
class DataType:
    """One of the engine's types.

    `unit` is set for timestamps only: s, ms, us, ns, or "" (refuses integers). `element` is set for lists only, whose elements are
    of that type or NULL.
    """

    name: str
    unit: str = ""
    element: DataType | None = None

    def __str__(self) -> str:
        if self.element is not None:
            return f"list<{self.element}>"
        return f"{self.name}[{self.unit}]" if self.unit else self.name

    @property
    def is_number(self) -> bool:
        return self.name in ("int32", "int64", "float64")

    @property
    def is_integer(self) -> bool:
        return self.name in ("int32", "int64")

    @property
    def is_text(self) -> bool:
        return self.name in ("string", "binary")

    @property
    def is_list(self) -> bool:
        return self.element is not None

    @property
    def is_bytes(self) -> bool:
        """Stored as bytes of any length rather than as a machine word: text and lists."""
        return self.element is not None or self.name in ("string", "binary")

    @property
    def arrow(self) -> pa.DataType:
        return _ARROW[self.name] if self.element is None else pa.list_(self.element.arrow)


BOOL, INT32, INT64, FLOAT64 = DataType("bool"), DataType("int32"), DataType("int64"), DataType("float64")
STRING, BINARY, TIMESTAMP = DataType("string"), DataType("binary"), DataType("timestamp")
TIMESTAMP_US = DataType("timestamp", "us")

_ARROW = {
    "bool": pa.bool_(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "string": pa.string(),
    "binary": pa.binary(),
}
_BY_TEXT = {str(t): t for t in (BOOL, INT32, INT64, FLOAT64, STRING, BINARY, TIMESTAMP)} | {
    f"timestamp[{unit}]": DataType("timestamp", unit) for unit in ("s", "ms", "us", "ns")
}
_BY_PYTHON = {bool: BOOL, int: INT64, float: FLOAT64, str: STRING, bytes: BINARY, datetime: TIMESTAMP}


@dataclass(frozen=True, slots=True)
class Field:
    """A named, typed column of a stream."""

    name: str
    type: DataType
    nullable: bool = False

    def __str__(self) -> str:
        return f"{self.name}: {self.type}{'?' if self.nullable else ''}"


def list_of(element: DataType) -> DataType:
    """Lists whose elements are of `element`, a type that is no list, or NULL."""
    if element.is_list:
        raise QueryError(f"a list of {element}: expected elements that are no lists")
    return DataType("list", element=element)


def parse_type(text: object) -> tuple[DataType, bool]:
    """`"int64"`, `"string?"`, `"timestamp[ms]"`, `"list<string>"`, `str`, `int | None`, `list[str]`, a DataType -> (type, nullable)."""
    if isinstance(text, DataType):
        return text, False
    found = _named_type(text.removesuffix("?")) if isinstance(text, str) else _python_type(text)
    if found is not None:
        return found, isinstance(text, str) and text.endswith("?")
    if isinstance(text, types.UnionType) or typing.get_origin(text) is typing.Union:
        plain = [_python_type(arm) for arm in typing.get_args(text) if arm is not type(None)]
        if len(plain) == 1 and plain[0] is not None:
            return plain[0], True
    known = ", ".join(_BY_TEXT)
    expected = f"expected one of {known}, or list<one of them>, with '?' behind it where NULL is allowed"
    raise QueryError(f"unknown type {text!r}{meant(text, _BY_TEXT)}; {expected}")


def _named_type(text: str) -> DataType | None:
    if text.startswith("list<") and text.endswith(">"):
        element = _BY_TEXT.get(text.removeprefix("list<").removesuffix(">"))
        return None if element is None else list_of(element)
    return _BY_TEXT.get(text)


def _python_type(given: object) -> DataType | None:
    if typing.get_origin(given) is list:
        element = _BY_PYTHON.get(*typing.get_args(given))
        return None if element is None else list_of(element)
    return _BY_PYTHON.get(given) if isinstance(given, type) else None


@dataclass(frozen=True)
class Schema:
    """The columns of a stream, in order. Immutable; what a stream's may become is said in `cep.model.growth`."""

    fields: tuple[Field, ...]

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for index, field in enumerate(self.fields):
            if not field.name or field.name.startswith("__"):
                raise QueryError(f"field name {field.name!r}: expected a name that does not begin with '__'", f"/{index}/name")
            if field.name in seen:
                raise QueryError(f"field {field.name!r} is declared twice", f"/{index}/name")
            seen.add(field.name)

    @staticmethod
    def of(columns: Mapping[str, object]) -> Schema:
        """From names to types as a user writes them: `Schema.of({"ip": str, "ts": "timestamp[ms]"})`."""
        return Schema(tuple(Field(name, *parse_type(text)) for name, text in columns.items()))

    @cached_property
    def by_name(self) -> Mapping[str, Field]:
        return {field.name: field for field in self.fields}

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)

    def __contains__(self, name: str) -> bool:
        return name in self.by_name

    def __getitem__(self, name: str) -> Field:
        return self.by_name[name]

    def __str__(self) -> str:
        return "(" + ", ".join(map(str, self.fields)) + ")"

    @cached_property
    def arrow(self) -> pa.Schema:
        return pa.schema([pa.field(f.name, f.type.arrow, nullable=f.nullable) for f in self.fields])

    @cached_property
    def fingerprint(self) -> int:
        """64 bits that travel in every header, so that a batch of another schema is known before it is read."""
        return name_id(str(self))

    def to_json(self) -> list[dict[str, object]]:
        return [{"name": f.name, "type": f"{f.type}{'?' if f.nullable else ''}"} for f in self.fields]

    @staticmethod
    def from_json(document: object, pointer: str = "") -> Schema:
        if not isinstance(document, list):
            raise QueryError(f"expected a list of fields, got {type(document).__name__}", pointer)
        fields = []
        for index, entry in enumerate(document):
            if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
                raise QueryError('expected {"name": ..., "type": ...}, got ' + repr(entry), f"{pointer}/{index}")
            try:
                fields.append(Field(entry["name"], *parse_type(entry.get("type"))))
            except QueryError as error:
                raise error.under(f"{pointer}/{index}/type") from None
        try:
            return Schema(tuple(fields))
        except QueryError as error:
            raise error.under(pointer) from None
