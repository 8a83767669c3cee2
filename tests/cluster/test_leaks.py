"""Queries that are gone leave nothing behind: objects and nodes are counted here, the memory of all processes in the long mode.

Tests `benchmarks/faults/leaks.py`.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

import pytest

from benchmarks.faults.leaks import measured
from cep.world.coordination import NoNode
from cep.world.zookeeper import ZooKeeperSession
from driver import LocalCluster
from orchestrator.metrics.server import WITHDRAWN_MAX, Metrics
from orchestrator.records import Now, PublisherRecord, SubscriptionRecord
from orchestrator.state.events import ClosePublisher, ForgetQuery, OpenPublisher, Subscribe, UndeclareStream, Unsubscribe
from tests.orchestrator.state.test_cluster_state import Cluster, query
from tests.support.control_plane import Keeper
from tests.support.waiting import HANG_S

BYTES_MAX = 200.0


def reachable(root: object) -> Counter[str]:
    """How many objects of each type lead on from `root`, of those that are made for it; what a module knows does not count."""
    seen, left, found = {id(root)}, [root], Counter[str]()
    while left:
        each = left.pop()
        found[type(each).__name__] += 1
        for other in gc.get_referents(each):
            if (
                id(other) not in seen
                and not isinstance(other, type)
                and type(other).__name__ not in ("module", "function", "getset_descriptor")
            ):
                seen.add(id(other))
                left.append(other)
    return found


def test_the_orchestrators_state_is_as_before() -> None:
    made = Cluster()

    def cycle(number: int) -> None:
        name = f"q{number}"
        made.do(Subscribe(SubscriptionRecord(f"out{number}", f"s{number}", "ipc:///s")))
        made.submit(query(name, f"out{number}"))
        made.all_say("ready", name)
        made.do(OpenPublisher(PublisherRecord("visits", f"p{number}", f"ipc:///p{number}")))
        made.all_say("running", name)
        made.do(ClosePublisher("visits", f"p{number}"))
        made.do(Unsubscribe(f"out{number}", f"s{number}"))
        made.do(ForgetQuery(name))
        made.all_say("stopped", name)
        for key in [key for key in made.state.statuses]:
            made.state.statuses.pop(key)  # each instance manager takes its own away
        made.do(UndeclareStream("visits"))

    for number in range(10):
        cycle(number)
    before, nodes = reachable(made.state), dict(made.nodes)
    for number in range(10, 40):
        cycle(number)
    after = reachable(made.state)
    assert {kind: after[kind] - before[kind] for kind in after if after[kind] > before[kind]} == {}
    assert made.nodes.keys() == nodes.keys()


def test_the_metric_server_keeps_the_last_of_what_is_gone() -> None:
    metrics = Metrics()
    for number in range(3 * WITHDRAWN_MAX):
        name = f"q{number}"
        letters = {"count": [["f", 1]], "letters": [{"operator": "f"}]}
        figures = {"query": name, "subquery": "SQ1", "instance": 0, "epoch": number, "cpu_ns": 0, "dead_letters": letters}
        metrics.take({"im": "im-0", "instances": [figures]}, Now(number / 100, number / 100))
        metrics.take({"im": "im-0", "instances": [], "withdrawn": [[name, "SQ1", "0"]]}, Now(number / 100, number / 100))
    assert len(metrics.instances) == len(metrics.queries) == len(metrics.epochs) == len(metrics.letters) == WITHDRAWN_MAX
    assert metrics.dead_letters(f"q{3 * WITHDRAWN_MAX - 1}")["total"] == 1


def test_an_answer_without_a_node_holds_nobody(zookeeper: Keeper) -> None:
    """As an error it held the frame that asked, and all that it knew, until garbage was collected; and that was frozen."""
    connected = threading.Event()
    session = ZooKeeperSession(zookeeper.fresh(), 10)
    session.start(lambda connection: connected.set())
    assert connected.wait(HANG_S)

    class Plan:
        pass

    def ask() -> weakref.ref[Plan]:
        plan = Plan()
        assert session.get(["/nowhere"]) == [None]
        with suppress(NoNode):
            session.set("/nowhere", b"")
        return weakref.ref(plan)

    gc.disable()
    try:
        assert ask()() is None
    finally:
        gc.enable()
        session.close()


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(instances=1, numa=False) as started:
        yield started


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_memory_of_all_processes_does_not_grow(cluster: LocalCluster) -> None:
    found = measured(cluster, after=2000, until=10_000, every=500)["per_query"]
    assert {name: bytes_ for name, bytes_ in found.items() if bytes_ > BYTES_MAX} == {}
    assert found["zookeeper_nodes"] == 0
