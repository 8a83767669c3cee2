"""Declarations of streams: what clients publish to, and what is read from files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta

from cep.model import file_documents
from cep.model.duration import parse_duration
from cep.model.expr import ColumnRef, Expr
from cep.model.schema import Schema
from cep.model.streams import SOURCE_FORMATS, USUAL_TIMES, Stream


def stream(
    name: str,
    fields: Mapping[str, object] | None = None,
    /,
    *,
    event_time: str | Expr | None = None,
    disorder: str | timedelta | None = None,
    event_times: str = USUAL_TIMES,
    idle_after: str | timedelta | None = None,
    watermark: str | None = None,
    **named: object,
) -> Stream:
    """Declares a stream that clients publish to.

    Args:
        name: unique in the cluster.
        fields, named: field name -> type: `str`, `int | None`, `"timestamp[ms]"`, `"float64?"` ('?': NULL is allowed).
        event_time: the column (or an expression) that says when a row happened; none: the time of ingestion.
        disorder: how far a row may be behind the greatest event time before it; what is further behind is late.
        event_times: "any" if rows may be of other years than 1900 to 2199; else those are dead letters, for milliseconds that are taken
            for seconds are.
        idle_after: a publisher that has sent nothing for so long is not waited for; none: all readers of the stream wait for it. Answers
            then depend on when it was silent; what it sends later, and is older than others' answers by then, is late.
        watermark: "clock" where rows are stamped as they are sent: time goes on by the publisher's clock while it sends nothing.
    """
    quiet = None if idle_after is None else parse_duration(idle_after, "idle_after")
    schema = Schema.of({**(fields or {}), **named})
    return Stream(name, schema, _event_time(event_time), _disorder(disorder), None, event_times, quiet, watermark)


def files(
    name: str,
    fields: Mapping[str, object] | None = None,
    /,
    *,
    paths: str | Iterable[str],
    event_time: str | Expr | None = None,
    disorder: str | timedelta | None = None,
    format: str = "text",
    separator: str | None = None,
    header: bool | None = None,
    block_bytes: int | None = None,
    options: Mapping[str, object] | None = None,
    event_times: str = USUAL_TIMES,
    partitioned_by: str | Iterable[str] = (),
    **named: object,
) -> Stream:
    """Declares a stream that is read from files; see `stream` for the rest, and `docs/features/files.md`.

    Args:
        paths: one or more paths or globs, under a folder that the cluster was started with.
        format: text (one record a line), or another of `cep.model.streams.SOURCE_FORMATS`.
        separator: of text; one ASCII character, usually a comma; fields are not quoted. Fields beyond the declared ones are not looked at.
        header: of text; the first line of every file is no record.
        block_bytes: files of lines are cut into blocks of this size; a block is a partition.
        options: of any format, by name, as its document has them.
        partitioned_by: one or more fields; you promise that all rows with the same values of them are in one file. Replicas of a query
            (`options(replicas=2)`) that groups by them read files of their own then, and nothing goes from one to the other.
    """
    found = (paths,) if isinstance(paths, str) else tuple(str(path) for path in paths)
    schema = Schema.of({**(fields or {}), **named})
    usual = {"separator": separator, "header": header, "block_bytes": block_bytes}
    given = {key: value for key, value in usual.items() if value is not None} | dict(options or {})
    document = {"format": format, "paths": list(found), **given}
    read = file_documents.from_json(document, SOURCE_FORMATS, "")
    by = (partitioned_by,) if isinstance(partitioned_by, str) else tuple(partitioned_by)
    return Stream(name, schema, _event_time(event_time), _disorder(disorder), read, event_times, partitioned_by=by)


def _event_time(event_time: str | Expr | None) -> Expr | None:
    return ColumnRef(event_time) if isinstance(event_time, str) else event_time


def _disorder(disorder: str | timedelta | None) -> int | None:
    return None if disorder is None else parse_duration(disorder, "disorder")
