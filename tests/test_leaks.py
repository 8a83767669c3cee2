"""Queries that are gone leave nothing behind: objects and nodes are counted here, the memory of all processes in the long mode."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Iterator

import pytest
from control_plane import HANG_S, Keeper
from test_state import Cluster, query

from benchmarks.leaks import measured
from cep.zookeeper import connect, outcome
from driver import LocalCluster
from orchestrator.events import ClosePublisher, Forget, OpenPublisher, Subscribe, Undeclare, Unsubscribe
from orchestrator.metric_server import WITHDRAWN_MAX, Metrics
from orchestrator.records import Publisher, Subscription

BYTES_MAX = 200.0


def reachable(root: object) -> Counter[str]:
    """How many objects of each type lead on from `root`, of those that are made for it; what a module knows is everybody's."""
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
        made.do(Subscribe(Subscription(f"out{number}", f"s{number}", "ipc:///s")))
        made.submit(query(name, f"out{number}"))
        made.all_say("ready", name)
        made.do(OpenPublisher(Publisher("visits", f"p{number}", f"ipc:///p{number}")))
        made.all_say("running", name)
        made.do(ClosePublisher("visits", f"p{number}"))
        made.do(Unsubscribe(f"out{number}", f"s{number}"))
        made.do(Forget(name))
        made.all_say("stopped", name)
        for key in [key for key in made.state.statuses]:
            made.state.statuses.pop(key)  # each instance manager takes its own away
        made.do(Undeclare("visits"))

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
        metrics.take({"im": "im-0", "instances": [figures]}, float(number) / 100)
        metrics.take({"im": "im-0", "instances": [], "withdrawn": [[name, "SQ1", "0"]]}, float(number) / 100)
    assert len(metrics.instances) == len(metrics.queries) == len(metrics.epochs) == len(metrics.letters) == WITHDRAWN_MAX
    assert metrics.dead_letters(f"q{3 * WITHDRAWN_MAX - 1}")["total"] == 1


def test_an_answer_without_a_node_holds_nobody(zookeeper: Keeper) -> None:
    """As an error it held the frame that asked, and all that it knew, until somebody collected garbage; and that was frozen."""
    client = connect(zookeeper.fresh(), 10)
    client.start(timeout=HANG_S)

    class Plan:
        pass

    def ask() -> weakref.ref[Plan]:
        plan = Plan()
        assert outcome(client.get_async("/nowhere"), HANG_S) is None
        return weakref.ref(plan)

    gc.disable()
    try:
        assert ask()() is None
    finally:
        gc.enable()
        client.stop()
        client.close()


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
