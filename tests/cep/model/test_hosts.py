"""Hosts as values: what a registration says, and versions that understand each other."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from cep.errors import ProtocolError
from cep.model.hosts import CLOCK_OFF_MS, AgentProcess, Host, Machines, check_version
from cep.model.topology import Topology

HOST = Host("h2", "10.0.0.2", Topology.one_node([0, 1], 1 << 30), AgentProcess(7, 12), "1.0", 3.5, -20, 0.25, ({"supervisor": "h2"},))


def test_a_registration_there_and_back() -> None:
    assert Host.from_json(json.loads(json.dumps(HOST.to_json()))) == HOST


def test_what_a_later_version_says_besides_is_no_matter() -> None:
    assert Host.from_json(HOST.to_json() | {"colour": "blue", "version": "1.7"}) == replace(HOST, version="1.7")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"name": 3}, "name"), ({"agent": [1]}, "agent"), ({"topology": {"nodes": []}}, "topology"), ({"clock_ms": "late"}, "clock_ms")],
)
def test_what_is_no_registration_says_where(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ProtocolError, match=said):
        Host.from_json(HOST.to_json() | wrong)


@pytest.mark.parametrize(("off_ms", "is_off"), [(None, False), (CLOCK_OFF_MS, False), (CLOCK_OFF_MS + 1, True), (-3_600_000, True)])
def test_a_clock_is_off_beyond_a_second_either_way(off_ms: int | None, is_off: bool) -> None:
    assert replace(HOST, clock_ms=off_ms).is_clock_off is is_off


def test_another_minor_version_is_understood_and_another_major_one_is_not() -> None:
    check_version("1.9", "1.0")
    with pytest.raises(ProtocolError, match=r"version '2\.0' cannot join a cluster of version '1\.3'"):
        check_version("2.0", "1.3")


def test_a_host_that_is_not_known_counts_as_one_node() -> None:
    machines = Machines({"h1": HOST.topology})
    assert machines.distance(("h9", 3), ("h9", 0)) == 10 and machines.distance(("h9", 3), ("h1", 0)) == machines.between
