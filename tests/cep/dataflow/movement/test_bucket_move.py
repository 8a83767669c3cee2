"""Buckets that move while a query runs: whatever moves, whenever, as often as it may, the answers are the reference's."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep.dataflow.movement import bucket_move
from cep.kernels.jit import interpreted
from cep.model.expr import ColumnRef, Literal, col
from cep.model.functions import count, first, lag, last, max_, row_number
from cep.model.operators import Aggregate, AsOfJoin, Deduplicate, Filter, IntervalJoin, Join, Over, Sort, StatefulMap, TopN
from cep.model.query import Options, Output, Query
from cep.model.schema import INT64, Schema
from cep.model.streams import Stream
from cep.model.windows import SessionWindow, SizeWindow, TimeWindow, TrailingWindow, TransactionWindow, UnboundedWindow
from tests.properties.test_properties import everything, in_order
from tests.reference import Partition, assert_same_answer
from tests.strategies import Case, Execution, cases, executions, tied_cases
from tests.strategies.directed import directed
from tests.support.cells import Cell, sound_cells
from tests.support.kinds import STATELESS
from tests.support.moving import Move, moves, moves_of, run_moving
from tests.support.running import expected_of, outputs_of

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module", autouse=True)
def small_pieces() -> Iterator[None]:
    """So that the little state there is goes in several, each under credit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bucket_move, "PIECE_BYTES", 100)
        yield


def check(case: Case, execution: Execution, drawn: list[Move]) -> None:
    expected = expected_of(case.query, case.inputs)
    ran, _ = run_moving(case, execution, drawn)
    assert_same_answer(outputs_of(case.query, expected), ran.outputs)
    assert ran.late == sum(map(len, expected.late.values()))
    assert ran.dead == expected.dead_counts()


KEYED = [cell for cell in sound_cells() if cell.balancer == "route-key"]
KEPT = [cell for cell in sound_cells() if cell.balancer == "point-to-point" and cell.kind not in (*STATELESS, "sort")]


@pytest.mark.parametrize("cell", [*KEYED, *KEPT], ids=lambda cell: f"{cell.kind}, {cell.balancer}")
@settings(max_examples=4)
@given(st.data())
def test_every_operator_with_state_moves(cell: Cell, data: st.DataObject) -> None:
    """Keyed by what its rows are routed by, or by what keeps the partitioning of the subquery before it, and moves with that."""
    case, execution = data.draw(directed(cell))
    with interpreted():
        check(case, *data.draw(moves(execution)))


@given(cases(), executions().flatmap(moves))
def test_answers_do_not_depend_on_moves(case: Case, how: tuple[Execution, list[Move]]) -> None:
    with interpreted():
        check(case, *how)


@given(tied_cases(), executions().flatmap(moves))
def test_rows_that_tie_keep_their_order(case: Case, how: tuple[Execution, list[Move]]) -> None:
    with interpreted():
        check(case, *how)


# --- longer runs, so that instances are far apart when buckets move ------------------------------------------------------


def grown(choose: random.Random, stream: Stream, cells: dict[str, Sequence[Any]]) -> list[Partition]:
    """Partitions of some 60 rows, nearly in order of time, one of them ahead of the others."""
    names = [name for name in stream.schema.names if name != "t"]
    found = []
    for part in range(choose.randint(2, 4)):
        times = sorted(choose.randint(0, 120) + 20 * (part == 0) for _ in range(60))
        rows = [{"t": t - choose.choice((0, 0, stream.disorder or 0)), **{n: choose.choice(cells[n]) for n in names}} for t in times]
        found.append(Partition(part, [tuple(row[n] for n in stream.schema.names) for row in rows]))
    return found


PAIRS = tuple(Stream(name, Schema.of({"t": "timestamp[us]", "k": "int64", "v": "int64"}), ColumnRef("t"), 3) for name in ("l", "r"))


def families() -> Query:
    """Every operator with state by k, and behind some of them one that keeps their partitioning."""
    by, n = ("k",), (("n", count()), ("last", last("v")))
    tens, opens = TimeWindow(10, 10), TransactionWindow(col("v") > 3, col("v") < 1)
    change = {"state": (("h", Literal(7, INT64)),), "update": (("h", (col("h") * 31 + col("v")) % 10_007),)}
    operators = (
        Filter("f", "l", col("v") >= 0),
        Aggregate("sliding", "f", TimeWindow(12, 4), by, n),
        Aggregate("of sliding", "sliding", TimeWindow(12, 12), by, (("n", count()), ("most", max_("n")))),
        StatefulMap("chain", "f", by, None, fields=(("k", col("k")), ("h", col("h"))), **change),
        Aggregate("of chain", "chain", SessionWindow(3), by, (("n", count()), ("first", first("h")))),
        Aggregate("sessions", "f", SessionWindow(4), by, n),
        Aggregate("transactions", "f", opens, by, n, emit_partial=True),
        Aggregate("rows", "f", SizeWindow(5, 2), by, n, emit_partial=True),
        Aggregate("running", "f", UnboundedWindow(None, 6), by, n),
        Aggregate("periodic", "f", UnboundedWindow(4, 9), by, n),
        Sort("sorted", "f", tens, by, (("v", True),)),
        Sort("threes", "f", SizeWindow(3, 3), by, (("v", True),), emit_partial=True),
        TopN("top", "f", TimeWindow(12, 4), by, (("v", False),), 2),
        Deduplicate("once", "f", ("k", "v"), 8),
        Over("ten", "f", TrailingWindow(10, None), by, (*n, ("before", lag("v", 2)), ("nth", row_number()))),
        Over("three", "f", TrailingWindow(None, 3), by, n, 9),
    )
    read = {name for operator in operators for name in operator.inputs}
    outputs = [operator.name for operator in operators if operator.name not in read]
    return Query("families", PAIRS[:1], operators, tuple(Output(f"out {name}", name) for name in outputs))


def joins() -> Query:
    """Both tables of a join at once; and what keeps its partitioning."""
    on, ten = (("k", "k"),), TimeWindow(10, 5)
    operators = (
        Join("window", "l", "r", ten, ten, on, "full", None, "r_"),
        Aggregate("of window", "window", TimeWindow(10, 10), ("k",), (("n", count()), ("v", max_("r_v")))),
        IntervalJoin("interval", "l", "r", -3, 6, on, "full", None, "r_"),
        AsOfJoin("as of", "l", "r", on, "left", 15, "r_"),
        Filter("again", "l", col("v") > 1),
        IntervalJoin("with itself", "l", "again", 0, 2, on, "left", None, "r_"),  # two edges from the same instances
    )
    outputs = ("of window", "interval", "as of", "with itself")
    return Query("joins", PAIRS, operators, tuple(Output(f"out {name}", name) for name in outputs))


NUMBERS: dict[str, Sequence[Any]] = {"k": range(6), "v": range(6)}
TEXTS: dict[str, Sequence[Any]] = {
    "k": [None, "", "a", "b", "c" * 20, "d"],
    "v": [None, 1, 2, 3],
    "x": [None, 0.1, -7.5],
    "w": ["u", None, "z"],
}


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 16))])
@pytest.mark.parametrize("query", [everything(), in_order(), families(), joins()], ids=lambda query: query.name)
def test_longer_runs(query: Query, seed: int) -> None:
    choose = random.Random(seed)
    inputs = {stream.name: grown(choose, stream, TEXTS if query.name == "everything" else NUMBERS) for stream in query.streams}
    plain = Execution(Options(pre_aggregation=choose.choice(("auto", "off"))), (1,), (), (0,), 1, 0)
    with interpreted():
        check(Case(query, inputs), *moves_of(choose, plain, 24))


@pytest.mark.long
@pytest.mark.timeout(7200)
@given(st.one_of(cases(), tied_cases()), executions().flatmap(moves))
def test_long_moves(case: Case, how: tuple[Execution, list[Move]]) -> None:
    with interpreted():
        check(case, *how)
