"""Window joins against every pair of rows held against each other, for every e.

size 10 on the left, 5 on the right, advance 5; both windows end at e:

time    0    5    10   15
left    [----.----)             e = 10
left         [----.----)        e = 15
right        [----)             e = 10
right             [----)        e = 15

Tests `window_join.py`, `matching.py`, `cep/compile/join_rows.py`, `cep/kernels/join.py`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from cep.dataflow.joins.window_join import WindowJoinOperator
from cep.elements import MAX_TIME
from cep.errors import StateLimitExceeded
from cep.kernels.jit import compilations, interpreted, warm
from cep.model.expr import Expr, col
from cep.model.operators import Join, Map
from cep.model.query import Output, Query
from cep.model.windows import TimeWindow
from tests.reference import assert_same_answer
from tests.reference.engine import TimedRow
from tests.support.joining import KEYS, Row, Sides, batch_of, equal, execution, is_float, made, moved_run, pair, query, ran, sides
from tests.support.pausing import without_pauses

HOW = ("inner", "left", "right", "full")
WINDOWS = {
    "tumbling": (TimeWindow(10, 10), TimeWindow(10, 10)),
    "sliding": (TimeWindow(12, 4), TimeWindow(4, 4)),
    "not whole advances": (TimeWindow(7, 5), TimeWindow(13, 5)),
    "longer than all": (TimeWindow(500, 20), TimeWindow(20, 20)),
}
#: The right column b is r_b in the joined tuple. On pairs with a = 2 the last one fails.
CONDITIONS: dict[str, tuple[Expr | None, Callable[[Row, Row], bool | None]]] = {
    "none": (None, lambda a, b: True),
    "some": ((col("a") + col("r_b")) % 3 != 0, lambda a, b: (a[2] + b[2]) % 3 != 0),
    "fails": (col("r_b") // (col("a") - 2) < 1, lambda a, b: None if a[2] == 2 else int(b[2] / (a[2] - 2)) < 1),
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


def joined(windows: str = "tumbling", how: str = "inner", condition: str = "none") -> Join:
    return Join("j", "l", "r", *WINDOWS[windows], (("k", "k"),), how, CONDITIONS[condition][0], "r_")


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", KEYS)
def test_any_keys(kind: str, seed: int) -> None:
    choose = random.Random(f"{kind} {seed}")
    given, asked = sides(choose, kind), joined("tumbling", HOW[seed], "none")
    with interpreted():
        out = ran(query(asked, (given.left, given.right)), given, execution(choose))
    expected, _ = oracle(asked, given, is_float(kind), CONDITIONS["none"][1])
    assert_same_answer({"out": expected}, out.outputs)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("windows", WINDOWS)
def test_any_windows(windows: str, condition: str, how: str, seed: int) -> None:
    choose = random.Random(f"{windows} {condition} {how} {seed}")
    given, asked = sides(choose), joined(windows, how, condition)
    with interpreted():
        out = ran(query(asked, (given.left, given.right)), given, execution(choose))
    expected, dead = oracle(asked, given, False, CONDITIONS[condition][1])
    assert_same_answer({"out": expected}, out.outputs)
    assert out.dead["j"] == dead


@pytest.mark.parametrize("seed", range(12))
def test_machine_code_gives_the_same(seed: int) -> None:
    choose = random.Random(seed)
    kind = choose.choice(list(KEYS))
    given, asked = (
        sides(choose, kind, rows_max=300),
        joined(choose.choice(list(WINDOWS)), choose.choice(HOW), choose.choice(list(CONDITIONS))),
    )
    expected, dead = oracle(asked, given, is_float(kind), CONDITIONS[_named(asked)][1])
    out = ran(query(asked, (given.left, given.right)), given, execution(choose))
    assert_same_answer({"out": expected}, out.outputs)
    assert out.dead["j"] == dead


def _named(asked: Join) -> str:
    return next(name for name, (condition, _) in CONDITIONS.items() if condition is asked.condition)


@pytest.mark.parametrize("seed", range(60))
def test_state_moves_to_more_or_fewer_instances_that_were_at_different_watermarks(seed: int) -> None:
    choose = random.Random(seed)
    kind = choose.choice(list(KEYS))
    given, asked = sides(choose, kind), joined(choose.choice(list(WINDOWS)), choose.choice(HOW))
    expected, _ = oracle(asked, given, is_float(kind), CONDITIONS["none"][1])
    with interpreted():
        assert_same_answer({"out": expected}, {"out": moved_run(choose, asked, given)})


def test_a_stream_is_joined_with_itself() -> None:
    choose = random.Random(5)
    given = sides(choose)
    asked = Join("j", "l", "l", *WINDOWS["tumbling"], (("k", "k"),), "full", None, "r_")
    both = Sides(given.left, given.left, {"l": given.partitions["l"]})
    for split in ("stateful", "single", "per-operator"):
        how = execution(choose, 3)
        with interpreted():
            out = ran(query(asked, (given.left,)), both, replace(how, options=replace(how.options, split=split)))
        twice = Sides(given.left, given.left, {"l": given.partitions["l"], "r": given.partitions["l"]})
        assert_same_answer({"out": oracle(asked, twice, False, CONDITIONS["none"][1])[0]}, out.outputs)


def test_only_columns_that_somebody_reads_are_made() -> None:
    choose = random.Random(6)
    given, asked = sides(choose), joined(condition="some")
    asked = Query("q", (given.left, given.right), (asked, Map("m", "j", (("b", col("r_b")),))), (Output("out", "m"),))
    with interpreted():
        out = ran(asked, given, execution(choose))
    expected, _ = oracle(joined(condition="some"), given, False, CONDITIONS["some"][1])
    assert_same_answer({"out": [(time, (values[4],)) for time, values in expected]}, out.outputs)


# --- by hand ---------------------------------------------------------------------------------------------------------


def operator(how: str = "inner", windows: str = "tumbling", limit: int = 1 << 40) -> WindowJoinOperator:
    given = sides(random.Random(0))
    found = made(joined(windows, how), (given.left, given.right), limit=limit)
    assert isinstance(found, WindowJoinOperator)
    return found


def rows_of(n: int, start: int = 0) -> list[Row]:
    return [(start, 7, i) for i in range(n)]


def feed(join: WindowJoinOperator, port: int, rows: list[Row]) -> None:
    given = sides(random.Random(0))
    assert list(join.on_batch(batch_of((given.left, given.right)[port], rows, port), port)) == []


def test_a_hot_key_comes_out_in_portions_that_are_made_when_they_are_asked_for() -> None:
    """10^5 x 10^5 pairs: the first portions come at once, and nothing has to wait for the rest."""
    join = operator()
    for port in (0, 1):
        feed(join, port, rows_of(100_000))
    emission = without_pauses(join.on_watermark(10))
    portions = [next(emission) for _ in range(3)]
    assert [len(portion) for portion in portions] == [65_536] * 3
    seen = [(a, b) for portion in portions for a, b in zip(*(portion.columns[name].values.tolist() for name in ("a", "r_b")), strict=True)]
    assert seen == [(i // 100_000, i % 100_000) for i in range(3 * 65_536)]


def test_the_next_end_is_that_of_the_first_window_with_rows() -> None:
    join = operator(how="left", windows="sliding")
    assert join.next_end is None
    feed(join, 0, rows_of(1, start=13))
    assert join.next_end == 16
    list(join.on_watermark(16))
    assert join.next_end == 20
    list(join.on_watermark(24))
    assert (join.next_end, join.state_bytes) == (None, 0)


def test_windows_that_begin_before_a_query_attached_are_counted() -> None:
    join = operator(how="full")
    join.since = 5
    feed(join, 0, [(7, 1, 0), (12, 1, 1)])
    feed(join, 1, [(7, 1, 0)])
    out = list(without_pauses(join.on_watermark(MAX_TIME)))
    assert ([batch.columns["a"].values.tolist() for batch in out], join.incomplete) == ([[1]], 1)


def test_too_much_state_names_the_window_and_the_largest_keys() -> None:
    join = operator(limit=20_000)
    with pytest.raises(StateLimitExceeded, match=r"'j'.*ending at 1970-01-01T00:00:00.000010Z.*the left.*k=7 \(1000 rows\)") as caught:
        feed(join, 1, rows_of(10))
        feed(join, 0, rows_of(1000))
    assert "20000 bytes" in str(caught.value)


def test_state_is_given_up_with_the_windows() -> None:
    join = operator(windows="sliding")
    for start in range(0, 400, 4):
        for port in (0, 1):
            feed(join, port, rows_of(10, start))
        list(join.on_watermark(start))
        assert join.state_bytes < 6_000


@pytest.mark.timeout(400)  # every kernel there is, where none is in the cache
def test_nothing_compiles_while_it_runs() -> None:
    join = operator(how="full")
    warm()
    before = compilations()
    for port in (0, 1):
        feed(join, port, rows_of(50))
    out = list(without_pauses(join.on_watermark(10)))
    assert (sum(map(len, out)), compilations()) == (2_500, before)
