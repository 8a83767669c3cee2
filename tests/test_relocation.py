"""Instances that move to another place while a query runs: whichever moves, whenever, the answers are the reference's."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep.dataflow.local import LocalRun
from cep.kernels.jit import interpreted
from cep.model.query import Options, Query
from tests.cells import Cell, sound_cells
from tests.kinds import STATELESS
from tests.moving import built, moves_of
from tests.reference import assert_same_answer
from tests.running import expected_of, outputs_of, plan_of, ran_of, scripts_of
from tests.strategies import Case, Execution
from tests.strategies.directed import directed
from tests.test_properties import everything, in_order
from tests.test_reroute import NUMBERS, TEXTS, families, grown, joins
from tests.test_reroute import small_pieces as small_pieces

pytestmark = pytest.mark.timeout(300)


def check(case: Case, execution: Execution, seed: int, moves_max: int) -> LocalRun:
    choose = random.Random(seed)
    made = plan_of(case.query, execution)
    local = built(made, scripts_of(case, made, execution, random.Random(execution.seed)), execution)
    moves = [(choose.randint(0, 3), choose.randrange(100)) for _ in range(choose.randint(1, moves_max))]
    ran, expected = ran_of(local.run_relocating(moves, execution.seed)), expected_of(case.query, case.inputs)
    assert_same_answer(outputs_of(case.query, expected), ran.outputs)
    assert ran.late == sum(map(len, expected.late.values()))
    assert ran.dead == expected.dead_counts()
    return local


STATEFUL = [cell for cell in sound_cells() if cell.kind not in STATELESS]


@pytest.mark.parametrize("cell", STATEFUL, ids=lambda cell: f"{cell.kind}, {cell.balancer}")
@settings(max_examples=3)
@given(st.data())
def test_every_operator_with_state_moves(cell: Cell, data: st.DataObject) -> None:
    case, execution = data.draw(directed(cell))
    seed = data.draw(st.integers(0, 2**32))
    with interpreted():
        check(case, moves_of(random.Random(seed), execution, 1)[0], seed, 4)


LONGER = [everything(), in_order(), families(), joins()]


@pytest.mark.parametrize("query", LONGER, ids=lambda query: query.name)
def test_longer_runs(query: Query) -> None:
    """So that instances are far apart when one of them moves."""
    assert sum(longer(query, seed, {}).relocated.total() for seed in range(3)) > 3


@pytest.mark.parametrize("query", LONGER, ids=lambda query: query.name)
def test_what_reads_streams_moves(query: Query) -> None:
    """All of the query is one subquery, and publishers follow it."""
    assert sum(longer(query, seed, {"split": "single"}).relocated.total() for seed in range(5)) > 5


def longer(query: Query, seed: int, options: dict[str, Any]) -> LocalRun:
    choose = random.Random(seed)
    inputs = {stream.name: grown(choose, stream, TEXTS if query.name == "everything" else NUMBERS) for stream in query.streams}
    plain = Execution(Options(pre_aggregation=choose.choice(("auto", "off")), **options), (1,), (), (0,), 1, 0)
    with interpreted():
        return check(Case(query, inputs), replace(moves_of(choose, plain, 1)[0], credit_bytes=1), seed, 40)
