"""KeepLast: of each window and group the last tuple in stream order.

TIME(10, 10)  t   1    4    8    12
key a             .         x    x
key b                  x
"""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from cep.dataflow.operators.keep_last import KeepLastOperator
from cep.dataflow.state import row_panes
from cep.model.operators import KeepLast
from cep.model.windows import TimeWindow
from tests.cep.dataflow.operators.test_sort import SCHEMA, row, timed
from tests.support.single_operator import Tuple, batch_of, drawn, key_of, made, run_alone, run_restored, watermark


def operator(window: TimeWindow, by: tuple[str, ...]) -> KeepLastOperator:
    return KeepLastOperator(KeepLast("o", "s", window, by), SCHEMA, 2, False, 1 << 30)


def lasts(tuples: Iterable[Tuple], window: TimeWindow, by: tuple[str, ...]) -> list[Tuple]:
    """The oracle, of windows that do not overlap."""
    last = {}
    for each in sorted(tuples, key=lambda each: each.place):
        last[each.time // window.size, key_of(each.row, by)] = each
    return [Tuple((k + 1) * window.size - 1, each.origin, each.row) for (k, _), each in last.items()]


def test_the_drawing() -> None:
    rows = [(1, "a"), (4, "b"), (8, "a"), (12, "a")]
    arrivals = timed(Tuple(t, (0, i), {"word": word, "x": 0.0, "n": 0, "yes": None}) for i, (t, word) in enumerate(rows))
    keep = operator(TimeWindow(10, 10), ("word",))
    list(keep.on_batch(batch_of(arrivals, SCHEMA), 0))
    assert sorted((each.time, each.row["t"]) for each in watermark(keep, 100)) == [(9, 4), (9, 8), (19, 12)]


@pytest.mark.parametrize("cut_rows", [0, 20, 4_096])
@pytest.mark.parametrize("by", [("word",), ("x",), ("yes", "word")])
@pytest.mark.parametrize("seed", range(4))
def test_as_the_oracle_however_often_panes_are_cut_down(
    seed: int, by: tuple[str, ...], cut_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_panes, "CUT_ROWS", cut_rows)
    choose = random.Random(repr((seed, by)))
    window = choose.choice((TimeWindow(10, 10), TimeWindow(1000, 1000)))
    arrivals = timed(drawn(choose, 200, row))
    expected = made(lasts(arrivals, window, by))
    assert made(run_alone(operator(window, by), arrivals, SCHEMA, choose)) == expected
    assert made(run_restored(lambda: operator(window, by), by, arrivals, SCHEMA, choose)) == expected
