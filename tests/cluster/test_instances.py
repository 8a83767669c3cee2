"""Whole instances that move on the real cluster, while tuples flow: told to, to where they cannot be, and when an instance manager dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest
from typer.testing import CliRunner

from driver import TIME, Conflict, LocalCluster, Query, QueryError, QueryFailed, Running, Subscription, col, count, max_, stream, sum_
from driver.cli import app
from tests.cluster.test_moves import Flow, Reading, chained, check, rows_of, started, table_of
from tests.support.paths import ROOT
from tests.support.waiting import HANG_S, until


def place(running: Running, subquery: str, instance: int = 0) -> str:
    found = running.status()["placed"]
    return next(str(each["im"]) for each in found if (each["subquery"], each["instance"]) == (subquery, instance))


def another(cluster: LocalCluster, *taken: str) -> str:
    return next(str(each["id"]) for each in cluster.instance_managers() if each["id"] not in taken)


@pytest.mark.long
def test_told_to_move_again_and_again(cluster: LocalCluster) -> None:
    """To every instance manager, by turns with buckets; what it counted goes along."""
    running, reading, flow = started(cluster, "told", parallelism=2, rebalance="off")
    for version, im in enumerate(("im-2", "im-1"), 1):
        reading.more(1_000)
        for instance in (0, 1):
            if place(running, "SQ2", instance) != im:
                running.move("SQ2", instance, im)
                assert place(running, "SQ2", instance) == im
        running.rebalance([(bucket + version) % 2 for bucket in range(64)])
        assert table_of(running)["version"] == version
    assert "im-1" in running.explain() and running.status()["moved"]["refused"] == ""
    until(lambda: {each["metrics"]["im"] for each in running.status()["placed"] if each["subquery"] == "SQ2"} == {"im-1"})
    check(reading, flow)
    until(lambda: running.status()["state"] == "ended")
    operators = {each["name"]: each for each in running.status()["operators"]["SQ2"]}
    assert operators["chain"]["rows_in"] == operators["chain"]["rows_out"] == reading.count
    assert running.status()["rows"] == {"told.out": reading.count}


def redirecting(running: Running) -> bool:
    """Does the input of the instance that moves go to its new place already? Fails where the move has been given up."""
    moved = running.status()["moved"]
    assert not moved["refused"], moved
    return "where its input goes already" in moved["under_way"]


def windows(name: str) -> Query:
    source = stream(f"{name}.in", {"k": "int64", "i": "int64", "ts": "timestamp[us]"}, event_time="ts", disorder="0s")
    return (
        Query(name)
        .source(source)
        .aggregate("first", TIME("100us"), by="k", n=count(), i=max_("i"))
        .aggregate("second", TIME("1ms"), n=sum_("n"), i=max_("i"))
        .output(f"{name}.out")
        .options(rebalance="off")
    )


def test_a_chain_with_a_slow_reader(cluster: LocalCluster) -> None:
    """The last subquery holds answers that its reader has not asked for, and takes them along; then the one before it moves, too."""
    running = cluster.deploy(windows("chain"))
    early = running.subscribe("chain.out", budget_bytes=500)
    flow = Flow(cluster.publisher("chain.in"))
    until(lambda: "credit on chain.out" in str(running.status()["placed"]))
    last = {"subquery": "SQ3", "instance": 0, "im": another(cluster, place(running, "SQ3"))}
    cluster.rest.post("/queries/chain/move", last)
    until(lambda: redirecting(running))
    late = running.subscribe("chain.out")
    reading = [Rows(early), Rows(late)]
    until(lambda: not running.status()["moved"]["under_way"])
    assert place(running, "SQ3") == last["im"]
    for subquery in ("SQ2", "SQ3", "SQ2"):
        running.move(subquery, 0, another(cluster, place(running, subquery)))
    sent = flow.end()
    rows, later = (each.all() for each in reading)
    ends = [*range(1_000, sent, 1_000), sent]
    assert rows == [{"n": end - begin, "i": end - 1} for begin, end in zip([0, *ends], ends, strict=False)]
    assert later == rows[len(rows) - len(later) :]


def one(cluster: LocalCluster, name: str) -> tuple[Running, Reading]:
    """A query of one subquery."""
    running = cluster.deploy(chained(name, split="single", rebalance="off"))
    return running, Reading(running.subscribe(f"{name}.out"))


def test_publishers_follow(cluster: LocalCluster) -> None:
    """A subquery that reads a stream, there and back again, while two send."""
    running, reading = one(cluster, "followed")
    publishers = [cluster.publisher("followed.in") for _ in range(2)]
    flows = [Flow(publisher, 50, first, 2) for first, publisher in enumerate(publishers)]
    begun = place(running, "SQ1")
    for im in (another(cluster, begun), begun, another(cluster, begun), begun):
        reading.more(200)
        running.move("SQ1", 0, im)
        assert place(running, "SQ1") == im
    reading.more(200)
    check(reading, *flows)
    until(lambda: running.status()["state"] == "ended")
    reads = {each["step"]: each for each in running.status()["operators"]["SQ1"] if each["name"] == "followed.in"}
    assert reads["receive"]["rows_in"] == reads["read"]["rows_out"] == reading.count


CLIENT = """
import sys
sys.path[:0] = sys.argv[2:]
from driver import Cluster
from tests.cluster.test_moves import rows_of
Cluster(sys.argv[1]).publisher("left.in").send(rows_of(range(2, 600, 3)))
print("sent", flush=True)
sys.stdin.read()
"""


@pytest.mark.long  # as the simulation has it
def test_publishers_come_and_go_meanwhile(cluster: LocalCluster) -> None:
    """One is killed and never says that it has gone on; until that counts as closed one closes, one opens, and a third goes on."""
    running, reading = one(cluster, "left")
    going_on, closing = cluster.publisher("left.in"), cluster.publisher("left.in")
    closing.send(rows_of(range(1, 300, 3)))
    folders = [str(ROOT)]
    command = [sys.executable, "-c", CLIENT, cluster.rest.url, *folders]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as doomed:
        assert doomed.stdout is not None and doomed.stdout.readline() == b"sent\n"
        flow = Flow(going_on, 50, 0, 3)
        there = another(cluster, place(running, "SQ1"))
        doomed.send_signal(signal.SIGSTOP)
        cluster.rest.post("/queries/left/move", {"subquery": "SQ1", "instance": 0, "im": there})
        until(lambda: redirecting(running))
        closing.close()
        with cluster.publisher("left.in") as late:
            late.send(rows_of(range(10**9, 10**9 + 100)))
            doomed.kill()
            until(lambda: place(running, "SQ1") == there)
        check(reading, flow, others=[*range(1, 300, 3), *range(2, 600, 3), *range(10**9, 10**9 + 100)])


class Rows(threading.Thread):
    """Reads to the end."""

    def __init__(self, subscription: Subscription) -> None:
        super().__init__(daemon=True)
        self.subscription, self.rows = subscription, list[dict[str, Any]]()
        self.start()

    def run(self) -> None:
        for batch in self.subscription:
            self.rows += batch.to_pylist()

    def all(self) -> list[dict[str, Any]]:
        self.join(HANG_S)
        return self.rows


def test_what_cannot_move(cluster: LocalCluster) -> None:
    running, reading, flow = started(cluster, "fixed", parallelism=1, rebalance="off")
    here = place(running, "SQ2")
    there = another(cluster, here)
    with pytest.raises(QueryError, match="no subquery 'SQ7'; there is SQ1, SQ2"):
        running.move("SQ7", 0, there)
    with pytest.raises(QueryError, match="SQ2 has instances 0 to 0, got 1"):
        running.move("SQ2", 1, there)
    with pytest.raises(QueryError, match="no instance manager 'im-9'; there is im-0, im-1, im-2"):
        running.move("SQ2", 0, "im-9")
    with pytest.raises(Conflict, match=f"SQ2/0 of query 'fixed' is on '{here}' already"):
        running.move("SQ2", 0, here)
    reader = cluster.deploy(Query("reader").source("fixed.out").filter("all", col("i") >= 0).output("reader.out"))
    with pytest.raises(Conflict, match="SQ2/0 of query 'fixed' cannot move: query 'reader' reads what it puts out"):
        running.move("SQ2", 0, there)
    with pytest.raises(QueryError, match=r"SQ1/0 of query 'reader' cannot move: it reads stream 'fixed.out', which query 'fixed' puts out"):
        reader.move("SQ1", 0, another(cluster, place(reader, "SQ1")))
    reader.delete()
    said = CliRunner().invoke(app, ["move", "fixed", "SQ2/0", there, "--url", cluster.rest.url])
    assert said.output == f"fixed: SQ2/0 is on {there}\n"
    assert "such as SQ2/0, got 'SQ2'" in str(CliRunner().invoke(app, ["move", "fixed", "SQ2", there]).exception)
    check(reading, flow)
    until(lambda: running.status()["state"] == "ended")
    with pytest.raises(Conflict, match="instances move only while it is running"):
        running.move("SQ2", 0, here)


@pytest.mark.long  # as the simulation has it
def test_the_new_place_dies_before_it_can_take_it(cluster: LocalCluster) -> None:
    """The query goes on where it is; meanwhile nothing else of it moves. A later move, to an instance manager that is there, comes
    about."""
    running, reading, flow = started(cluster, "kept", parallelism=1, rebalance="off")
    here, reader = place(running, "SQ2"), place(running, "SQ1")
    there = another(cluster, here, reader)
    reading.more()
    killed = dict(cluster.processes())[there]
    os.kill(killed, signal.SIGSTOP)
    cluster.rest.post("/queries/kept/move", {"subquery": "SQ2", "instance": 0, "im": there})
    with pytest.raises(Conflict, match=f"SQ2/0 is moving from '{here}' to '{there}'; wait until it is there"):
        running.move("SQ2", 0, reader)
    assert f"SQ2/0 is moving from '{here}' to '{there}'" in running.explain()
    os.kill(killed, signal.SIGKILL)
    until(lambda: running.status()["moved"]["refused"])
    refused = running.status()["moved"]["refused"]
    assert f"stays on '{here}': instance manager '{there}' " in refused and refused.endswith(("is gone", "was started anew"))
    reading.more()
    running.move("SQ2", 0, another(cluster, here))
    check(reading, flow)


def test_the_new_place_dies_while_state_is_on_its_way(cluster: LocalCluster) -> None:
    """A reader that takes nothing keeps the old place from leaving."""
    running = cluster.deploy(chained("lost", parallelism=1, rebalance="off"))
    reading = running.subscribe("lost.out", budget_bytes=1)
    flow = Flow(cluster.publisher("lost.in"))
    there = another(cluster, place(running, "SQ2"))
    until(lambda: "credit on lost.out" in str(running.status()["placed"]))
    cluster.rest.post("/queries/lost/move", {"subquery": "SQ2", "instance": 0, "im": there})
    until(lambda: redirecting(running))
    os.kill(dict(cluster.processes())[there], signal.SIGKILL)
    until(lambda: running.status()["state"] == "failed")
    with pytest.raises(QueryFailed, match=there):
        for _ in reading:
            pass
    flow.end()
