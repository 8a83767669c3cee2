"""Deduplicate: of equal tuples the first in stream order, then the first that is more than ttl after the one let out last.

ttl 10       t   0    4    10   11   14        22
key a            x    .    .    x    .         x         11 - 0 > 10; 22 - 11 > 10
key b                 x              .         x         22 - 4 > 10

Tests `deduplicate.py`, `cep/dataflow/state/group_memory.py`.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

import pytest

from cep.dataflow.operators.deduplicate import DeduplicateOperator
from cep.dataflow.state.group_memory import SWEEP_ROWS
from cep.dataflow.state.hold import Hold
from cep.elements import MAX_TIME
from cep.errors import StateLimitExceeded
from cep.kernels.jit import interpreted
from cep.model.operators import Deduplicate
from cep.model.schema import Schema
from tests.support.single_operator import (
    FLOATS,
    WORDS,
    Row,
    Tuple,
    as_planned,
    batch_of,
    drawn,
    key_of,
    made,
    planned_rows,
    query_of,
    run_alone,
    run_planned,
    run_restored,
    watermark,
    without_origins,
)

SCHEMA = Schema.of({"t": "timestamp[us]", "word": "string?", "x": "float64?", "n": "int64"})
BY = (("word",), ("x",), ("word", "x"))


def operator(by: Sequence[str], ttl: int | None, limit: int = 1 << 30) -> DeduplicateOperator:
    return DeduplicateOperator(Deduplicate("d", "s", tuple(by), ttl), Hold(SCHEMA, 2, False), limit)


def row(choose: random.Random) -> Row:
    return {"t": 0, "word": choose.choice(WORDS), "x": choose.choice(FLOATS), "n": choose.randrange(100)}


def timed(arrivals: Iterable[Tuple]) -> list[Tuple]:
    return [Tuple(each.time, each.origin, {**each.row, "t": each.time}) for each in arrivals]


def firsts(tuples: Iterable[Tuple], by: Sequence[str], ttl: int | None) -> list[Tuple]:
    """The oracle."""
    last: dict[object, int] = {}
    found = []
    for each in sorted(tuples, key=lambda each: each.place):
        key = key_of(each.row, by)
        if key not in last or (ttl is not None and each.time - last[key] > ttl):
            last[key] = each.time
            found.append(each)
    return found


def test_the_drawing() -> None:
    rows = [(0, "a"), (4, "a"), (4, "b"), (10, "a"), (11, "a"), (14, "a"), (14, "b"), (22, "a"), (22, "b")]
    arrivals = timed(Tuple(time, (0, i), {"word": word, "x": 0.0, "n": i}) for i, (time, word) in enumerate(rows))
    out = run_alone(operator(("word",), 10), arrivals, SCHEMA, random.Random(0))
    assert [(each.time, each.row["word"]) for each in out] == [(0, "a"), (4, "b"), (11, "a"), (22, "a"), (22, "b")]


def test_of_one_time_the_lesser_origin_is_first_however_they_arrive() -> None:
    arrivals = timed(Tuple(5, (0, i), {"word": "a", "x": None, "n": i}) for i in (2, 0, 1))
    (out,) = run_alone(operator(("word",), None), arrivals, SCHEMA, random.Random(0))
    assert out.row["n"] == 0


@pytest.mark.parametrize("seed", range(12))
def test_as_the_oracle(seed: int) -> None:
    choose = random.Random(seed)
    by, ttl = choose.choice(BY), choose.choice((None, 1, 7, 1000))
    arrivals = timed(drawn(choose, choose.randrange(200), row))
    expected = made(firsts(arrivals, by, ttl))
    assert made(run_alone(operator(by, ttl), arrivals, SCHEMA, choose)) == expected
    assert made(run_restored(lambda: operator(by, ttl), by, arrivals, SCHEMA, choose)) == expected
    if seed < 3:
        with interpreted():
            assert made(run_alone(operator(by, ttl), arrivals, SCHEMA, choose)) == expected


@pytest.mark.parametrize("seed", range(6))
def test_in_a_plan(seed: int) -> None:
    choose = random.Random(seed)
    by, ttl = choose.choice(BY), choose.choice((None, 7))
    arrivals = timed(drawn(choose, 100, row))
    ran = run_planned(query_of(SCHEMA, Deduplicate("d", "s", by, ttl)), arrivals, choose)
    assert planned_rows(ran) == without_origins(firsts(as_planned(arrivals), by, ttl))


def many(start: int, count: int) -> list[Tuple]:
    return timed(
        Tuple(number, (0, number), {"word": f"key number {number:06}", "x": 0.0, "n": 0}) for number in range(start, start + count)
    )


def test_what_the_ttl_has_passed_is_swept() -> None:
    swept = operator(("word",), 10)
    for start in range(0, 20 * SWEEP_ROWS, SWEEP_ROWS):
        rows = many(start, SWEEP_ROWS)
        list(swept.on_batch(batch_of(rows, SCHEMA), 0))
        assert len(list(watermark(swept, start + SWEEP_ROWS))) == SWEEP_ROWS
    assert len(swept.groups.numbers) < 3 * SWEEP_ROWS
    again = many(20 * SWEEP_ROWS - 5, 5)  # not yet forgotten, though the table was made anew
    moved = [Tuple(20 * SWEEP_ROWS, (1, i), each.row) for i, each in enumerate(again)]
    list(swept.on_batch(batch_of(moved, SCHEMA), 0))
    assert list(watermark(swept, MAX_TIME)) == []


def test_over_its_limit_it_names_groups_and_keys() -> None:
    full = operator(("word",), None, limit=80_000)
    said = r"operator 'd': its state of \d+ bytes is over the limit of 80000 bytes, with \d+ groups \(last: word='key number \d+'"
    with pytest.raises(StateLimitExceeded, match=said):
        for start in range(0, 10_000, 100):
            list(full.on_batch(batch_of(many(start, 100), SCHEMA), 0))
            list(watermark(full, start + 100))


def test_over_its_limit_it_names_the_keys_of_the_tuples_that_it_holds() -> None:
    full = operator(("word",), None, limit=1_000)
    said = r"0 groups \(last: none\); 100 rows held .*; largest keys of these: .*key number \d+' \(1 rows\)"
    with pytest.raises(StateLimitExceeded, match=said):
        list(full.on_batch(batch_of(many(0, 100), SCHEMA), 0))
