"""What of buckets is measured and looked at, and when they are moved for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, cast

import numpy as np
import pytest

from orchestrator.balance.buckets import LOOKS, RESTS, Balancing, PlacedBuckets, Totals, still, totals_of
from orchestrator.balance.instances import InstanceBalancing
from orchestrator.balance.load import Load
from orchestrator.state.cluster_state import ClusterState
from orchestrator.state.events import Event, MoveBuckets
from tests.orchestrator.balance.test_instance_load import NoLoad
from tests.orchestrator.state import test_scaling
from tests.orchestrator.state.test_cluster_state import Cluster
from tests.orchestrator.state.test_recovery import WithoutDisk
from tests.orchestrator.state.test_tables import SWAPPED, tell


@pytest.fixture
def cluster() -> Cluster:
    return Cluster().running()


def reports(at: float, cpu: tuple[int, int], sent: list[int], epoch: int = 1) -> list[dict[str, Any]]:
    """Of one sender and two receivers."""
    own = [
        {"epoch": epoch, "subquery": "SQ2", "instance": i, "cpu_ns": each, "rows_in": 100 * each, "reported": at, "buckets": {}}
        for i, each in enumerate(cpu)
    ]
    sender = {"epoch": epoch, "subquery": "SQ1", "instance": 0, "cpu_ns": 5, "rows_in": 7, "reported": at, "buckets": {"SQ2": sent}}
    return [*own[::-1], sender]


def test_costs_are_of_all_looks_and_rows_of_the_last() -> None:
    table = PlacedBuckets(("q", 1, "SQ2"), 0, (0, 1), 2)
    looks = [totals_of(table, reports(*each)) for each in ((1.0, (0, 0), [0, 0]), (2.0, (10, 20), [5, 5]), (3.0, (40, 60), [6, 9]))]
    first, last, now = looks
    assert first is not None and last is not None and now is not None and now.follows(first)
    load = now.since(first, last, 2)
    assert load.taken == [4000, 6000] and load.sent == [1, 4]
    assert np.allclose(load.cpu, [20e-9, 30e-9])


def test_nobody_is_judged_by_what_another_deployment_did_or_before_all_have_reported() -> None:
    table = PlacedBuckets(("q", 2, "SQ2"), 0, (0, 1), 2)
    assert totals_of(table, reports(1.0, (1, 1), [1, 1], epoch=1)) is None
    assert totals_of(table, reports(1.0, (1, 1), [1, 1], epoch=2)[1:]) is None


def test_what_moves_is_not_looked_at(cluster: Cluster) -> None:
    assert [(each.place[2], each.version, each.attempt) for each in still(cluster.state)] == [("SQ2", 0, 0)]
    cluster.do(MoveBuckets("per-ip", "SQ2", SWAPPED))
    assert still(cluster.state) == []
    tell(cluster, 1, 0, 1)
    assert [(each.version, each.table) for each in still(cluster.state)] == [(1, SWAPPED)]


def totals(version: int, instances: int = 2, attempt: int = 0) -> Totals:
    each = np.ones(instances)
    return Totals((attempt, version), each, each, each, each)


def test_load_is_measured_while_the_buckets_stay_and_the_same_instances_report() -> None:
    assert totals(3).follows(totals(3))
    assert not totals(3).follows(totals(2)) and not totals(2).follows(totals(3)) and not totals(3, attempt=1).follows(totals(3))
    assert not totals(3, 4).follows(totals(3)) and not totals(3).follows(totals(3, 4))


def test_instances_of_one_number_in_two_replicas_count_as_one() -> None:
    first = Totals((0, 0), np.array([0, 0, 0, 0.0]), np.array([0, 0, 5, 5.0]), np.array([0.0, 1, 0, 1]), np.array([1, 1]))
    last = Totals((0, 0), np.array([0, 0, 0, 0.0]), np.array([0, 0, 0, 0.0]), np.array([5.0] * 4), np.array([11, 21]))
    now = Totals((0, 0), np.array([1e9, 2e9, 4e9, 8e9]), np.array([10, 20, 35, 45.0]), np.array([10.0, 11, 10, 11]), np.array([31, 51]))
    assert now.since(first, last, 2) == Load([0.25, 0.5], [40, 60], [20, 30])


def test_what_an_earlier_deployment_reports_is_not_counted() -> None:
    placed = PlacedBuckets(("q", 2, "SQ2"), 1, (0, 1), 2)
    found = totals_of(placed, [report(epoch, instance) for epoch in (1, 2) for instance in (1, 0)])
    assert found is not None and (found.taken.tolist(), found.sent.tolist()) == ([20, 21], [2, 4])
    assert totals_of(placed, [report(2, 0), report(1, 1)]) is None


def report(epoch: int, instance: int) -> dict[str, Any]:
    """Of an instance, and of what it has sent to itself and the other."""
    figures = {"cpu_ns": 1, "rows_in": 10 * epoch + instance, "reported": 1.0, "buckets": {"SQ2": [1, 2]}}
    return {"epoch": epoch, "subquery": "SQ2", "instance": instance, **figures}


class PureService:
    """A service that is the state of a cluster, without threads."""

    leads = True

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def ask(self, question: Callable[[ClusterState], Any]) -> Future[Any]:
        answer: Future[Any] = Future()
        answer.set_result(question(self.cluster.state))
        return answer

    def do(self, event: Event) -> Future[None]:
        self.cluster.do(event)
        return self.ask(lambda state: None)


class Reported:
    """A metric server: SQ2/0 and SQ2/1 have used so much CPU, and so many rows a second have gone to each bucket, evenly in time."""

    def __init__(self, cpu: tuple[float, float], rows: Sequence[int]) -> None:
        self.seconds, self.cpu, self.rows = 0, cpu, rows

    def ask(self, **question: str) -> dict[str, Any]:
        if question["query"] != "per-ip":
            return {}
        self.seconds += 2
        first, second = (int(each * self.seconds * 1e9) for each in self.cpu)
        return {"instances": reports(float(self.seconds), (first, second), [each * self.seconds for each in self.rows])}


def looked(cluster: Cluster, cpu: tuple[float, float], rows: Sequence[int], looks: int) -> Balancing:
    balancing = Balancing(cast(Any, PureService(cluster)), cast(Any, Reported(cpu, rows)))
    balancing.instances = InstanceBalancing(cast(Any, None), cast(Any, NoLoad()))
    for _ in range(looks):
        balancing._look()
    return balancing


def test_buckets_move_once_it_has_been_looked_at_often_enough(cluster: Cluster) -> None:
    """Four of them have all the rows, and lie at one instance."""
    hot = [2000 if bucket in (0, 500, 1000, 1500) else 0 for bucket in range(4096)]
    looked(cluster, (0.8, 0.0), hot, LOOKS)
    assert still(cluster.state)[0].version == 0
    balancing = looked(cluster, (0.8, 0.0), hot, LOOKS + 1)
    table = cluster.state.table("per-ip", "SQ2")
    assert table.version == 1 and sorted(table.table[bucket] for bucket in (0, 500, 1000, 1500)) == [0, 0, 1, 1]
    seen = balancing._seen
    balancing._look()  # what moves is not looked at
    assert balancing._seen == {} != seen and cluster.state.table("per-ip", "SQ2").version == 1


def test_buckets_of_a_query_that_recovers_move_for_more_and_then_rest() -> None:
    """Their table is that of the plan of its next attempt."""

    def seen(busy: float, looks: int) -> tuple[WithoutDisk, Balancing]:
        cluster = test_scaling.running()
        hot = [8000 if bucket in (0, 500) else 0 for bucket in range(4096)]
        return cluster, looked(cluster, (busy, 1 - busy), [*hot[:-1], int(16_000 * (1 - busy) / busy)], looks)

    cluster, _ = seen(0.55, LOOKS + 2)
    assert cluster.state.queries["per-ip"].change is None, "a tenth more than the mean is not worth a pause"
    cluster, balancing = seen(0.9, LOOKS + 1)
    ((placed, rests),) = balancing._resting.items()
    change = cluster.state.queries["per-ip"].change
    assert change is not None and change.unasked and {change.table[0], change.table[500]} == {0, 1}
    assert (placed, rests) == (("per-ip", 1), RESTS)
    assert still(cluster.state) == [], "it is being changed"
    cluster.stores()
    for state in ("ready", "running"):
        cluster.all_say(state)
    assert [(each.attempt, each.table, each.recovers) for each in still(cluster.state)] == [(1, change.table, True)]
    assert totals_of(still(cluster.state)[0], reports(1.0, (1, 1), [1] * 4096)) is None, "of the attempt before"
    balancing._resting[placed] = 1
    balancing._look()
    assert not balancing._resting


def test_a_load_that_is_even_and_a_service_that_does_not_lead_move_nothing(cluster: Cluster) -> None:
    even = looked(cluster, (0.4, 0.4), [4] * 4096, LOOKS + 2)
    assert even._untried == set() and cluster.state.table("per-ip", "SQ2").version == 0
    cast(Any, even.service).leads = False
    even._look()
    assert even._seen == {}
