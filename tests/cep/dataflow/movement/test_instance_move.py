"""Instances that move to another place while a query runs: whichever moves, whenever, the answers are the reference's.

Tests `instance_move.py`, `figures.py`, `movement.py`.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep.dataflow.channel import Inbox
from cep.dataflow.local import LocalRun
from cep.errors import ProtocolError
from cep.kernels.jit import interpreted
from cep.model.query import Options, Query
from tests.cep.dataflow.movement.test_bucket_move import NUMBERS, TEXTS, families, grown, joins
from tests.cep.dataflow.movement.test_bucket_move import small_pieces as small_pieces
from tests.properties.test_properties import everything, in_order
from tests.reference import assert_same_answer
from tests.strategies import Case, Execution
from tests.strategies.directed import directed
from tests.support.cells import Cell, sound_cells
from tests.support.kinds import STATELESS
from tests.support.moving import built, moves_of
from tests.support.relocating import run_relocating
from tests.support.running import expected_of, outputs_of, plan_of, ran_of, scripts_of

pytestmark = pytest.mark.timeout(300)


def check(case: Case, execution: Execution, seed: int, moves_max: int) -> int:
    """So many instances have moved."""
    choose = random.Random(seed)
    made = plan_of(case.query, execution)
    local = built(made, scripts_of(case, made, execution, random.Random(execution.seed)), execution)
    moves = [(choose.randint(0, 3), choose.randrange(100)) for _ in range(choose.randint(1, moves_max))]
    outcome, relocated = run_relocating(local, moves, execution.seed)
    ran, expected = ran_of(outcome), expected_of(case.query, case.inputs)
    assert_same_answer(outputs_of(case.query, expected), ran.outputs)
    assert ran.late == sum(map(len, expected.late.values()))
    assert ran.dead == expected.dead_counts()
    return relocated


STATEFUL = [cell for cell in sound_cells() if cell.kind not in STATELESS]


@pytest.mark.parametrize("cell", STATEFUL, ids=lambda cell: f"{cell.kind}, {cell.balancer}")
@settings(max_examples=3)
@given(st.data())
def test_every_operator_with_state_moves(cell: Cell, data: st.DataObject) -> None:
    case, execution = data.draw(directed(cell))
    seed = data.draw(st.integers(0, 2**32))
    with interpreted():
        check(case, moves_of(random.Random(seed), execution, 1)[0], seed, 4)


def test_an_instance_may_move_again_before_its_receiver_has_heard_of_the_first_move(as_python: None) -> None:
    """Else a receiver with much before it would fail at the second."""
    made = plan_of(families(), Execution(Options(parallelism=2), (1,), (), (0,), 1, 0))
    local = LocalRun(made)
    there, input_ = next((i, each) for i in local.instances for each in i.inputs if len(each.inboxes) > 1)
    first, other = input_.inboxes[:2]
    second, third = Inbox("from its second place", 1), Inbox("from its third place", 1)
    local.movement(there).listen(first, second)
    local.movement(there).listen(second, third)
    input_.switch(first, 5)
    assert input_.inboxes[:2] == [second, other]
    input_.switch(second, 7)
    assert input_.inboxes[:2] == [third, other] and not input_.switches
    with pytest.raises(ProtocolError, match="'from its third place': its sender has moved, and the channel from its new place is not open"):
        input_.switch(third, 9)


LONGER = [everything(), in_order(), families(), joins()]


@pytest.mark.long
@pytest.mark.parametrize("query", LONGER, ids=lambda query: query.name)
def test_longer_runs(query: Query) -> None:
    """So that instances are far apart when one of them moves."""
    assert sum(longer(query, seed, {}) for seed in range(3)) > 3


#: A seed with which more than three instances of a query move that is one subquery.
MUCH_MOVES = {"everything": 1, "in-order": 2, "families": 2, "joins": 2}


@pytest.mark.parametrize("query", LONGER, ids=lambda query: query.name)
def test_what_reads_streams_moves(query: Query) -> None:
    """All of the query is one subquery, and publishers follow it."""
    assert longer(query, MUCH_MOVES[query.name], {"split": "single"}) > 3


@pytest.mark.long
@pytest.mark.parametrize("query", LONGER, ids=lambda query: query.name)
def test_what_reads_streams_moves_with_other_seeds(query: Query) -> None:
    assert sum(longer(query, seed, {"split": "single"}) for seed in range(3)) > 3


def longer(query: Query, seed: int, options: dict[str, Any]) -> int:
    choose = random.Random(seed)
    inputs = {stream.name: grown(choose, stream, TEXTS if query.name == "everything" else NUMBERS) for stream in query.streams}
    plain = Execution(Options(pre_aggregation=choose.choice(("auto", "off")), **options), (1,), (), (0,), 1, 0)
    with interpreted():
        return check(Case(query, inputs), replace(moves_of(choose, plain, 1)[0], credit_bytes=1), seed, 40)
