"""The diamond with an empty branch (DESIGN §7, backpressure; shared/rules/diamond.py).

              ┌─ rare: three rows, no more ──┐
    readings ─┤                                ├─ both ─ windows (FIRST and LAST: order-sensitive)
              └─ most: all the others ─────────┘

The windows may close only at the least watermark of both branches. Where control elements cost credit, or an operator
refuses input, `most` fills up while `rare` has nothing to carry a watermark with, and nothing moves any more. The
answer is known in closed form, so that a run of any engine at any credit is checked without trusting another one.
"""

from __future__ import annotations

import random

from cep.model.expr import Column, col
from cep.model.functions import count, first, last
from cep.model.operators import Aggregate, Filter, Union
from cep.model.query import Options, Output, Query
from cep.model.schema import Schema
from cep.model.streams import Stream
from cep.model.windows import TimeWindow
from tests.reference import Partition, assert_same_answer, evaluate
from tests.reference.engine import TimedRow

ROWS, DISORDER, SIZE, ADVANCE = 4_000, 100, 100, 50
RARE = (0, 97, 194)


def diamond() -> Query:
    """One row a µs; the rare branch sees those of RARE, all of them early."""
    schema = Schema.of({"t": "timestamp[us]", "n": "int64"})
    readings = Stream("readings", schema, Column("t"), DISORDER)
    is_rare = (col("n") % 97 == 0) & (col("n") < 200)
    functions = (("rows", count()), ("first", first("n")), ("last", last("n")))
    return Query(
        "diamond",
        (readings,),
        (
            Filter("rare", "readings", is_rare),
            Filter("most", "readings", ~is_rare),
            Union("both", ("rare", "most")),
            Aggregate("windows", "both", TimeWindow(SIZE, ADVANCE), (), functions),
        ),
        (Output("answers", "windows"), Output("seldom", "rare")),
        # every operator a subquery, so that every edge is a channel with a credit of its own
        options=Options(split="per-operator"),
    )


def readings(seed: int = 1) -> list[tuple[int, int]]:
    """Rows (t, n) with t = n, each behind the greatest before it by less than the disorder."""
    rnd = random.Random(seed)
    order = sorted(range(ROWS), key=lambda n: n + rnd.randrange(DISORDER))
    return [(n, n) for n in order]


def answers() -> list[TimedRow]:
    """Of every window that holds a row, in closed form."""
    found = []
    for start in range(ADVANCE - SIZE, ROWS, ADVANCE):
        held = range(max(start, 0), min(start + SIZE, ROWS))
        found.append((start + SIZE - 1, (len(held), held[0], held[-1])))
    return found


def expected() -> dict[str, list[TimedRow]]:
    return {"answers": answers(), "seldom": [(n, (n, n)) for n in RARE]}


def test_the_reference_answers_the_diamond() -> None:
    answer = evaluate(diamond(), {"readings": [Partition(0, readings())]})
    assert answer.late == {"readings": []}
    assert_same_answer(expected(), answer.outputs)


def test_no_row_of_the_rare_branch_comes_after_the_first_tenth() -> None:
    places = [place for place, (_, n) in enumerate(readings()) if n in RARE]
    assert max(places) < ROWS / 10
