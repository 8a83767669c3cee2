"""Every operator, over every window, behind every balancer that is sound: executed, and with the reference's answer."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep.kernels.jit import interpreted
from tests.properties.test_properties import check
from tests.strategies.directed import directed
from tests.support import cells
from tests.support.cells import Cell, sound_cells

pytestmark = pytest.mark.timeout(900)
EVERY_CELL = pytest.mark.parametrize("cell", sound_cells(), ids=lambda cell: f"{cell.kind} {cell.balancer}".replace(" ", "-"))


def run(cell: Cell, data: st.DataObject) -> None:
    case, execution = data.draw(directed(cell))
    before = cells.executed[cell]
    with interpreted():
        check(case, execution)
    assert cells.executed[cell] > before, f"not executed: {cell}"


@EVERY_CELL
@settings(max_examples=4)
@given(st.data())
def test_every_cell(cell: Cell, data: st.DataObject) -> None:
    run(cell, data)


@pytest.mark.long
@pytest.mark.timeout(7200)
@EVERY_CELL
@settings(max_examples=20)
@given(st.data())
def test_long_every_cell(cell: Cell, data: st.DataObject) -> None:
    run(cell, data)
