"""Buckets that move while a query runs: whatever moves, whenever, as often as it may, the answers are the reference's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep.dataflow import reroute
from cep.kernels.jit import interpreted
from tests.cells import Cell, sound_cells
from tests.kinds import STATELESS
from tests.moving import Move, moves, run_moving
from tests.reference import assert_same_answer
from tests.running import expected_of, outputs_of
from tests.strategies import Case, Execution, cases, executions, tied_cases
from tests.strategies.directed import directed

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


@pytest.mark.long
@pytest.mark.timeout(7200)
@given(st.one_of(cases(), tied_cases()), executions().flatmap(moves))
def test_long_moves(case: Case, how: tuple[Execution, list[Move]]) -> None:
    with interpreted():
        check(case, *how)
