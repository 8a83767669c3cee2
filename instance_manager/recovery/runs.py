"""What is kept for a subscription: messages, and runs of them, which are kept as they lie on the wire.

The fast path (`instance_manager.fast_path`) writes messages one behind the other, without an object for any. They stay so: nothing is made
for each of them before one in their midst has to be looked at, as where a restored client says which number it waits for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from cep.transport import wire
from cep.transport.wire import Header

#: Header, body, rows.
Message = tuple[Header, Any, int]

_WORD = 8


class Run(NamedTuple):
    """Batches of one channel, the first of number `first`, each with its size and header before it; `behind`: the number of what follows.

    `size`: bytes of their bodies; `rows_at`: which word of a body says how many rows it has.
    """

    laid: bytes
    first: int
    behind: int
    rows: int
    size: int
    rows_at: int

    def messages(self) -> Iterator[Message]:
        at, rows_at = 0, _WORD * self.rows_at
        while at < len(self.laid):
            size, header = wire.unpack_sized_from(self.laid, at)
            begin = at + wire.SIZED_BYTES
            at = begin + size
            rows = int.from_bytes(self.laid[begin + rows_at : begin + rows_at + _WORD], "little")
            yield header, self.laid[begin:at], rows


Kept = Message | Run


def messages_of(there: Iterable[Kept]) -> Iterator[Message]:
    """One by one."""
    for each in there:
        if isinstance(each, Run):
            yield from each.messages()
        else:
            yield each


def renamed(there: Iterable[Kept], channel: int) -> Iterator[Message]:
    """One by one, for that channel."""
    return ((header._replace(channel=channel), body, rows) for header, body, rows in messages_of(there))


def joined(there: Iterable[Kept], most: float = math.inf) -> Iterator[Kept]:
    """The same, runs that follow each other as one, which ends with the first that makes `most` bytes of it."""
    runs, size = list[Run](), 0
    for each in there:
        if isinstance(each, Run) and (not runs or (runs[-1].rows_at == each.rows_at and size < most)):
            runs.append(each)
            size += each.size
            continue
        yield from _one(runs)
        runs, size = ([each], each.size) if isinstance(each, Run) else ([], 0)
        if not runs:
            yield each
    yield from _one(runs)


def _one(runs: list[Run]) -> Iterator[Run]:
    if runs:
        laid = b"".join([run.laid for run in runs]) if len(runs) > 1 else runs[0].laid
        yield Run(laid, runs[0].first, runs[-1].behind, sum(run.rows for run in runs), sum(run.size for run in runs), runs[0].rows_at)


def first_of(each: Kept) -> int:
    """Its number."""
    return each.first if isinstance(each, Run) else each[0].sequence


def behind_of(each: Kept) -> int:
    """The number of what follows."""
    return each.behind if isinstance(each, Run) else each[0].sequence + 1


def rows_of(each: Kept) -> int:
    return each.rows if isinstance(each, Run) else each[2]


def size_of(each: Kept) -> int:
    return each.size if isinstance(each, Run) else len(each[1] or b"")
