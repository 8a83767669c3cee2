"""Cores and NUMA nodes that a query has to itself: where it and others are placed, and may go."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cep.errors import Conflict, PlacementError
from cep.model.query import Query
from cep.model.topology import NumaNode, Topology
from cep.plan.explain import explain
from cep.plan.physical import PhysicalPlan
from cep.plan.planner import plan
from orchestrator.balance.instances import _hosts
from orchestrator.records import InstanceManager
from orchestrator.state.events import MoveInstance, SubmitQuery
from orchestrator.state.exclusive import closed_to, held_alone
from tests.orchestrator.state.test_cluster_state import Cluster as PureCluster
from tests.orchestrator.state.test_cluster_state import query

MACHINE = Topology((NumaNode(0, (0, 1), 0), NumaNode(1, (2, 3), 0)), ((10, 20), (20, 10)))


class Cluster(PureCluster):
    """Two nodes of two cores each, an instance manager on every core."""

    def __init__(self) -> None:
        super().__init__()
        cores = {f"im_{core}": core for core in range(4)}
        self.see(**{key: _manager(key.replace("_", "-"), core) for key, core in cores.items()})

    def planned(self, name: str, exclusive: str, instances: int = 1) -> PhysicalPlan:
        asked = query(name, name)
        asked = replace(asked, options=replace(asked.options, parallelism=instances, exclusive=exclusive))
        return plan(asked, self.state.streams, self.state.workers(name, exclusive), MACHINE)

    def deploy(self, name: str, exclusive: str = "off", instances: int = 1) -> set[str]:
        """Where it is."""
        made = self.planned(name, exclusive, instances)
        self.do(SubmitQuery(made))
        for state in ("ready", "running"):
            self.all_say(state, name)
        return {instance.im for instance in made.instances}


def _manager(im: str, core: int) -> InstanceManager:
    return InstanceManager.from_json({"id": im, "endpoint": f"ipc:///{im}", "pid": 1, "node": core // 2, "core": core})


@pytest.fixture
def made() -> Cluster:
    return Cluster()


def test_a_core_of_its_own(made: Cluster) -> None:
    alone = made.deploy("alone", "core")
    assert len(alone) == 1 and held_alone(made.state) == alone
    others = made.deploy("shared", instances=4), made.deploy("more", instances=4)
    assert not alone & (others[0] | others[1]), "no other is placed there, and these share what is left"
    assert others[0] & others[1]


def test_what_comes_later_goes_where_none_is_or_nowhere(made: Cluster) -> None:
    first = made.deploy("shared")
    assert made.deploy("alone", "core").isdisjoint(first)
    made.deploy("third", "core", 2)
    with pytest.raises(PlacementError, match="no instance manager can take query 'fourth', for the 4 there are may not be shared"):
        made.deploy("fourth", "core")


def test_a_node_of_its_own(made: Cluster) -> None:
    (im,) = made.deploy("alone", "node")
    node = {"im-0", "im-1"} if im in ("im-0", "im-1") else {"im-2", "im-3"}
    assert held_alone(made.state) == node
    assert made.deploy("shared", instances=4) == set(made.managers) - node
    with pytest.raises(PlacementError):
        made.deploy("second", "node")
    assert closed_to(made.state, "shared", "node") == node, "it may stay on its own"


def test_moves_keep_to_it_and_balancing_lets_it_be(made: Cluster) -> None:
    (alone,) = made.deploy("alone", "core")
    (shared,) = made.deploy("shared")
    with pytest.raises(Conflict, match=f"cannot move to '{alone}': one of two queries there would have its core or node alone"):
        made.do(MoveInstance("shared", "SQ2", 0, alone))
    with pytest.raises(Conflict, match="option exclusive"):
        made.do(MoveInstance("alone", "SQ2", 0, shared))
    seen = _hosts({}, made.state)
    assert seen is not None and {each.im for each in seen} == set(made.managers) - {alone}
    free = next(im for im in made.managers if im not in (alone, shared))
    made.do(MoveInstance("alone", "SQ2", 0, free))
    assert held_alone(made.state) == {alone, free}, "both, while it moves"


def test_explain_shows_it(made: Cluster) -> None:
    assert "1 instance manager, shared with no other query (core), cost" in explain(made.planned("q", "core"))
    assert "shared with" not in explain(made.planned("q", "off"))
    asked: Query = query("p", "p")
    polling = replace(asked, options=replace(asked.options, message_policy="poll"))
    assert "instance managers, which poll, cost" in explain(plan(polling, {}, made.state.workers(), MACHINE))
