"""Declarations of streams (rules 4.3, 4.7, 4.10). A stream is declared once and outlives the queries that read it; it may grow
(`cep.model.growth`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from cep.errors import QueryError, escaped, meant
from cep.model import expr as expressions
from cep.model import file_documents
from cep.model.duration import format_duration, parse_duration
from cep.model.expr import Call, ColumnRef, Expr, Udf
from cep.model.file_documents import AnyType, check_separator
from cep.model.limits import BLOCK_BYTES_MAX, BLOCK_BYTES_MIN, EVENT_TIMES, checked, shown
from cep.model.schema import DataType, Schema
from cep.model.types import Typed, typed

BLOCK_BYTES = 64 << 20
_KEYS = frozenset(("name", "schema", "event_time", "disorder", "files", "event_times", "idle_after", "watermark", "partitioned_by"))
USUAL_TIMES = next(iter(EVENT_TIMES))
#: A publisher looks ten times a second whether it is idle.
IDLE_AFTER_MIN = 100_000
CLOCK = "clock"


class SourceFiles(Protocol):
    """Files of one format that a stream is read from. What else they say of themselves are the options of the format."""

    format: ClassVar[str]

    @property
    def paths(self) -> tuple[str, ...]:
        """Paths or globs; sorted by path when the plan is made."""

    def refuses(self, type_: DataType) -> str:
        """Why they hold no values of a type; empty: they do."""


def _check_paths(files: SourceFiles) -> None:
    if not files.paths:
        raise QueryError("paths: expected at least one", "/paths")


def _check_block_bytes(block_bytes: int) -> None:
    checked(block_bytes, "block_bytes", BLOCK_BYTES_MIN, BLOCK_BYTES_MAX, "/block_bytes")


@dataclass(frozen=True, slots=True)
class TextFiles:
    """Delimited text: one record a line, fields split at `separator`, no quoting; with `header` the first line of every file is no
    record. A block, of `block_bytes`, is a partition."""

    format: ClassVar[str] = "text"
    paths: tuple[str, ...]
    separator: str = ","
    header: bool = False
    block_bytes: int = BLOCK_BYTES

    def __post_init__(self) -> None:
        _check_paths(self)
        check_separator(self.separator)
        _check_block_bytes(self.block_bytes)

    def refuses(self, type_: DataType) -> str:
        return "files of text hold no lists; declare it string and split it in a map" if type_.is_list else ""


@dataclass(frozen=True, slots=True)
class JsonLinesFiles(AnyType):
    """JSON Lines: an object a line, whose members are the fields; others are not looked at. A block, of `block_bytes`, is a partition."""

    format: ClassVar[str] = "jsonl"
    paths: tuple[str, ...]
    block_bytes: int = BLOCK_BYTES

    def __post_init__(self) -> None:
        _check_paths(self)
        _check_block_bytes(self.block_bytes)


@dataclass(frozen=True, slots=True)
class ParquetFiles(AnyType):
    """Parquet, whose columns are the fields; others are not read. A row group is a partition."""

    format: ClassVar[str] = "parquet"
    paths: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_paths(self)


@dataclass(frozen=True, slots=True)
class ArrowFiles(AnyType):
    """The IPC file format of Arrow, whose columns are the fields; others are not read. A record batch is a partition."""

    format: ClassVar[str] = "arrow"
    paths: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_paths(self)


#: Formats that streams are read from, by name; a document that names none is of the first. How a format is read is said in
#: `cep.dataflow.sources.opening`.
SOURCE_FORMATS: Mapping[str, type[SourceFiles]] = {each.format: each for each in (TextFiles, JsonLinesFiles, ParquetFiles, ArrowFiles)}


@dataclass(frozen=True)
class Stream:
    """A declared stream: published by clients, or read from files.

    `event_time` None means the time of ingestion; otherwise `disorder` (µs) is the promise of how far a row may be behind
    the greatest event time before it in its partition. There is no default for it. `event_times` says which there may be, of
    `cep.model.limits.EVENT_TIMES`; a row with another one is a dead letter.

    `idle_after` (µs): a publisher that sends nothing for so long is idle, and is not waited for; None: never. `watermark`
    CLOCK: its rows are stamped live, and a publisher's stamp follows its clock while it sends nothing; None: rows alone move it.

    `partitioned_by`: fields of which all rows with the same values are in one of its files. Replicas of a query then read files
    of their own.
    """

    name: str
    schema: Schema
    event_time: Expr | None = field(default=None, compare=False)
    disorder: int | None = None
    files: SourceFiles | None = None
    event_times: str = USUAL_TIMES
    idle_after: int | None = None
    watermark: str | None = None
    partitioned_by: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.name:
            raise QueryError("a stream needs a name", "/name")
        if self.event_time is not None and self.disorder is None:
            raise QueryError(
                f"stream {self.name!r} declares event_time but no disorder: say how far a row may be behind, e.g. disorder='2s'",
                "/disorder",
            )
        if self.event_time is None and self.disorder is not None:
            raise QueryError(
                f"stream {self.name!r} declares disorder but no event_time; rows stamped at ingestion are in order", "/disorder"
            )
        if not isinstance(self.event_times, str) or self.event_times not in EVENT_TIMES:
            known = " or ".join(map(repr, EVENT_TIMES))
            raise QueryError(f"event_times of stream {self.name!r}: expected {known}, got {shown(self.event_times)}", "/event_times")
        self._check_quiet()
        self._check_partitioned()
        for i, f in enumerate(self.schema.fields):
            if self.files is not None and (why := self.files.refuses(f.type)):
                raise QueryError(f"stream {self.name!r}, field {f}: {why}", f"/schema/{i}/type")
        for name in sorted(expressions.columns_of(self.event_time)) if self.event_time is not None else ():
            if name not in self.schema:
                raise QueryError(
                    f"event_time of stream {self.name!r}: no field {name!r}{meant(name, self.schema.names)}; the stream has {self.schema}",
                    "/event_time",
                )
        if self.event_time is not None:
            _check_event_time(f"event_time of stream {self.name!r}", self.event_time, self.schema)

    def _check_quiet(self) -> None:
        """What happens while nothing is published."""
        if self.watermark not in (None, CLOCK):
            raise QueryError(f"watermark of stream {self.name!r}: expected {CLOCK!r} or nothing, got {shown(self.watermark)}", "/watermark")
        if self.idle_after is not None and self.idle_after < IDLE_AFTER_MIN:
            least = format_duration(IDLE_AFTER_MIN)
            raise QueryError(
                f"idle_after of stream {self.name!r}: expected at least {least}, got {format_duration(self.idle_after)}", "/idle_after"
            )
        asked = [key for key in ("idle_after", "watermark") if getattr(self, key) is not None]
        if asked and self.files is not None:
            raise QueryError(f"stream {self.name!r} is read from files, which are never silent; leave out {asked[0]}", f"/{asked[0]}")
        if asked and self.event_time is None:
            raise QueryError(
                f"stream {self.name!r} declares no event_time: its rows are stamped at ingestion, and its watermark follows the clock "
                f"anyway; leave out {asked[0]}",
                f"/{asked[0]}",
            )
        if len(asked) > 1:
            raise QueryError(
                f"stream {self.name!r}: with watermark={CLOCK!r} it goes on while nothing is sent, so it is never idle; leave out one of "
                "idle_after and watermark",
                "/idle_after",
            )

    def _check_partitioned(self) -> None:
        if self.partitioned_by and self.files is None:
            raise QueryError(
                f"stream {self.name!r} is published, and its publishers choose among replicas by any key; leave out partitioned_by",
                "/partitioned_by",
            )
        for i, name in enumerate(self.partitioned_by):
            if name not in self.schema:
                raise QueryError(
                    f"partitioned_by of stream {self.name!r}: no field {name!r}{meant(name, self.schema.names)}; it has {self.schema}",
                    f"/partitioned_by/{i}",
                )
            if self.schema[name].type.is_list:
                raise QueryError(
                    f"partitioned_by of stream {self.name!r}: field {self.schema[name]} is a list, no key", f"/partitioned_by/{i}"
                )

    @property
    def times(self) -> tuple[int, int]:
        """The first and the last event time that a row may have, µs."""
        return EVENT_TIMES[self.event_times]

    @property
    def event_time_column(self) -> str | None:
        """The column that is the event time, if the declaration is one plain column."""
        return self.event_time.name if isinstance(self.event_time, ColumnRef) else None


def _check_event_time(where: str, event_time: Expr, schema: Schema) -> None:
    """Raises QueryError: it is no timestamp that publishers can compute of a row."""
    try:
        tree = typed(event_time, schema.by_name)
    except QueryError as error:
        raise QueryError(f"{where}: {error.message}", f"/event_time{error.pointer}") from None
    if tree.type.name != "timestamp":
        raise QueryError(f"{where}: expected a timestamp, got {tree.type}; declare it as such, or cast it", "/event_time")
    if _has(
        tree, lambda expr: isinstance(expr, Call) and expr.function == "now"
    ):  # what is late is a function of the data alone (rule 4.7)
        raise QueryError(f"{where}: now() is no part of a row; leave event_time out to stamp rows at ingestion", "/event_time")
    if _has(tree, lambda expr: isinstance(expr, Udf)):  # publishers compute it too, which may be anywhere
        raise QueryError(f"{where}: a user's function does not run in publishers; compute the time before you publish", "/event_time")


def _has(tree: Typed, wanted: Callable[[Expr], bool]) -> bool:
    return wanted(tree.expr) or any(_has(arg, wanted) for arg in tree.args)


def to_json(stream: Stream) -> dict[str, Any]:
    document: dict[str, Any] = {"name": stream.name, "schema": stream.schema.to_json()}
    if stream.event_time is not None and stream.disorder is not None:
        document |= {"event_time": expressions.to_json(stream.event_time), "disorder": format_duration(stream.disorder)}
    if stream.event_times != USUAL_TIMES:
        document["event_times"] = stream.event_times
    document |= {} if stream.idle_after is None else {"idle_after": format_duration(stream.idle_after)}
    document |= {} if stream.watermark is None else {"watermark": stream.watermark}
    document |= {"partitioned_by": list(stream.partitioned_by)} if stream.partitioned_by else {}
    if stream.files is not None:
        document["files"] = file_documents.to_json(stream.files)
    return document


def of_listing(listed: Mapping[str, Any]) -> Stream:
    """A stream as REST lists it, declared or put out by a query, without what has to do with it."""
    return from_json({key: listed[key] for key in _KEYS & listed.keys()})


def from_json(document: Any, pointer: str = "") -> Stream:
    expressions.check_nested(document, pointer)
    if not isinstance(document, dict) or not isinstance(document.get("name"), str):
        raise QueryError(f'expected a stream {{"name": ..., "schema": [...]}}, got {document!r}', pointer)
    for key in document.keys() - _KEYS:
        raise QueryError(f"unknown key {key!r}{meant(key, _KEYS)}; a stream has {', '.join(sorted(_KEYS))}", f"{pointer}/{escaped(key)}")
    event_time = document.get("event_time")
    if isinstance(event_time, str):
        event_time = {"column": event_time}
    files = document.get("files")
    try:
        return Stream(
            document["name"],
            Schema.from_json(document.get("schema"), "/schema"),
            None if event_time is None else expressions.from_json(event_time, "/event_time"),
            _duration(document, "disorder"),
            None if files is None else file_documents.from_json(files, SOURCE_FORMATS, "/files"),
            document.get("event_times", USUAL_TIMES),
            _duration(document, "idle_after"),
            document.get("watermark"),
            _partitioned_by(document.get("partitioned_by") or []),
        )
    except QueryError as error:
        raise error.under(pointer) from None


def _partitioned_by(given: Any) -> tuple[str, ...]:
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise QueryError(f"partitioned_by: expected a list of fields, got {given!r}", "/partitioned_by")
    return tuple(given)


def _duration(document: dict[str, Any], key: str) -> int | None:
    try:
        return None if document.get(key) is None else parse_duration(document[key], key)
    except QueryError as error:
        raise error.under(f"/{key}") from None
