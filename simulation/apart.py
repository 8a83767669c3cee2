"""Queries over files that have keys of their own: replicas read them apart."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

from cep.errors import QueryError
from cep.model.query import Query
from cep.model.streams import Stream, TextFiles
from cep.plan.lineage import common_key
from cep.plan.planner import check_plannable
from cep.plan.split import topological

REPLICAS = (2, 3)


def may_be_apart(query: Query) -> bool:
    return bool(_key(query))


def _key(query: Query) -> tuple[str, ...]:
    """Columns of its stream that all its groups have; none: there are none, or it has no state."""
    (stream,) = query.streams
    key = common_key(tuple(topological(query).values()))
    return () if key.obstacle is not None else tuple(key.fields.get(stream.name, ()))


def apart(choose: random.Random, query: Query, files: dict[str, bytes], most: int) -> tuple[Query, dict[str, bytes]]:
    """The query with up to `most` replicas, over files of which each has keys of its own; as it is, if it may have none."""
    (stream,) = query.streams
    key = _key(query)
    if not key:
        return query, files
    by = tuple(choose.sample(key, choose.randint(1, len(key))))
    replicas = min(choose.choice(REPLICAS), most)
    made = replace(
        query,
        streams=(replace(stream, partitioned_by=by),),
        # Balancers were drawn for another number of instances, with which they are sound.
        options=replace(query.options, replicas=replicas, parallelism=choose.choice((None, 1, 2)), balancers=()),
    )
    try:
        check_plannable(made, {})
    except QueryError:  # another option that was drawn does not go with it
        return query, files
    return made, dealt(stream, by, files)


def dealt(stream: Stream, by: tuple[str, ...], files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The same lines; those of one key in one file, in the order in which they were."""
    assert isinstance(stream.files, TextFiles)
    heads: dict[str, bytes] = {}
    lines: list[bytes] = []
    for path, data in files.items():
        found = data.splitlines(keepends=True)
        if stream.files.header and found:
            heads[path] = found.pop(0)
        lines += found
    places = [stream.schema.names.index(name) for name in by]
    numbers: dict[tuple[bytes, ...], int] = {}
    paths = sorted(files)
    parts = {path: heads.get(path, b"") for path in paths}
    for line in lines:
        cells = line.rstrip(b"\r\n").split(stream.files.separator.encode())
        key = tuple(_plain(cells[place]) for place in places if place < len(cells))
        parts[paths[numbers.setdefault(key, len(numbers)) % len(paths)]] += line if line.endswith(b"\n") else line + b"\n"
    return parts


def _plain(cell: bytes) -> bytes:
    """Numbers that are equal are written alike."""
    return b"0.0" if cell == b"-0.0" else cell
