"""Sort over SIZE windows: each so many tuples of a group, in stream order, come out in the order of columns when the last of them is there.

SIZE(3), order x      t    1    4    7   14   14   25   26
                      x    3    1    2    9    8    7    5
1, 4, 7               3    1    2                          out at 7
14, 14, 25                           3    2    1           out at 25
26                                                  1      at the end, with emit_partial
"""

from __future__ import annotations

import random

import pytest

from cep.dataflow.operators.chunk_sort import ChunkSort
from cep.dataflow.patterns import kept_rows
from cep.dataflow.state.hold import Hold
from cep.elements import EVENT_TIME_MAX
from cep.errors import QueryError, StateLimitExceeded
from cep.kernels.jit import compilations
from cep.model.operators import Sort
from cep.model.schema import Schema
from cep.model.windows import SIZE, SizeWindow
from tests.reference import order as reference
from tests.reference.rows import Row as ReferenceRow
from tests.support.single_operator import FLOATS, WORDS, Row, Tuple, batch_of, drawn, made, run_alone, run_restored, watermark

SCHEMA = Schema.of({"t": "timestamp[us]", "word": "string?", "x": "float64?", "n": "int64"})
ORDERS = ((("x", False),), (("word", True), ("x", False)), (("n", False),))
BY: tuple[tuple[str, ...], ...] = ((), ("word",), ("word", "n"))


def sort(size: int, by: tuple[str, ...] = (), order: tuple[tuple[str, bool], ...] = ORDERS[0], partial: bool = False) -> Sort:
    return Sort("o", "s", SizeWindow(size, size), by, order, emit_partial=partial)


def operator(described: Sort, limit: int = 1 << 30) -> ChunkSort:
    return ChunkSort(described, Hold(SCHEMA, 2, False), limit)


def row(choose: random.Random) -> Row:
    return {"t": 0, "word": choose.choice(WORDS), "x": choose.choice(FLOATS), "n": choose.randrange(3)}


def expected(tuples: list[Tuple], described: Sort) -> list[Tuple]:
    rows = [ReferenceRow(each.time, each.origin, tuple(each.row.values())) for each in sorted(tuples, key=lambda each: each.place)]
    names = (*SCHEMA.names, "rank")
    found = reference.ordered(described, SCHEMA, rows)
    return [Tuple(each.time, each.origin, dict(zip(names, each.values, strict=True))) for each in found]


def test_the_drawing(as_python: None) -> None:
    rows = enumerate(zip((1, 4, 7, 14, 14, 25, 26), (3, 1, 2, 9, 8, 7, 5), strict=True))
    arrivals = [Tuple(t, (0, i), {"t": t, "word": "a", "x": float(x), "n": 0}) for i, (t, x) in rows]
    whole = [(7, 1, 1), (7, 2, 2), (7, 3, 3), (25, 7, 1), (25, 8, 2), (25, 9, 3)]
    running = operator(sort(3))
    found = run_alone(running, arrivals, SCHEMA, random.Random(0))
    assert [(each.time, each.row["x"], each.row["rank"]) for each in found] == whole
    assert running.incomplete == 1
    found = run_alone(operator(sort(3, partial=True)), arrivals, SCHEMA, random.Random(0))
    assert [(each.time, each.row["x"], each.row["rank"]) for each in found] == [*whole, (EVENT_TIME_MAX, 5, 1)]


def check(choose: random.Random) -> None:
    described = sort(choose.choice((1, 2, 3, 7)), choose.choice(BY), choose.choice(ORDERS), choose.random() < 0.5)
    arrivals = drawn(choose, choose.randrange(150), row)
    wanted = made(expected(arrivals, described))
    assert made(run_alone(operator(described), arrivals, SCHEMA, choose)) == wanted
    assert made(run_restored(lambda: operator(described), described.by, arrivals, SCHEMA, choose)) == wanted


@pytest.mark.parametrize("seed", range(12))
def test_as_the_reference(as_python: None, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Half of them leave rows and groups behind all the time."""
    if seed % 2:
        monkeypatch.setattr(kept_rows, "ROWS_MORE", 4)
        monkeypatch.setattr("cep.dataflow.operators.chunk_sort.GROUPS_MORE", 1)
    check(random.Random(seed))


def test_machine_code_as_the_reference_and_nothing_compiles_once_it_is_built() -> None:
    check(random.Random(99))
    running, before = operator(sort(2, ("word",))), compilations()
    run_alone(running, drawn(random.Random(1), 50, row), SCHEMA, random.Random(1))
    assert compilations() == before


def test_rows_that_came_out_and_groups_without_rows_are_left_behind(as_python: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_rows, "ROWS_MORE", 16)
    monkeypatch.setattr("cep.dataflow.operators.chunk_sort.GROUPS_MORE", 4)
    running, found = operator(sort(2, ("n",))), 0
    for start in range(0, 600, 20):
        some = [Tuple(i, (0, i), {**row(random.Random(i)), "t": i, "n": i // 2}) for i in range(start, start + 20)]
        list(running.on_batch(batch_of(some, SCHEMA), 0))
        found += len(list(watermark(running, start + 20)))
    assert found == 600
    assert running.chunks.kept.rows <= 40
    assert len(running.chunks.numbers) <= 40


def test_more_chunks_than_go_out_at_once_and_one_that_is_larger(as_python: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cep.dataflow.operators.chunk_sort.ROWS_MAX", 8)
    arrivals = [Tuple(i, (0, i), {**row(random.Random(i)), "t": i}) for i in range(90)]
    for size in (1, 3, 20):
        found = run_alone(operator(sort(size)), arrivals, SCHEMA, random.Random(0))
        assert made(found) == made(expected(arrivals, sort(size))), size


def test_a_state_beyond_its_limit_fails_by_name(as_python: None) -> None:
    running = operator(sort(100_000, ("word",)), limit=100_000)
    rows = [Tuple(i, (0, i), {**row(random.Random(i)), "word": "a word that is rather long", "t": i}) for i in range(3_000)]
    with pytest.raises(StateLimitExceeded, match=r"operator 'o'.*wait for the rest of 100000.*word='a word that is rather long'"):
        list(running.on_batch(batch_of(rows, SCHEMA), 0))
        list(running.on_watermark(2_000))


def test_what_is_refused() -> None:
    with pytest.raises(QueryError, match="do not overlap"):
        Sort("o", "s", SIZE(3, 2), (), ORDERS[0])
    with pytest.raises(QueryError, match="emit_partial is for SIZE"):
        Sort("o", "s", None, emit_partial=True)
