"""A query with a lease is forgotten when it was not asked for any more, whichever orchestrator leads by then."""

from __future__ import annotations

import pytest

from cep.config import node
from cep.errors import Conflict, NotFound
from orchestrator.state.cluster_state import ClusterState
from orchestrator.state.events import ForgetQuery, RenewLease, SubmitQuery
from tests.orchestrator.state.test_cluster_state import TIMEOUT_S, Cluster, query

LEASE_S = 60.0


def leased() -> Cluster:
    cluster = Cluster()
    cluster.do(SubmitQuery(cluster.plan(query()), True, lease_s=LEASE_S))
    cluster.all_say("ready")
    cluster.all_say("running")
    return cluster


def test_it_is_forgotten_when_its_time_is_over() -> None:
    cluster = leased()
    assert cluster.state.deadline == cluster.now.steady + LEASE_S
    cluster.pass_time(LEASE_S - 1)
    assert cluster.state_of() == "running"
    cluster.pass_time(1)
    assert cluster.state_of() == "stopping"
    cluster.all_say("stopped")
    assert node("queries", "per-ip") not in cluster.nodes
    assert cluster.state.deadline is None


def test_asking_for_it_keeps_it() -> None:
    cluster = leased()
    for _ in range(3):
        cluster.pass_time(LEASE_S - 1)
        cluster.do(RenewLease("per-ip"))
    assert cluster.state_of() == "running"
    cluster.pass_time(LEASE_S)
    assert cluster.state_of() == "stopping"


def test_the_next_orchestrator_begins_its_time_anew() -> None:
    cluster = leased()
    cluster.pass_time(LEASE_S - 1)
    cluster.state = ClusterState(TIMEOUT_S, term=2)
    cluster.obey(cluster.state.restore(dict(cluster.nodes), cluster.now))
    cluster.see()
    cluster.pass_time(LEASE_S - 1)
    assert cluster.state_of() == "running"
    cluster.pass_time(1)
    assert cluster.state_of() == "stopping"


def test_one_without_a_lease_stays() -> None:
    cluster = Cluster().running()
    cluster.pass_time(100 * LEASE_S)
    assert cluster.state_of() == "running"
    with pytest.raises(Conflict, match="query 'per-ip' is no preview"):
        cluster.do(RenewLease("per-ip"))
    with pytest.raises(NotFound):
        cluster.do(RenewLease("gone"))


def test_one_that_was_set_aside_leaves_its_lease_to_no_other_of_its_name() -> None:
    cluster = leased()
    cluster.state._deployments.set_aside("per-ip", "a bug")
    cluster.do(ForgetQuery("per-ip"))
    cluster.running().pass_time(LEASE_S + 1)
    assert cluster.state_of() == "running"


def test_one_that_is_deleted_before_is_gone() -> None:
    cluster = leased()
    cluster.do(ForgetQuery("per-ip"))
    cluster.all_say("stopped")
    cluster.pass_time(2 * LEASE_S)
    assert node("queries", "per-ip") not in cluster.nodes
