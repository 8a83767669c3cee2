"""What leaves a subquery: when, in which pieces, where to, and with which watermark (rules 4.14, 7.3, 7.4).

Tests `output.py`, `balancer.py`.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cep.dataflow.channel import Credit, batch_bytes, bytes_of_each, row_bytes
from cep.dataflow.outputs.balancer import Balancer, Broadcast, PointToPoint, RoundRobin, RouteKey, uniform_table
from cep.dataflow.outputs.output import ANSWER_BYTES_MAX, BATCH_BYTES_MANY, BATCH_BYTES_MAX, EdgeOutput, has_room, pieces
from cep.elements import MAX_TIME, MIN_TIME, Batch, Element, End, Fail, Grammar, Stop, Watermark
from cep.kernels.columns import Column
from cep.model.schema import INT64, STRING, Schema

SCHEMA = Schema.of({"n": int, "text": str})


class Wire:
    """A channel that keeps what it is sent, each element with the watermark after it; `room` bytes may go, then nothing."""

    def __init__(self, room: int = 1 << 40, shares: bool = False) -> None:
        self.shares = shares
        self.credit = Credit()
        self.credit.limit = room
        self.sent: list[tuple[Element, int]] = []
        self.grammar = Grammar("wire")

    def send(self, element: Element, size: int, watermark: int, since: int) -> None:
        self.grammar.check(element)
        self.credit.spend(size)
        self.sent.append((element, watermark))

    @property
    def rows(self) -> list[int]:
        return [n for element, _ in self.sent if isinstance(element, Batch) for n in element.columns["n"].values.tolist()]

    @property
    def watermarks(self) -> list[int]:
        """What the receiver has been promised, step by step."""
        return [element.time if isinstance(element, Watermark) else watermark for element, watermark in self.sent]

    def allow_more(self) -> None:
        self.credit.grant(self.credit.sent, self.credit.sent + self.credit.limit, MIN_TIME)


def batch(rows: int, start: int = 0, width: int = 8) -> Batch:
    """Rows start, start + 1, …; `text` is `width` bytes; event time = the number."""
    n = np.arange(start, start + rows, dtype=np.int64)
    data = np.full(rows * width, ord("x"), np.uint8)
    text = Column(STRING, np.full(rows, width, np.int32), None, data, np.arange(rows, dtype=np.int64) * width)
    return Batch({"n": Column(INT64, n), "text": text}, n)


def output(wires: list[Wire], balancer: Balancer | None = None, grain: int = 0) -> EdgeOutput:
    return EdgeOutput("q/e", balancer or Broadcast(len(wires)), wires, SCHEMA.names, grain)


# --- when it leaves --------------------------------------------------------------------------------------------------


def test_tuples_wait_for_more_until_the_input_is_empty() -> None:
    wire = Wire()
    out = output([wire], PointToPoint())
    out.add(batch(10))
    out.add(batch(10, 10))
    assert not wire.sent and out.holds
    out.flush_rows()
    assert [type(element) for element, _ in wire.sent] == [Batch]
    assert wire.rows == list(range(20))
    assert not out.holds


@pytest.mark.parametrize("targets, size", [(1, BATCH_BYTES_MAX), (8, BATCH_BYTES_MAX), (9, BATCH_BYTES_MANY)])
def test_a_full_buffer_leaves_at_once(targets: int, size: int) -> None:
    wires = [Wire() for _ in range(targets)]
    out = output(wires)
    rows = size // 32  # of 16 bytes and 8 of text and a length: more than that
    parts = 0
    while not wires[0].sent:
        out.add(batch(rows // 4, parts * (rows // 4)))
        parts += 1
        assert parts <= 5
    assert parts > 1


def test_what_leaves_the_query_is_gathered_longer_and_cut_larger() -> None:
    wire, more = Wire(), Wire()
    out = EdgeOutput("q/e", Broadcast(1), [wire], SCHEMA.names, leaves_query=True)
    out.attach(more)
    rows = ANSWER_BYTES_MAX // 600  # of 90 bytes
    for start in range(0, 6 * rows, rows):
        out.add(batch(rows, start, 70))
        assert not wire.sent and not more.sent
    out.add(batch(8 * rows, 6 * rows, 70))  # which is no more copied
    assert [len(each.sent) for each in (wire, more)] == [3, 3]
    for each in (wire, more):
        assert each.rows == list(range(14 * rows))
        sizes = [batch_bytes(element) for element, _ in each.sent if isinstance(element, Batch)]
        assert BATCH_BYTES_MAX < max(sizes) <= ANSWER_BYTES_MAX


@example([(3000, 0), (3000, 900)])
@example([(1, 2 * BATCH_BYTES_MAX), (3, 1)])
@given(st.lists(st.tuples(st.integers(1, 3000), st.sampled_from((0, 8, 900))), min_size=1, max_size=8))
def test_no_piece_is_larger_than_a_batch_may_be_and_none_is_lost(parts: list[tuple[int, int]]) -> None:
    wire = Wire()
    out = output([wire], PointToPoint())
    start = 0
    for rows, width in parts:
        out.add(batch(rows, start, width))
        start += rows
    out.close(End())
    assert wire.rows == list(range(start))
    sent = [element for element, _ in wire.sent if isinstance(element, Batch)]
    assert all(batch_bytes(piece) <= BATCH_BYTES_MAX or len(piece) == 1 for piece in sent)


@given(st.integers(1, 40), st.integers(1, 200), st.booleans(), st.booleans())
def test_pieces_lie_one_behind_the_other_and_say_their_bytes(rows: int, most: int, texts: bool, origins: bool) -> None:
    whole = batch(rows, width=7)
    columns = whole.columns if texts else {"n": whole.columns["n"]}
    whole = Batch(columns, whole.time, np.zeros((rows, 2), np.int64) if origins else None)
    assert bytes_of_each(whole) == (None if texts else 32 if origins else 16)
    found = list(pieces(whole, most))
    assert [start for start, _, _ in found] == [0, *[end for _, end, _ in found[:-1]]] and found[-1][1] == rows
    assert [size for _, _, size in found] == [batch_bytes(whole.take(slice(start, end))) for start, end, _ in found]
    assert all(size <= most or end - start == 1 for start, end, size in found)
    full = [batch_bytes(whole.take(slice(start, end + 1))) for start, end, _ in found[:-1]]
    assert all(size > most for size in full), "one row more would not fit"


def test_bytes_of_rows_add_up_to_those_of_the_batch() -> None:
    rows = batch(10, width=7)
    assert row_bytes(rows).sum() == batch_bytes(rows)
    ordered = Batch(rows.columns, rows.time, np.zeros((10, 2), np.int64))
    assert row_bytes(ordered).sum() == batch_bytes(ordered)


def test_columns_that_nobody_reads_stay() -> None:
    wire = Wire()
    out = EdgeOutput("q/e", PointToPoint(), [wire], ["n"])
    out.add(batch(3))
    out.flush_rows()
    (piece,) = (element for element, _ in wire.sent if isinstance(element, Batch))
    assert list(piece.columns) == ["n"]


# --- watermarks ------------------------------------------------------------------------------------------------------


def test_a_batch_carries_the_watermark_after_it() -> None:
    wire = Wire()
    out = output([wire], PointToPoint())
    out.add(batch(10, 100))
    out.advance(50)
    out.flush_rows()
    assert wire.watermarks == [50]


def test_a_neighbour_gets_a_large_batch_as_it_is_and_behind_the_small_ones() -> None:
    wire = Wire(shares=True)
    out = output([wire], PointToPoint())
    small, large = batch(10, 100), batch(10_000, 110)
    out.add(small)
    out.add(large)
    assert wire.rows == list(range(100, 10_110))
    element, _ = wire.sent[-1]
    assert isinstance(element, Batch)
    assert element.columns["text"].data is large.columns["text"].data


def test_only_the_last_piece_of_a_cut_carries_it() -> None:
    wire = Wire()
    out = output([wire], PointToPoint())
    out.advance(5)
    out.flush()
    out.targets[0].add(batch(40_000, 100, width=60), 70, MIN_TIME, 1 << 40)
    out.flush_rows()
    promised = [watermark for element, watermark in wire.sent if isinstance(element, Batch)]
    assert len(promised) > 2
    assert promised == [5] * (len(promised) - 1) + [70]


def test_a_watermark_alone_goes_only_to_targets_that_got_no_batch() -> None:
    """Three targets, route-key; all keys meet at one of them."""
    wires = [Wire() for _ in range(3)]
    fields = (SCHEMA["text"],)
    out = output(wires, RouteKey(fields, uniform_table(4096, 3), 3))
    out.add(batch(10, 100))
    out.advance(100)
    out.flush()
    kinds = sorted(tuple(type(element).__name__ for element, _ in wire.sent) for wire in wires)
    assert kinds == [("Batch",), ("Watermark",), ("Watermark",)]
    assert [wire.watermarks for wire in wires] == [[100]] * 3


@pytest.mark.parametrize("in_order", [True, False])
def test_rows_of_a_target_stay_in_the_order_in_which_they_came(in_order: bool) -> None:
    rows = batch(1_000)
    whole = Batch(rows.columns, rows.time, np.stack([rows.time, rows.time], axis=1), in_order=in_order)
    parts = dict(RouteKey((SCHEMA["n"],), uniform_table(4096, 3), 3).route(whole))
    assert len(parts) == 3
    for part in parts.values():
        numbers = part.columns["n"].values
        assert part.in_order == in_order and (np.diff(numbers) > 0).all()
        assert part.time.tolist() == numbers.tolist() and part.origin is not None and part.origin[:, 1].tolist() == numbers.tolist()
    assert sorted(n for part in parts.values() for n in part.time.tolist()) == list(range(1_000))


def test_a_watermark_goes_at_once_only_past_a_point_somebody_waits_for() -> None:
    """A window of 30 ends at each multiple of 30.

    watermark   1      29     30     31     59     61
                goes   waits  goes   waits  waits  goes
    """
    wire = Wire()
    out = output([wire], PointToPoint(), grain=30)
    for watermark in (1, 29, 30, 31, 59, 61):
        out.advance(watermark)
    assert wire.watermarks == [1, 30, 61]


def test_without_a_point_it_goes_with_the_tick() -> None:
    wire = Wire()
    out = output([wire], PointToPoint())
    out.advance(100)
    assert not wire.sent
    out.flush()
    out.flush()
    assert wire.sent == [(Watermark(100), 100)]


def test_it_takes_its_rows_along() -> None:
    """Rows older than the watermark leave before it or with it."""
    wire = Wire()
    out = output([wire], PointToPoint(), grain=30)
    out.add(batch(20))
    out.advance(30)
    assert [type(element) for element, _ in wire.sent] == [Batch]
    assert wire.watermarks == [30]


@given(st.data())
def test_no_target_gets_a_row_older_than_what_it_was_promised(data: st.DataObject) -> None:
    """Any sequence of rows, watermarks, flushes and credit; `Grammar` in each wire checks it, and that End is the last."""
    wires = [Wire(room=data.draw(st.sampled_from((1, 3000, 1 << 20)))) for _ in range(data.draw(st.integers(1, 3)))]
    kinds: dict[str, Balancer] = {
        "broadcast": Broadcast(len(wires)),
        "route-key": RouteKey((SCHEMA["n"],), uniform_table(4096, len(wires)), len(wires)),
    }
    kind = data.draw(st.sampled_from(sorted(kinds)))
    out = output(wires, kinds[kind], grain=data.draw(st.sampled_from((0, 7, 100))))
    watermark, rows = 0, 0
    for action in data.draw(st.lists(st.sampled_from(("rows", "watermark", "flush", "empty", "credit")), max_size=30)):
        match action:
            case "rows":
                n = data.draw(st.integers(1, 100))
                out.add(batch(n, watermark))
                rows += n
            case "watermark":
                watermark += data.draw(st.integers(0, 20))
                out.advance(watermark)
            case "flush":
                out.flush()
            case "empty":
                out.flush_rows()
            case "credit":
                for wire in wires:
                    wire.allow_more()
                out.pump()
    out.close(End())
    while not out.pump():
        for wire in wires:
            wire.allow_more()
    for wire in wires:
        promised = [each for each in wire.watermarks if each > MIN_TIME]
        assert promised == sorted(promised) and promised[-1] == MAX_TIME
        seen = MIN_TIME
        for element, after in wire.sent:
            assert not isinstance(element, Batch) or int(element.time.min()) >= seen
            seen = max(seen, after)
    assert sum(len(wire.rows) for wire in wires) == rows * (len(wires) if kind == "broadcast" else 1)


# --- credit ----------------------------------------------------------------------------------------------------------


def test_what_finds_no_credit_waits_in_order_and_blocks() -> None:
    wire = Wire(room=1)
    out = output([wire], PointToPoint())
    for part in range(3):
        out.add(batch(10, part * 10))
        out.flush_rows()
    out.advance(30)
    out.flush()
    assert wire.rows == list(range(10)) and out.blocked
    for part in (2, 3):
        wire.allow_more()
        out.pump()
        assert wire.rows == list(range(part * 10))
    assert not out.blocked
    assert wire.sent[-1] == (Watermark(30), 30)


def test_one_slow_target_does_not_hold_up_what_is_queued_for_another() -> None:
    slow, quick = Wire(room=1), Wire()
    out = output([slow, quick])
    for part in range(3):
        out.add(batch(10, part * 10))
        out.flush_rows()
    assert slow.rows == list(range(10))
    assert quick.rows == list(range(30))


@pytest.mark.parametrize("last", [Stop(), Fail("SQ1", 0, "it broke")])
def test_what_gives_up_sends_nothing_more(last: Stop | Fail) -> None:
    """Not even what waits for credit: it goes at once."""
    wire = Wire(room=1)
    out = output([wire], PointToPoint())
    for part in range(3):
        out.add(batch(10, part * 10))
        out.flush_rows()
    out.add(batch(10, 30))
    out.close(last)
    assert [element for element, _ in wire.sent if not isinstance(element, Batch)] == [last]
    assert wire.rows == list(range(10)) and not out.blocked


def test_round_robin_passes_over_targets_without_credit() -> None:
    wires = [Wire(), Wire(room=1), Wire()]
    out = output(wires, PointToPoint())
    out.balancer = RoundRobin(3, partial(has_room, out.targets))
    for part in range(9):
        out.add(batch(1, part))
        out.flush_rows()
    # the second takes one whatever its credit, then one more waits for it, and then it is passed over
    assert wires[1].rows == [1]
    assert sorted(wires[0].rows + wires[2].rows + wires[1].rows + [4]) == list(range(9))
    wires[1].allow_more()
    out.pump()
    assert wires[1].rows == [1, 4]


def test_round_robin_with_no_credit_anywhere_goes_on_in_turn() -> None:
    wires = [Wire(room=1), Wire(room=1)]
    out = output(wires, PointToPoint())
    out.balancer = RoundRobin(2, partial(has_room, out.targets))
    for part in range(6):
        out.add(batch(1, part))
        out.flush_rows()
    for _ in range(3):
        for wire in wires:
            wire.allow_more()
        out.pump()
    assert [wire.rows for wire in wires] == [[0, 2, 4], [1, 3, 5]]


# --- subscriptions ---------------------------------------------------------------------------------------------------


def test_targets_come_and_go() -> None:
    first, second = Wire(), Wire(room=1)
    out = output([], Broadcast(0))
    out.add(batch(5))
    assert (out.rows, out.discarded) == (5, 5)
    out.attach(first)
    out.add(batch(5, 5))
    out.attach(second)
    for part in (10, 15):
        out.add(batch(5, part))
        out.flush_rows()
    out.add(batch(5, 20))
    assert out.detach(second) == 10  # five without credit, five gathered
    out.close(End())
    assert first.rows == list(range(5, 25))
    assert second.rows == list(range(10, 15))
    assert (out.rows, out.discarded) == (25, 5)
