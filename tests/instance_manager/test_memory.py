"""Memory that comes to its end: whose turn it is, what is tried first, and that a real instance manager survives it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from cep.elements import MIN_TIME, CheckpointBarrier, Stop
from cep.errors import CepError
from cep.transport import wire
from cep.transport.wire import Header
from cep.world.clock import ManualClock
from cep.world.memory import Bound, ScriptedMemory
from driver import LocalCluster
from instance_manager.hosting import InstanceHost
from instance_manager.memory import LOOK_NS, REST_NS, MemoryGuard, bytes_of, is_over
from tests.cep.dataflow.test_instance import Pass
from tests.instance_manager.recovery import test_kept
from tests.instance_manager.test_broken_messages import Station
from tests.instance_manager.test_ready import Line, at_home
from tests.support.paths import ROOT
from tests.support.visits import BASE_MS, answers, expected, rows, windows
from tests.support.waiting import until


@pytest.mark.parametrize(
    ("used", "own", "shared", "turn"),
    [
        (899, 899, False, False),
        (900, 0, False, True),
        (900, 224, True, False),  # four of them: the share of each is 225 of 900
        (900, 225, True, True),
        (949, 224, True, False),
        (950, 1, True, True),
    ],
)
def test_whose_turn_it_is(used: int, own: int, shared: bool, turn: bool) -> None:
    assert is_over(Bound("b", used, 1000, shared), own, 4) is turn


class Bench:
    """A guard, and three instances: two of query `big`, which have 100 bytes each, and one of `small`, which has 150."""

    def __init__(self, hosted: list[InstanceHost]) -> None:
        self.hosted = dict(zip("abc", hosted, strict=True))
        for each, query in zip(hosted, ("big", "small", "big"), strict=True):
            each.instance.query = query
        self.given_back = 0
        self.memory, self.clock = ScriptedMemory(900, Bound("all", 900, 1000)), ManualClock()
        self.sizes = {"big": 100, "small": 150}
        self.guard = MemoryGuard("im-0", self.memory, self.clock, 1, self._give_back, lambda each: self.sizes[each.instance.query])

    def _give_back(self) -> None:
        self.given_back += 1

    def use(self, used: int) -> None:
        self.memory.told = (Bound("all", used, 1000),)

    def tick(self, ns: int = REST_NS) -> list[str]:
        """Those that fail of it."""
        before = {name for name, each in self.hosted.items() if each.instance.state == "failed"}
        self.clock.advance(ns)
        self.guard.tick(self.hosted)
        return sorted({name for name, each in self.hosted.items() if each.instance.state == "failed"} - before)


@pytest.fixture
def bench() -> Iterator[Bench]:
    with at_home() as loop:
        yield Bench(Line(loop, "l", [Pass, Pass, Pass], 1 << 20).hosted)


@pytest.fixture
def again() -> Iterator[list[InstanceHost]]:
    """Three more."""
    with at_home() as loop:
        yield Line(loop, "again", [Pass, Pass, Pass], 1 << 20).hosted


def test_the_query_that_has_most_fails_with_all_its_instances_and_says_why(bench: Bench) -> None:
    assert bench.tick() == ["a", "c"]
    cause = bench.hosted["a"].instance.cause
    assert cause.startswith("MemoryLimitExceeded: all is 90% used: 900 of 1,000 bytes; the query has most of it at im-0, 200 bytes, ")


def test_below_the_bound_nothing_is_touched(bench: Bench) -> None:
    bench.use(899)
    assert bench.tick() == [] and bench.given_back == 0


def test_what_is_free_is_given_back_first(bench: Bench) -> None:
    def give_back() -> None:
        bench.use(800)

    bench.guard._give_back = give_back
    assert bench.tick() == []


def test_the_next_waits_until_the_first_is_gone_and_for_a_while(bench: Bench) -> None:
    assert bench.tick() == ["a", "c"]
    assert bench.tick() == []  # it is here yet
    gone = [bench.hosted.pop(name) for name in ("a", "c")]
    assert len(gone) == 2 and bench.tick() == ["b"]


def test_a_query_that_has_failed_and_come_again_fails_again(bench: Bench, again: list[InstanceHost]) -> None:
    assert bench.tick() == ["a", "c"]
    bench.hosted = dict(zip("abc", again, strict=True))
    for each, query in zip(again, ("big", "small", "big"), strict=True):
        each.instance.query = query
    assert bench.tick() == ["a", "c"]


def test_what_is_over_already_is_not_the_largest(bench: Bench) -> None:
    for name in ("a", "c"):
        bench.hosted[name].instance.close(Stop())
    assert bench.tick() == ["b"]


def test_a_process_that_grows_is_looked_at_at_once(bench: Bench) -> None:
    bench.use(0)
    assert bench.tick() == []
    bench.use(900)
    assert bench.tick(1) == []
    bench.memory.resident += 16 << 20
    assert bench.tick(1) == ["a", "c"]
    bench.memory.resident += 16 << 20
    for name in ("a", "c"):
        del bench.hosted[name]
    assert bench.tick(1) == []  # it rests


def test_it_rests_after_a_failure(bench: Bench) -> None:
    assert bench.tick() == ["a", "c"]
    for name in ("a", "c"):
        del bench.hosted[name]
    assert bench.tick(REST_NS - LOOK_NS) == [] and bench.tick(LOOK_NS) == ["b"]


def test_a_query_with_little_is_left_alone(bench: Bench) -> None:
    bench.sizes = {"big": 1, "small": 19}
    assert bench.tick() == []


def test_one_that_has_grown_is_looked_at_as_often_as_others(bench: Bench) -> None:
    bench.memory.resident = 64 << 20
    assert bench.tick() == ["a", "c"]
    bench.hosted = {"b": bench.hosted["b"]}
    bench.use(0)
    assert bench.tick() == []
    bench.use(900)
    assert bench.tick(1) == [] and bench.tick(LOOK_NS) == ["b"]


def test_what_an_instance_keeps(tmp_path: Path) -> None:
    """What waits for it, of other instances and of publishers, and what it holds for its readers."""
    station = Station(tmp_path)
    first, last = (station.host("good", number, "im-0") or station.hosted["good", number] for number in (1, 2))
    [entry], [outlet] = first.entries, last.outlets
    opening = {"publisher": "p", "endpoint": station.client.endpoint, "sent_until": MIN_TIME}
    station.loop.clients.handle(Header(wire.OPEN, entry), wire.to_json(opening))
    station.loop.clients.handle(Header(wire.SUBSCRIBE, outlet), wire.to_json({"id": "s", "endpoint": station.client.endpoint}))
    before = bytes_of(first), bytes_of(last)
    [publisher], [subscription] = first.entries[entry].source.publishers.values(), last.outlets[outlet].subscriptions.values()
    [port] = last.ports.incoming.values()
    publisher.inbox.received += 1000
    port.inbox.received += 20
    subscription.held_bytes += 3
    assert (bytes_of(first), bytes_of(last)) == (before[0] + 1000, before[1] + 23)
    kept, _ = test_kept.made()
    size = test_kept.put(kept, 1)
    last.outlets[outlet].subscriptions["kept"] = kept
    assert bytes_of(last) == before[1] + 23 + size, "it waits for a commit"
    del last.outlets[outlet].subscriptions["kept"]
    station.close()


def test_what_waits_for_a_commit_or_may_be_asked_for_again_counts() -> None:
    kept, _ = test_kept.made(resumable=True, budget_bytes=1)
    sizes = [test_kept.put(kept, number) for number in range(3)]
    assert kept.kept_bytes == kept.behind_bytes == sum(sizes)
    kept.send(CheckpointBarrier(5), 0, 0, 0)
    kept.cover(5)
    assert (kept.unconfirmed_bytes, kept.held_bytes, kept.kept_bytes) == (sizes[0], sum(sizes[1:]), sum(sizes))


def test_what_a_process_may_have(bench: Bench) -> None:
    bench.memory.told = (Bound("own", 0, 700), Bound("group", 0, 2000, True))
    bench.guard.neighbours = 4
    assert bench.guard.limit_bytes() == 500
    bench.memory.told = ()
    assert bench.guard.limit_bytes() is None


# --- processes -------------------------------------------------------------------------------------------------------

KEY = "k" * 1000


def greedy(cluster: LocalCluster, groups: int) -> str:
    """Publishes until the query fails, or `groups` keys of a kilobyte are in one window; why it failed, empty: it did not."""
    running = cluster.deploy(windows("greedy", parallelism=1))
    with suppress(CepError), cluster.publisher("greedy.visits", keep_open=True) as out:
        for start in range(0, groups, 5000):
            keys = [f"{KEY}{i}" for i in range(start, start + 5000)]
            out.send(pa.table({"ip": keys, "ts": pa.array([BASE_MS] * len(keys), pa.timestamp("ms"))}))
            if running.status()["state"] == "failed":
                break
    status = running.status()
    return str(status["cause"]["cause"]) if status["cause"] else ""


def survives(cluster: LocalCluster) -> str:
    """Why the greedy query fails; another, before and after it, does not notice, and no process ends."""
    before, modest = dict(cluster.processes()), cluster.deploy(windows("modest", parallelism=1))
    found = modest.subscribe("modest.per_ip")
    why = greedy(cluster, 1_000_000)
    with cluster.publisher("modest.visits") as out:
        out.send(given := rows(1000))
    assert answers(found) == expected(given)
    assert {name: pid for name, pid in cluster.processes() if name != "gateway"} == before
    return why


def test_the_largest_query_fails_before_the_memory_of_an_instance_manager_ends() -> None:
    with LocalCluster(instances=1, memory_bytes_max=320 << 20) as cluster:
        why = survives(cluster)
        # A table that doubles is one step: it may end beyond the bound.
        assert re.match(r"MemoryLimitExceeded: what an instance manager may have \(memory_bytes_max\) is (9|1\d)\d% used: ", why), why
        said = ("the query has most of it at im-0", "most in operator 'window'", "open from the window ending at", "largest keys: ")
        assert all(each in why for each in said), why
        # What it had is given back: the same query may come again.
        cluster.query("greedy").delete()
        until(lambda: _memory(cluster) < 0.85 * (320 << 20))


def _memory(cluster: LocalCluster) -> int:
    [resident] = [int(float(line.split()[-1])) for line in cluster.metrics().splitlines() if line.startswith("cep_process_memory_bytes")]
    return resident


IN_GROUP = """
from tests.instance_manager.test_memory import LocalCluster, survives
with LocalCluster(instances=1) as cluster:
    print(survives(cluster))
"""


@pytest.fixture
def control_group() -> Iterator[Path]:
    """One of version 1 or 2 with 1,500 MiB, made by this test."""
    if Path("/sys/fs/cgroup/memory").is_dir():
        group, limit = Path("/sys/fs/cgroup/memory") / f"cep-test-{os.getpid()}", "memory.limit_in_bytes"
    else:
        group, limit = Path("/sys/fs/cgroup") / f"cep-test-{os.getpid()}", "memory.max"
    try:
        group.mkdir()
        (group / limit).write_text(str(1500 << 20))
    except OSError as error:
        pytest.skip(f"no control group may be made here: {error}")
    yield group
    until(lambda: not (group / "cgroup.procs").read_text().strip())
    group.rmdir()


@pytest.mark.long
def test_in_a_control_group_it_fails_before_the_kernel_ends_anything(control_group: Path) -> None:
    command = f"echo $$ > {control_group}/cgroup.procs && exec {sys.executable} -c '{IN_GROUP}'"
    done = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    assert f"MemoryLimitExceeded: the memory of control group {control_group} is 9" in done.stdout
