"""Avro: a message is a record, a file is a container of them.

A message of a topic with a schema registry begins with a zero byte and the number of its schema (four bytes), which the registry gives.
Instants are longs of the logical type `timestamp-micros`, or of others that fastavro knows; names of fields are names of columns.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import partial
from io import BytesIO
from itertools import islice
from typing import Annotated, Any, BinaryIO, ClassVar, Self

import httpx
import pyarrow as pa
from pydantic import Field, PrivateAttr, model_validator

from connectors.contract.errors import ConnectorError
from connectors.contract.formats import Decoded, FileFormat, RowsFile
from connectors.contract.options import library
from connectors.formats.reading_apart import read_apart

EXTRA = "avro"
ANSWER_S = 10.0
RECORDS_MAX = 4096
MAGIC = b"\0"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ID_BYTES = 4


class AvroFormat(FileFormat):
    """Records of a schema."""

    suffix: ClassVar[str] = ".avro"
    media: ClassVar[str] = "application/avro"
    registry: Annotated[str | None, Field(pattern="^https?://", description="A schema registry's address.")] = None
    headers: Annotated[
        dict[str, str], Field(description="For the registry, such as `Authorization: Basic ${env:REGISTRY_LOGIN}`.", default_factory=dict)
    ]
    subject: Annotated[str | None, Field(description="Under which it keeps the schema of what goes out, such as `alarms-value`.")] = None
    record: Annotated[
        dict[str, Any] | None, Field(description="The schema: of messages if no registry has it; of what goes out, if not the stream's.")
    ] = None
    schema_id: Annotated[int | None, Field(ge=0, lt=1 << 32, description="Messages begin with this number of `record`.")] = None
    _known: dict[int, Any] = PrivateAttr(default_factory=dict)  # parsed
    _written: dict[tuple[pa.Schema, int | None], tuple[bytes, Any]] = PrivateAttr(
        default_factory=dict
    )  # what a message begins with, and the schema

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.schema_id is not None and (self.record is None or self.registry is not None):
            raise ValueError("schema_id: the number of `record`, where there is no registry")
        return self

    # Messages

    def decode(self, values: Sequence[bytes], schema: pa.Schema) -> Decoded:
        read = partial(self._rows, schema)
        return read_apart(values, read, read)

    def encode(self, rows: pa.RecordBatch) -> list[bytes]:
        head, schema = self._for(rows.schema)
        write = library("fastavro", EXTRA).schemaless_writer
        values = []
        for record in self._records(rows):
            value = BytesIO()
            value.write(head)
            write(value, schema, record)
            values.append(value.getvalue())
        return values

    def _rows(self, schema: pa.Schema, values: Sequence[bytes]) -> pa.RecordBatch:
        """Raises ValueError: one of them is no such record."""
        read, records = library("fastavro", EXTRA).schemaless_reader, []
        known = dict[bytes, tuple[Any, int]]()
        head = 0 if self.registry is None and self.schema_id is None else len(MAGIC) + _ID_BYTES
        for value in values:
            if value[:head] not in known:
                known[value[:head]] = self._schema_of(value)
            written, begin = known[value[:head]]
            file = BytesIO(value)
            file.seek(begin)
            try:
                records.append(read(file, written, None))
            except Exception as error:  # of many kinds: whatever nonsense leads to
                raise ValueError(f"no record of its schema: {type(error).__name__}: {error}") from None
            if file.tell() != len(value):
                raise ValueError(f"{len(value) - file.tell()} bytes follow the record")
            if not isinstance(records[-1], dict):
                raise ValueError("its schema is of no record")
        return pa.RecordBatch.from_arrays([_column(records, field) for field in schema], names=schema.names)

    def _schema_of(self, value: bytes) -> tuple[Any, int]:
        """In which it was written, and where it begins."""
        if self.registry is None and self.record is None:
            raise ConnectorError("format avro: messages do not say their schema; name a registry, or the record")
        if self.registry is None and self.schema_id is None:
            return self._parsed(0, lambda: self.record), 0
        begin = len(MAGIC) + _ID_BYTES
        if not value.startswith(MAGIC) or len(value) < begin:
            raise ValueError("no zero byte and number of a schema at the beginning")
        number = int.from_bytes(value[len(MAGIC) : begin], "big")
        if self.registry is None:
            if number != self.schema_id:
                raise ValueError(f"schema {number}; expected {self.schema_id}")
            return self._parsed(number, lambda: self.record), begin
        return self._parsed(number, partial(self._asked, number)), begin

    def _parsed(self, number: int, schema: Any) -> Any:
        if number not in self._known:
            self._known[number] = library("fastavro", EXTRA).parse_schema(schema())
        return self._known[number]

    def _asked(self, number: int) -> Any:
        """Raises ConnectorError: the registry does not answer; ValueError: it has no such schema, so the value is none."""
        answer = self._ask("GET", f"/schemas/ids/{number}")
        if answer.status_code == httpx.codes.NOT_FOUND:
            raise ValueError(f"the registry knows no schema {number}")
        found = self._answered(answer)
        if found.get("schemaType", "AVRO") != "AVRO" or found.get("references"):
            raise ValueError(f"schema {number} is no Avro by itself")
        return json.loads(found["schema"])

    def _for(self, schema: pa.Schema) -> tuple[bytes, Any]:
        """What messages of such rows begin with, and their schema."""
        key = schema, self.schema_id
        if key not in self._written:
            said = self.record or record_of(schema)
            parsed, number = library("fastavro", EXTRA).parse_schema(said), self.schema_id
            if self.registry is not None:
                if self.subject is None:
                    raise ConnectorError("format avro: say the subject under which the registry is to keep the schema")
                answer = self._ask("POST", f"/subjects/{self.subject}/versions", {"schema": json.dumps(said)})
                number = int(self._answered(answer)["id"])
            self._written[key] = b"" if number is None else MAGIC + number.to_bytes(_ID_BYTES, "big"), parsed
        return self._written[key]

    def _ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        try:
            return httpx.request(method, f"{str(self.registry).rstrip('/')}{path}", json=body, headers=self.headers, timeout=ANSWER_S)
        except httpx.HTTPError as error:
            raise ConnectorError(f"{self.registry}: {type(error).__name__}: {error}") from None

    def _answered(self, answer: httpx.Response) -> Mapping[str, Any]:
        if not answer.is_success:
            raise ConnectorError(f"{self.registry} answered {answer.status_code}: {answer.text[:200]}")
        found: Mapping[str, Any] = answer.json()
        return found

    # Files

    def batches(self, file: BinaryIO) -> Iterator[pa.RecordBatch]:
        try:
            records = iter(library("fastavro", EXTRA).reader(file))
            while found := list(islice(records, RECORDS_MAX)):
                yield from _batches(found)
        except ConnectorError:
            raise
        except Exception as error:  # of many kinds: whatever nonsense leads to
            raise ValueError(f"{type(error).__name__}: {error}") from None

    def rows_file(self, file: BinaryIO, schema: pa.Schema) -> RowsFile:
        return _Container(self, file, self.record or record_of(schema))

    def _records(self, rows: pa.RecordBatch) -> list[dict[str, Any]]:
        """Instants as integers where the schema is ours, for dates have fewer years than instants."""
        records: list[dict[str, Any]] = (rows if self.record else _with_integers(rows)).to_pylist()
        return records


def _batches(records: Sequence[Mapping[str, Any]]) -> Iterator[pa.RecordBatch]:
    """Where a field has values of several kinds, which are no column, in pieces of one. Raises pa.ArrowException: a value is of none."""
    try:
        batch = pa.RecordBatch.from_pylist(records)
    except pa.ArrowException:
        if len(records) == 1:
            raise
        middle = len(records) // 2
        yield from _batches(records[:middle])
        yield from _batches(records[middle:])
    else:
        columns = [column if (wanted := _floats(column.type)) == column.type else column.cast(wanted) for column in batch.columns]
        yield pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _floats(type_: pa.DataType) -> pa.DataType:
    """In place of decimals."""
    if pa.types.is_list(type_):
        return pa.list_(_floats(type_.value_type))
    return pa.float64() if pa.types.is_decimal(type_) else type_


class _Container(RowsFile):
    def __init__(self, format: AvroFormat, file: BinaryIO, schema: Mapping[str, Any]) -> None:
        self.format = format
        self.writer = library("fastavro.write", EXTRA).Writer(file, library("fastavro", EXTRA).parse_schema(schema))

    def write(self, rows: pa.RecordBatch) -> None:
        for record in self.format._records(rows):
            self.writer.write(record)

    def finish(self) -> None:
        self.writer.flush()


def record_of(schema: pa.Schema) -> dict[str, Any]:
    """A schema of Avro for rows. Raises ConnectorError: a name is none of Avro's."""
    for name in schema.names:
        if not _NAME.fullmatch(name):
            raise ConnectorError(f"format avro: column {name!r} cannot be a field's name there: letters, digits and _")
    fields = [{"name": each.name, "type": ["null", _avro(each.type)] if each.nullable else _avro(each.type)} for each in schema]
    return {"type": "record", "name": "Row", "fields": fields}


_NAMES = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
}


def _avro(type_: pa.DataType) -> Any:
    if pa.types.is_list(type_):
        return {"type": "array", "items": ["null", _avro(type_.value_type)]}
    if pa.types.is_timestamp(type_):
        return {"type": "long", "logicalType": "timestamp-micros"}
    if type_ not in _NAMES:
        raise ConnectorError(f"format avro: no column of type {type_}")
    return _NAMES[type_]


def _with_integers(rows: pa.RecordBatch) -> pa.RecordBatch:
    columns = [column.cast(_integers(column.type)) for column in rows.columns]
    return pa.RecordBatch.from_arrays(columns, names=rows.schema.names)


def _integers(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_list(type_):
        return pa.list_(_integers(type_.value_type))
    return pa.int64() if pa.types.is_timestamp(type_) else type_


_KINDS: Sequence[tuple[Any, tuple[type, ...]]] = (
    (pa.types.is_boolean, (bool,)),
    (pa.types.is_integer, (int,)),
    (pa.types.is_floating, (float, int, Decimal)),
    (pa.types.is_string, (str,)),
    (pa.types.is_binary, (bytes,)),
)


def _column(records: Sequence[Mapping[str, Any]], field: pa.Field) -> pa.Array:
    """Raises ValueError, pa.ArrowException: a value is none of the column's."""
    values = [record.get(field.name) for record in records]
    is_list = pa.types.is_list(field.type)
    of = field.type.value_type if is_list else field.type
    if is_list and (other := {type(value) for value in values} - {list, type(None)}):
        raise _unexpected(field, other)
    inside = [each for value in values if value is not None for each in (value if is_list else (value,))]
    kinds = {type(each) for each in inside if each is not None}
    if pa.types.is_timestamp(of):
        if kinds <= {int}:  # of the unit that the stream declares
            return pa.array(values, _integers(field.type))
        expected: tuple[type, ...] = (datetime,)
    else:
        expected = next(each for is_, each in _KINDS if is_(of))
    if other := kinds - set(expected):
        raise _unexpected(field, other)
    if pa.types.is_floating(of) and kinds - {float}:
        values = [_float(value) for value in values]
    return pa.array(values, field.type)


def _unexpected(field: pa.Field, kinds: set[type]) -> ValueError:
    return ValueError(f"field {field.name!r}: expected {field.type}, got {', '.join(sorted(each.__name__ for each in kinds))}")


def _float(value: Any) -> Any:
    """Of a number of any kind, also in a list."""
    if isinstance(value, list):
        return [_float(each) for each in value]
    return None if value is None else float(value)
