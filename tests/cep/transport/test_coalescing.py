"""Small batches that lie behind each other come as one, and say exactly what they said one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cep.elements import Batch
from cep.kernels.columns import columns_from_arrow
from cep.model.schema import Schema
from cep.transport import wire
from cep.transport.coalescing import Joined, bytes_of, last_of
from cep.transport.local import LocalSockets
from cep.transport.wire import Format, Header
from tests.support.waiting import until

FORMAT = Format(Schema.of({"i": "int64", "x": "float64"}))
CHANNEL, OTHER = 7, 8


@dataclass(frozen=True)
class Sent:
    """A message: `rows` 0 for one that is no batch."""

    rows: int
    header: Header
    null: bool = False

    @property
    def values(self) -> list[tuple[int, float | None]]:
        first = 10 * self.header.sequence
        return [(first + i, None if self.null and not i else first / 3) for i in range(self.rows)]

    @property
    def body(self) -> bytes | pa.Buffer | None:
        if not self.rows:
            return None
        batch = pa.RecordBatch.from_pydict({"i": [i for i, _ in self.values], "x": [x for _, x in self.values]}, schema=FORMAT.schema.arrow)
        return FORMAT.encode(Batch(columns_from_arrow(batch, FORMAT.schema), np.full(self.rows, self.header.sequence)))


def told(header: Header, body: bytes) -> list[tuple[int, float | None, int]]:
    """The rows of a batch, and the event time of each."""
    if header.kind != wire.BATCH:
        return []
    batch = pa.ipc.read_record_batch(wire.aligned(body), FORMAT.arrow)
    return list(zip(*(column.to_pylist() for column in batch.columns), strict=True))


def through(sent: Sequence[Sent], folder: Path) -> list[tuple[Header, bytes]]:
    """As they come where batches of CHANNEL may be joined, all of them there before the first is taken."""
    here, there = LocalSockets(f"ipc://{folder}/a"), LocalSockets(f"ipc://{folder}/b")
    there.join(CHANNEL, FORMAT.layout)
    last = Header(wire.BEAT, 99)
    for each in sent:
        here.send(there.endpoint, each.header, each.body)
    here.send(there.endpoint, last)
    found: list[tuple[Header, bytes]] = []

    def all_there() -> bool:
        there.park(10)
        while (message := there.receive()) is not None:
            found.append((message[0], bytes(message[1])))
        return bool(found) and found[-1][0] == last

    until(all_there)
    here.close()
    there.close()
    return found[:-1]


def batch_of(sequence: int, rows: int = 1, **fields: int) -> Sent:
    given = {"channel": CHANNEL, "watermark": 100 + sequence, "created": 5 + sequence} | fields
    return Sent(rows, Header(wire.BATCH, sequence=sequence, fingerprint=FORMAT.fingerprint, **given))


@st.composite
def messages(draw: st.DrawFn) -> list[Sent]:
    found: list[Sent] = []
    for sequence in range(draw(st.integers(1, 12))):
        rows, odd = draw(st.integers(1, 3)), draw(st.integers(0, 20))
        one = batch_of(sequence, rows, channel=OTHER if odd == 1 else CHANNEL, stream=int(odd == 2), since=int(odd == 3))
        one = replace(one, null=odd == 4)
        if odd == 5:
            one = Sent(0, one.header._replace(kind=wire.WATERMARK))
        if odd == 6:
            one = replace(one, header=one.header._replace(sequence=sequence + 100))
        found.append(one)
    return found


@given(messages())
@example([batch_of(n) for n in range(12)])
@example([batch_of(n, stream=n // 3) for n in range(6)])
@example([batch_of(n, since=n // 3) for n in range(6)])
def test_what_is_joined_says_what_its_parts_said(tmp_path_factory: pytest.TempPathFactory, sent: list[Sent]) -> None:
    found = through(sent, tmp_path_factory.mktemp("sockets"))
    left = list(sent)
    for header, body in found:
        count = last_of(header) - header.sequence + 1
        parts, left = left[:count], left[count:]
        assert count == 1 or isinstance(header, Joined)
        assert [part.header.sequence for part in parts] == list(range(header.sequence, last_of(header) + 1))
        assert tuple(header) == tuple(parts[0].header._replace(watermark=parts[-1].header.watermark))
        assert len({(part.header.stream, part.header.since, part.header.channel) for part in parts}) == 1
        assert bytes_of(header, body) == sum(len(part.body or b"") for part in parts)
        assert told(header, body) == [(*row, part.header.sequence) for part in parts for row in part.values]
        assert count == 1 or not any(part.null for part in parts)
    assert not left


def test_a_run_of_small_batches_comes_as_one(tmp_path: Path) -> None:
    sent = [batch_of(n, 2) for n in range(300)]
    found = through(sent, tmp_path)
    assert len(found) < 10  # as many as there were readings, each of what the socket held
    assert sum(isinstance(header, Joined) for header, _ in found) >= 1
    assert [row for message in found for row in told(*message)] == [(*row, each.header.sequence) for each in sent for row in each.values]
