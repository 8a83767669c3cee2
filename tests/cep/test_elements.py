"""What travels: batches and their rows, event times as they are shown, and the grammar of a channel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from cep.elements import (
    MAX_TIME,
    MIN_TIME,
    Batch,
    CheckpointBarrier,
    Element,
    End,
    Fail,
    Grammar,
    Idle,
    Stop,
    Switch,
    Watermark,
    describe_time,
    greatest_time,
)
from cep.errors import ProtocolError
from cep.kernels.column import Column
from cep.model.schema import INT64


def batch(*times: int) -> Batch:
    columns = {"v": Column(INT64, np.arange(len(times)) * 10)}
    origins = np.stack([np.zeros(len(times), np.int64), np.arange(len(times))], axis=1)
    return Batch(columns, np.array(times, np.int64), origins, created=7, source="file", in_order=True)


@pytest.mark.parametrize("rows", [np.array([2, 0]), slice(1, 3), np.array([True, False, True])])
def test_rows_are_taken_with_their_times_and_origins(rows: np.ndarray | slice) -> None:
    whole = batch(5, 6, 7)
    wanted = np.arange(3)[rows]
    taken = whole.take(np.flatnonzero(rows) if isinstance(rows, np.ndarray) and rows.dtype == bool else rows)
    assert len(taken) == len(wanted)
    assert taken.columns["v"].values.tolist() == (wanted * 10).tolist()
    assert taken.time.tolist() == (wanted + 5).tolist()
    assert taken.origin is not None and taken.origin[:, 1].tolist() == wanted.tolist()
    assert (taken.created, taken.source, taken.in_order) == (7, "file", isinstance(rows, slice))  # else they may be in any order now
    assert whole.take(np.array([0, 2]), rise=True).in_order and not replace(whole, in_order=False).take(slice(0, 2)).in_order


def test_the_greatest_time() -> None:
    assert [greatest_time(np.array(times)) for times in ([3], [1, 9, 4], [-5, MIN_TIME])] == [3, 9, -5]


@pytest.mark.parametrize(
    ("time", "text"),
    [
        (None, "none"),
        (MIN_TIME, "-inf"),
        (MAX_TIME, "+inf"),
        (0, "1970-01-01T00:00:00.000Z"),
        (1_500_001, "1970-01-01T00:00:01.500001Z"),
        (-1_000, "1969-12-31T23:59:59.999Z"),
        (2**62, "4611686018427387904 µs"),
    ],
)
def test_event_times_are_shown(time: int | None, text: str) -> None:
    assert describe_time(time) == text


@pytest.mark.parametrize("last", [End(), Stop(), Fail("SQ1", 0, "why"), Switch()])
def test_a_channel_as_it_may_be(last: Element) -> None:
    grammar = Grammar("a>b")
    for element in (batch(5, 3), Watermark(3), Idle(), CheckpointBarrier(1), batch(3), Watermark(3), batch(), last):
        assert grammar.check(element) is element
    with pytest.raises(ProtocolError, match="channel 'a>b': Watermark after the stream was closed"):
        grammar.check(Watermark(9))


@pytest.mark.parametrize(
    ("elements", "said"),
    [
        ([Watermark(5), Watermark(4)], "watermark 4 after 5"),
        ([Watermark(5), batch(6, 4)], "row at 4 after watermark 5"),
        ([End(), batch()], "Batch after the stream was closed"),
    ],
)
def test_a_channel_as_it_may_not_be(elements: Sequence[Element], said: str) -> None:
    grammar = Grammar("a>b")
    for element in elements[:-1]:
        grammar.check(element)
    with pytest.raises(ProtocolError, match=said):
        grammar.check(elements[-1])
