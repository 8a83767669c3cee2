"""The diamond with an empty branch (rule 7.4).

              ┌─ rare: three rows, no more ──┐
    readings ─┤                                ├─ both ─ windows (FIRST and LAST: order-sensitive)
              └─ most: all the others ─────────┘

The windows may close only at the least watermark of both branches. The answer is known in closed form, so that a run of
any engine at any credit is checked without trusting another one.

What does not work, with 4 credits a channel, disorder 100, and 4,000 rows (as tried):

- a watermark only on the channel that got rows, the window refusing input beyond 64 held rows: deadlock, for `rare` never
  hears how far time has come;
- watermarks to all, free, the window refusing beyond 64: deadlock again, for it holds 64 rows of the last 100 µs and the
  watermark that would free them is behind the rows that it refuses (with disorder 10 it works: it depends on the data);
- watermarks to all that cost a credit, the window refusing: deadlock even sooner, a watermark waiting behind itself.

What works, whatever the numbers: watermarks to all, control elements free, no operator ever refuses input; memory is
bounded by a limit on state, and credit counts batches only, one of which may always be outstanding.

Tests `local.py`, `local_wires.py`.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from cep.model.expr import ColumnRef, col
from cep.model.functions import count, first, last
from cep.model.operators import Aggregate, Filter, Union
from cep.model.query import Options, Output, Query
from cep.model.schema import Schema
from cep.model.streams import Stream
from cep.model.windows import TimeWindow
from tests.reference import Partition, assert_same_answer, evaluate
from tests.reference.engine import TimedRow
from tests.strategies import Case, Execution
from tests.support.running import run_case

ROWS, DISORDER, SIZE, ADVANCE = 4_000, 100, 100, 50
RARE = (0, 97, 194)


def diamond() -> Query:
    """One row a µs; the rare branch sees those of RARE, all of them early."""
    schema = Schema.of({"t": "timestamp[us]", "n": "int64"})
    readings = Stream("readings", schema, ColumnRef("t"), DISORDER)
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


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("parallelism", [1, 3])
def test_the_engine_with_one_credit_a_channel_answers_the_diamond(seed: int, parallelism: int) -> None:
    # credit_bytes=1: never more than the one batch under way that every channel may always have
    asked = replace(diamond(), options=Options("per-operator", parallelism=parallelism, pre_aggregation="off"))
    execution = Execution(asked.options, (7, 1, 64), (), (0,), 1, seed)
    ran = run_case(Case(asked, {"readings": [Partition(0, readings(seed))]}), execution)
    assert (ran.late, ran.dead.total()) == (0, 0)
    assert_same_answer(expected(), ran.outputs)


def test_no_row_of_the_rare_branch_comes_after_the_first_tenth() -> None:
    places = [place for place, (_, n) in enumerate(readings()) if n in RARE]
    assert max(places) < ROWS / 10
