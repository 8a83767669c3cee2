"""Many batches made few: a piece of bounded size at a time."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator

from cep.dataflow.outputs.output import concatenated
from cep.elements import PAUSE, Batch

#: Rows that are put together, indexed or sorted at once: some tens of milliseconds.
BLOCK_ROWS = 1 << 19
#: Batches put together at a time: very many panes may lie in a window.
PARTS_MAX = 512


def together(batches: list[Batch]) -> Generator[Batch, None, list[Batch]]:
    """Makes a few out of many: pieces at a time, and these in blocks."""
    while len(batches) > PARTS_MAX:
        parts: list[Batch] = []
        for start in range(0, len(batches), PARTS_MAX):
            parts += in_blocks(batches[start : start + PARTS_MAX])
            yield PAUSE
        if len(parts) == len(batches):
            return batches
        batches = parts
    return list(in_blocks(batches)) if len(batches) > 1 else batches


def in_blocks(batches: Iterable[Batch], most: int = BLOCK_ROWS) -> Iterator[Batch]:
    """The same rows in batches of at most `most`, which are as large as they can be without cutting: what is indexed and probed at once."""
    block: list[Batch] = []
    rows = 0
    for batch in (part for each in batches for part in _cut(each, most)):
        if block and rows + len(batch) > most:
            yield concatenated(block)
            block, rows = [], 0
        block.append(batch)
        rows += len(batch)
    if block:
        yield concatenated(block)


def _cut(batch: Batch, most: int) -> Iterator[Batch]:
    if len(batch) <= most:
        yield batch
        return
    for start in range(0, len(batch), most):
        yield batch.take(slice(start, start + most))
