"""Buckets that move while a query runs: whatever moves, whenever, as often as it may, the answers are the reference's."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep.dataflow import reroute
from cep.kernels.jit import interpreted
from cep.model.query import Options, Query
from cep.model.streams import Stream
from tests.cells import Cell, sound_cells
from tests.kinds import STATELESS
from tests.moving import Move, moves, moves_of, run_moving
from tests.reference import Partition, assert_same_answer
from tests.running import expected_of, outputs_of
from tests.strategies import Case, Execution, cases, executions, tied_cases
from tests.strategies.directed import directed
from tests.test_properties import everything, in_order

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module", autouse=True)
def small_pieces() -> Iterator[None]:
    """So that the little state there is goes in several, each under credit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reroute, "PIECE_BYTES", 100)
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
@settings(max_examples=15)
@given(st.data())
def test_every_operator_with_state_moves(cell: Cell, data: st.DataObject) -> None:
    """Keyed by what its rows are routed by, or by what keeps the partitioning of the subquery before it, and moves with that."""
    case, execution = data.draw(directed(cell))
    with interpreted():
        check(case, *data.draw(moves(execution)))


@settings(max_examples=50)
@given(cases(), executions().flatmap(moves))
def test_answers_do_not_depend_on_moves(case: Case, how: tuple[Execution, list[Move]]) -> None:
    with interpreted():
        check(case, *how)


@settings(max_examples=50)
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


CELLS: dict[str, dict[str, Sequence[Any]]] = {
    "everything": {
        "k": [None, "", "a", "b", "c" * 20, "d"],
        "v": [None, 1, 2, 3],
        "x": [None, 0.1, -7.5, 1e300],
        "w": ["u", "v", None, "z"],
    },
    "in-order": {"k": range(6), "v": range(6)},
}


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("query", [everything(), in_order()], ids=lambda query: query.name)
def test_longer_runs(query: Query, seed: int) -> None:
    choose = random.Random(seed)
    case = Case(query, {"s": grown(choose, query.streams[0], CELLS[query.name])})
    plain = Execution(Options(pre_aggregation=choose.choice(("auto", "off"))), (1,), (), (0,), 1, 0)
    with interpreted():
        check(case, *moves_of(choose, plain, 12))


@pytest.mark.long
@pytest.mark.timeout(7200)
@given(st.one_of(cases(), tied_cases()), executions().flatmap(moves))
def test_long_moves(case: Case, how: tuple[Execution, list[Move]]) -> None:
    with interpreted():
        check(case, *how)
