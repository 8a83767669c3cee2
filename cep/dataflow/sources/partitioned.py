"""Files of which each is said to have keys of its own (`Stream.partitioned_by`): what is looked at before that is believed.

It cannot be known without reading all of them to their ends. Where it is not so at all, though, the same keys stand near their beginnings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from cep.dataflow.sources.blocks import Block, BlockFormat
from cep.errors import DataError
from cep.kernels.columns import Column, to_arrow
from cep.model.streams import Stream

#: So many records at the beginning of each file.
HEAD_RECORDS = 1024
Key = tuple[object, ...]


def check_apart(stream: Stream, format_: BlockFormat, blocks: Sequence[Block]) -> None:
    """Raises DataError: two files begin with rows of one key. ClusterError: one cannot be read."""
    by = stream.partitioned_by
    files: dict[str, list[Block]] = {}
    for block in sorted(blocks, key=lambda each: (each.path, each.start)):
        files.setdefault(block.path, []).append(block)
    seen: dict[Key, str] = {}
    for path, own in files.items():
        for key in _keys(format_, own, by):
            if seen.setdefault(key, path) != path:
                shown = ", ".join(f"{name}={value!r}" for name, value in zip(by, key, strict=True))
                raise DataError(
                    f"stream {stream.name!r} is declared to be partitioned by {', '.join(by)}, but rows with {shown} are in "
                    f"{seen[key]!r} and in {path!r}; leave partitioned_by out, or write the files so that each has keys of its own"
                )


def _keys(format_: BlockFormat, blocks: Sequence[Block], by: Sequence[str]) -> Iterator[Key]:
    """Of the good ones of the first records of a file."""
    left = HEAD_RECORDS
    for block in blocks:
        opened, place = format_.open(block), block.start
        try:
            while left > 0 and place < block.end:
                piece = opened.read(place)
                if len(piece.records):
                    early = int(np.searchsorted(piece.records, left))
                    yield from dict.fromkeys(zip(*(_values(piece.columns[name], early) for name in by), strict=True))
                place, left = piece.end, left - piece.count
        finally:
            opened.close()
    format_.rest()


def _values(column: Column, rows: int) -> list[object]:
    """Values of which equal ones are one, NaN too."""
    values = to_arrow(column).slice(0, rows)
    if column.type.name == "timestamp":  # Python has years 1 to 9999
        values = values.cast(pa.int64())
    return ["NaN" if each != each else each for each in values.to_pylist()]
