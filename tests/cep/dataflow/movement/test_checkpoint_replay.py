"""What a run gave out behind a checkpoint, one restored from it gives out again, whatever its plan: nothing that was seen is
taken back, and with what came before the checkpoint it is the whole answer.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep.kernels.jit import interpreted
from tests.reference.equal import _identity as identity
from tests.strategies import Case, Execution, cases, executions
from tests.strategies.directed import directed
from tests.support.cells import Cell, sound_cells
from tests.support.kinds import STATELESS
from tests.support.replaying import killed_and_restored
from tests.support.running import expected_of, outputs_of

pytestmark = pytest.mark.timeout(900)


def check(case: Case, before: Execution, after: Execution, seed: int) -> None:
    with interpreted():
        expected = outputs_of(case.query, expected_of(case.query, case.inputs))
        given_, behind, regenerated = killed_and_restored(case, before, after, random.Random(seed))
    for stream, seen in behind.items():
        assert not seen - regenerated.get(stream, Counter()), f"stream {stream!r}: given out behind the Barrier, and not again"
    for stream, rows in expected.items():
        whole = Counter((t, *map(identity, values)) for t, values in rows)
        assert given_.get(stream, Counter()) + regenerated.get(stream, Counter()) == whole, f"stream {stream!r}"


@settings(max_examples=10)
@given(cases(), executions(), executions(), st.integers(0, 2**32))
def test_what_was_given_out_is_given_out_again(case: Case, before: Execution, after: Execution, seed: int) -> None:
    check(case, before, after, seed)


@pytest.mark.long
@given(cases(), executions(), executions(), st.integers(0, 2**32))
def test_long(case: Case, before: Execution, after: Execution, seed: int) -> None:
    check(case, before, after, seed)


STATEFUL = [cell for cell in sound_cells() if cell.kind not in STATELESS]


@pytest.mark.parametrize("cell", STATEFUL, ids=lambda cell: f"{cell.kind}, {cell.balancer}")
@settings(max_examples=1)
@given(st.data())
def test_every_operator_with_state(cell: Cell, data: st.DataObject) -> None:
    case, before = data.draw(directed(cell))
    check(case, before, data.draw(executions()), data.draw(st.integers(0, 2**32)))
