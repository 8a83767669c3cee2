"""States of a piece are read where they lie in it, and are what was taken."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from cep.dataflow.movement.instance_move import move_document, value_of
from cep.elements import State
from cep.errors import ClusterError
from instance_manager.recovery.pieces import ALIGNED, bytes_of, states_in


def test_states_come_back_as_they_were() -> None:
    rows = pa.record_batch({"key": ["a", None, "longer"], "n": pa.array([1, 2, 3], pa.int64())}).slice(1)
    taken = [move_document("figures", {"of": 7}), State("count", "groups", 1, rows), State("count", "held", 0, rows.slice(0, 0))]
    piece = b"".join(bytes_of(taken))
    document, *found = states_in(memoryview(piece))
    assert value_of(document) == {"of": 7}
    assert [(each.operator, each.part, each.port) for each in found] == [("count", "groups", 1), ("count", "held", 0)]
    assert [each.rows.to_pylist() for each in found] == [rows.to_pylist(), []]


def test_columns_are_not_copied_on_either_way() -> None:
    values = np.arange(1000)
    rows = pa.record_batch({"n": pa.array(values)})
    parts = list(bytes_of([State("count", "groups", 0, rows)]))
    at = rows.column(0).buffers()[1].address
    assert any(isinstance(each, memoryview) and len(each) and pa.py_buffer(each).address == at for each in parts)
    whole = np.empty(sum(map(len, parts)) + ALIGNED, np.uint8)
    piece = whole[-whole.ctypes.data % ALIGNED :][: len(whole) - ALIGNED]
    piece[:] = np.frombuffer(b"".join(parts), np.uint8)
    (state,) = states_in(piece.data)
    begin = state.rows.column(0).buffers()[1].address - piece.ctypes.data
    assert 0 < begin < len(piece) and state.rows.column(0).to_pylist() == values.tolist()


def test_what_is_no_piece_is_refused() -> None:
    with pytest.raises(ClusterError, match=r"expected b'CEPPIECE .* at its beginning, got b'something else'"):
        states_in(memoryview(b"something else"))
