"""Files of which each is said to have keys of its own (`Stream.partitioned_by`): what is looked at before that is believed.

It cannot be known without reading all of them to their ends. Where it is not so at all, though, the same keys stand near their beginnings.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from cep.dataflow.sources.blocks import Block, BlockFormat
from cep.dataflow.sources.source import Reading
from cep.errors import DataError
from cep.kernels.columns import Column, to_arrow

#: So many rows at the beginning of each file.
HEAD_ROWS = 1024


def check_apart(reading: Reading, format_: BlockFormat, blocks: Sequence[Block]) -> None:
    """Raises DataError: two files begin with rows of one key. ClusterError: one cannot be read."""
    by = reading.stream.partitioned_by
    if not set(by) <= set(reading.columns.names):
        return  # no state is kept by them
    first: dict[str, Block] = {}
    for block in blocks:
        known = first.setdefault(block.path, block)
        first[block.path] = min(known, block, key=lambda each: each.start)
    seen: dict[tuple[object, ...], str] = {}
    for path, block in sorted(first.items()):
        for key in _keys(format_, block, by):
            if seen.setdefault(key, path) != path:
                shown = ", ".join(f"{name}={value!r}" for name, value in zip(by, key, strict=True))
                raise DataError(
                    f"stream {reading.stream.name!r} is declared to be partitioned by {', '.join(by)}, but rows with {shown} are in "
                    f"{seen[key]!r} and in {path!r}; leave partitioned_by out, or write the files so that each has keys of its own"
                )


def _keys(format_: BlockFormat, block: Block, by: Sequence[str]) -> set[tuple[object, ...]]:
    opened = format_.open(block)
    try:
        columns = opened.read(block.start).columns
    finally:
        opened.close()
    return set(zip(*(_values(columns[name]) for name in by), strict=True)) if columns else set()


def _values(column: Column) -> list[object]:
    head = to_arrow(column).slice(0, HEAD_ROWS)
    values: list[object] = (head.cast(pa.int64()) if column.type.name == "timestamp" else head).to_pylist()
    return values
