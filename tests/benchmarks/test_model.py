"""The model of many nodes: what it gains by awareness, and what it says of itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.calibrate import Calibration
from benchmarks.model import FIGURE_13, ReplicaModel, aware, curve, markdown, not_aware
from cep.model.topology import Topology

COSTS = Calibration(read_ns=200, window_ns=100, tuple_bytes=25, message_rows=1000, message_ns=3000, byte_ns=0.1, memory_byte_ns=0.2)


def test_the_model_over_one_node_is_what_its_cores_can_do() -> None:
    """Each core reads and counts, and pays for 17 of 18 messages at both ends; what is beyond is waiting."""
    machine = Topology.bullion_s16()
    tuple_ns = 200 + 100 + 17 / 18 * 2 * (3 + 25 * 0.1)
    most = 18 / tuple_ns * 1e9
    assert 0.97 * most < ReplicaModel(aware(1, machine), machine, COSTS).throughput() < 1.03 * most


def test_the_model_grows_with_nodes_and_gains_by_awareness() -> None:
    one, two = curve(COSTS, (1, 2), messages=100)
    assert two.aware == pytest.approx(2 * one.aware, rel=0.05)
    assert one.gain > 0 and two.gain > 0
    near = replace(COSTS, memory_byte_ns=0.0)
    assert curve(near, (1,), messages=100)[0].gain == pytest.approx(0, abs=0.01)
    assert curve(COSTS, (1, 2), messages=100) == [one, two]


def test_not_aware_takes_as_many_cores_from_anywhere() -> None:
    machine = Topology.bullion_s16()
    drawn = not_aware(2, machine)
    assert [len(nodes) for nodes in drawn] == [18, 18]
    assert len({node for nodes in drawn for node in nodes}) > 2


def test_the_model_states_its_assumptions_and_its_error() -> None:
    text = markdown(curve(COSTS, FIGURE_13, messages=20), COSTS)
    assert "a model and no measurement" in text
    assert text.count("\n| 8 |") == 2 and "error in points" in text
