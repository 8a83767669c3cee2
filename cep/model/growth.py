"""A stream that grows: two declarations of one name, of which one has nullable columns more, behind the others
(docs/features/streams_that_grow.md)."""

from __future__ import annotations

from cep.errors import QueryError
from cep.model.schema import Field, Schema
from cep.model.streams import Stream, to_json


def wider(known: Stream, given: Stream) -> Stream:
    """The one with the more columns; `known` if they have the same.

    Raises:
        QueryError: they differ in more than nullable columns at the end; its pointer leads into the document of `given`.
    """
    before, now = to_json(known), to_json(given)
    for key in dict.fromkeys((*before, *now)):  # by JSON: expressions have no equality of their own
        if key != "schema" and before.get(key) != now.get(key):
            raise QueryError(
                f"stream {given.name!r} exists already with another {key}: {before.get(key)!r}, here {now.get(key)!r}; all that a stream "
                f"can get is nullable columns, {_anew(given)}",
                f"/{key}" if key in now else "",
            )
    if found := _differing(known.schema, given.schema):
        place, said = found
        raise QueryError(
            f"stream {given.name!r} exists already with another schema: {known.schema}, here {given.schema}; {said}, {_anew(given)}",
            f"/schema/{place}" if place < len(given.schema.fields) else "/schema",
        )
    return given if len(given.schema.fields) > len(known.schema.fields) else known


def _anew(stream: Stream) -> str:
    return f"or name the new stream {stream.name + '@2'!r}"


def _differing(known: Schema, given: Schema) -> tuple[int, str] | None:
    """Which column of `given` is wrong, and what to do."""
    for place, (before, now) in enumerate(zip(known.fields, given.fields, strict=False)):
        if before != now:
            return place, _said(known, given, before, now)
    shared = min(len(known.fields), len(given.fields))
    for place, field in enumerate(given.fields[shared:], shared):
        if not field.nullable:
            return place, f"a column that is added has no value in older rows: declare {Field(field.name, field.type, True)}"
    for place, field in enumerate(known.fields[shared:], shared):
        if not field.nullable:
            return place, f"a column that may not be NULL cannot be left out: declare {field}"
    return None


def _said(known: Schema, given: Schema, before: Field, now: Field) -> str:
    """What to do where `now` stands in place of `before`."""
    if before.name == now.name:
        return f"a column keeps its type: declare {before}, and another one at the end if you need {now.type}"
    if before.name in given:
        return f"columns keep their order, and new ones stand behind them: declare {before} before {now.name!r}"
    if now.name in known:
        return f"a column that others stand behind cannot be left out: declare {before} before {now.name!r}"
    return f"a column is neither renamed nor removed: declare {before}, and {now.name!r} behind all columns"
