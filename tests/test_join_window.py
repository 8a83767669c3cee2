"""Window joins against every pair of rows held against each other, for every e.

size 10 on the left, 5 on the right, advance 5; both windows end at e:

time    0    5    10   15
left    [----.----)             e = 10
left         [----.----)        e = 15
right        [----)             e = 10
right             [----)        e = 15
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from cep.dataflow.window_join import WindowJoinOperator
from cep.elements import MAX_TIME
from cep.errors import StateLimitExceeded
from cep.kernels.jit import compilations, interpreted
from cep.model.expr import Expr, col
from cep.model.operators import Join
from cep.model.query import Output, Query
from cep.model.windows import TimeWindow
from tests.joining import KEYS, Row, Sides, batch_of, equal, execution, is_float, made, moved_run, pair, query, ran, sides
from tests.reference import assert_same_answer
from tests.reference.engine import TimedRow

HOW = ("inner", "left", "right", "full")
WINDOWS = {
    "tumbling": (TimeWindow(10, 10), TimeWindow(10, 10)),
    "sliding": (TimeWindow(12, 4), TimeWindow(4, 4)),
    "not whole advances": (TimeWindow(7, 5), TimeWindow(13, 5)),
    "longer than all": (TimeWindow(500, 20), TimeWindow(20, 20)),
}
#: Of pairs with a = 2, `b // (a - 2)` fails.
CONDITIONS: dict[str, tuple[Expr | None, Callable[[Row, Row], bool | None]]] = {
    "none": (None, lambda a, b: True),
    "some": ((col("a") + col("b")) % 3 != 0, lambda a, b: (a[2] + b[2]) % 3 != 0),
    "fails": (col("b") // (col("a") - 2) < 1, lambda a, b: None if a[2] == 2 else int(b[2] / (a[2] - 2)) < 1),
}


def oracle(join: Join, given: Sides, floats: bool, holds: Callable[[Row, Row], bool | None]) -> tuple[list[TimedRow], int]:
    """(answers, dead letters)."""
    left, right = given.rows("l"), given.rows("r")
    advance, sizes = join.window.advance, (join.window.size, join.right_window.size)
    found: list[TimedRow] = []
    dead = 0
    times = [row[0] for row in (*left, *right)]
    for k in range(min(times, default=0) // advance, (max(times, default=0) + max(sizes)) // advance + 2):
        end = k * advance
        lefts, rights = ([row for row in rows if end - size <= row[0] < end] for rows, size in zip((left, right), sizes, strict=True))
        true = {(a, b): holds(a, b) for a in lefts for b in rights if not join.on or equal(a[1], b[1])}
        dead += sum(each is None for each in true.values())
        pairs = [each for each, is_true in true.items() if is_true]
        found += [(end - 1, pair(a, b, floats)) for a, b in pairs]
        if join.how in ("left", "full"):
            found += [(end - 1, pair(a, None, floats)) for a in lefts if a not in {p[0] for p in pairs}]
        if join.how in ("right", "full"):
            found += [(end - 1, pair(None, b, floats)) for b in rights if b not in {p[1] for p in pairs}]
    return found, dead


def window_join(windows: str = "tumbling", how: str = "inner", condition: str = "none") -> Join:
    return Join("j", "l", "r", *WINDOWS[windows], (("k", "k"),), how, CONDITIONS[condition][0], "r_" if condition == "" else "", "right")


def joined(windows: str, how: str, condition: str) -> Join:
    return Join("j", "l", "r", *WINDOWS[windows], (("k", "k"),), how, _prefixed(condition), "r_")


def _prefixed(condition: str) -> Expr | None:
    """The same over the joined columns, where b is r_b."""
    a, b = col("a"), col("r_b")
    return {"none": None, "some": (a + b) % 3 != 0, "fails": b // (a - 2) < 1}[condition]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", KEYS)
def test_any_keys(kind: str, seed: int) -> None:
    choose = random.Random(f"{kind} {seed}")
    given, asked = sides(choose, kind), joined("tumbling", HOW[seed], "none")
    with interpreted():
        out = ran(query(asked, (given.left, given.right)), given, execution(choose))
    expected, _ = oracle(asked, given, is_float(kind), CONDITIONS["none"][1])
    assert_same_answer({"out": expected}, out.outputs)
