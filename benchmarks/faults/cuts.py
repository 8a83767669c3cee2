"""`python -m benchmarks cuts`: hosts are cut off while rows flow between all of them, and every row is counted. Needs root.

Rules:
1. A cut that a session bears (5 s of 10, 14 s of 20) is invisible: nothing is lost, nothing comes twice, the query ends as ever.
2. A longer one ends a side, and the query fails with that cause. It never looks complete.
"""

from __future__ import annotations

import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import typer

from benchmarks.faults.hosts import HostCluster, host_cluster
from benchmarks.faults.namespaces import HostNetwork, NoNamespaces, network
from cep.config import HOSTS_SESSION_TIMEOUT_S
from cep.errors import CepError, QueryFailed
from driver import TIME, Cluster, Query, col, count, stream, sum_

SESSION_S = HOSTS_SESSION_TIMEOUT_S
LONG_SESSION_S = 20.0
SHORT_S = 5.0  # what is cut for longer has the longer session
KEYS, BATCH_ROWS = 97, 10_000
BEFORE_S, AFTER_S = 3.0, 4.0
CUT = 2  # the host that is cut off
_END_S = 120.0


@dataclass
class Counted:
    """What has become of the rows of one query."""

    sent: int = 0
    total: int = 0
    counted: int = 0
    summed: int = 0
    windows: int = 0
    twice: int = 0
    latest: float = 0.0
    longest_gap_s: float = 0.0
    error: str = ""
    ended: bool = False
    seen: set[tuple[int, int]] = field(default_factory=set)

    @property
    def is_right(self) -> bool:
        return self.ended and not self.error and not self.twice and (self.counted, self.summed) == (self.sent, self.total)


def counting(name: str) -> Query:
    """Of each key and second the number of its rows and their sum, over all hosts."""
    source = stream(f"{name}.in", {"k": "int64", "n": "int64", "ts": "timestamp[us]"}, event_time="ts", disorder="0s")
    query = Query(name).source(source).map("keyed", k=col("n") % KEYS, n=col("n"), ts=col("ts"))
    return query.aggregate("per_key", TIME("1s"), by="k", rows=count(), total=sum_("n")).output(f"{name}.out")


class PacedFlow:
    """A query under a load of `rate` rows a second; publisher and reader are a thread each."""

    def __init__(self, client: Cluster, name: str, rate: int) -> None:
        self.client, self.rate, self.found = client, rate, Counted()
        self.running = client.deploy(counting(name))
        self.subscription = self.running.subscribe(f"{name}.out", event_time="start")
        self.publisher = client.publisher(f"{name}.in")
        self.enough = threading.Event()
        self.threads = [threading.Thread(target=run, daemon=True) for run in (self._publish, self._read)]
        for thread in self.threads:
            thread.start()

    def end(self) -> Counted:
        """Ends the stream, and waits for the last answer."""
        self.enough.set()
        for thread in self.threads:
            thread.join(_END_S)
        if any(thread.is_alive() for thread in self.threads):
            self.found.error = self.found.error or f"hangs: no end within {_END_S:g} s"
        return self.found

    def _publish(self) -> None:
        began, found = time.monotonic(), self.found
        try:
            while not self.enough.is_set():
                n = np.arange(found.sent, found.sent + BATCH_ROWS)
                ts = 1_700_000_000_000_000 + n * 1_000_000 // self.rate
                self.publisher.send(pa.table({"k": n, "n": n, "ts": pa.array(ts, pa.timestamp("us"))}))
                found.sent, found.total = found.sent + BATCH_ROWS, found.total + int(n.sum())
                self.enough.wait(max(0.0, began + found.sent / self.rate - time.monotonic()))
            self.publisher.close()
        except CepError as error:
            found.error = found.error or f"publisher: {type(error).__name__}: {error}"

    def _read(self) -> None:
        found = self.found
        try:
            for batch in self.subscription:
                now = time.monotonic()
                found.longest_gap_s, found.latest = max(found.longest_gap_s, now - (found.latest or now)), now
                self._count(batch)
            found.ended = True
        except CepError as error:
            found.error = f"reader: {type(error).__name__}: {error}" if not isinstance(error, QueryFailed) else str(error)

    def _count(self, batch: pa.RecordBatch) -> None:
        rows = batch.to_pydict()
        keys = set(zip(rows["k"], [int(start.timestamp()) for start in rows["start"]], strict=True))
        self.found.twice += len(keys & self.found.seen) + len(rows["k"]) - len(keys)
        self.found.seen |= keys
        self.found.counted += sum(rows["rows"])
        self.found.summed += sum(rows["total"])


def cut(cluster: HostCluster, name: str, rate: int, seconds: float, out: bool = True, into: bool = True) -> Counted:
    """One cut of h2 while rows flow."""
    with cluster.client() as client:
        flow, pause = PacedFlow(client, name, rate), threading.Event()
        pause.wait(BEFORE_S)
        cluster.net.cut(CUT, out, into)
        pause.wait(seconds)
        cluster.net.heal(CUT)
        pause.wait(AFTER_S)
        found = flow.end()
        flow.running.delete()
        return found


def command(
    seconds: Annotated[str, typer.Option(help="How long each cut is, with commas.")] = "1,5,14",
    one_way: Annotated[bool, typer.Option("--one-way", help="Each way by itself as well as both.")] = False,
    rate: Annotated[int, typer.Option(min=BATCH_ROWS, help="Rows a second.")] = 200_000,
) -> None:
    """Cuts a host off, for so long each, and counts. Leaves status 1 if a row was lost or came twice."""
    ways = {"both": (True, True), "out": (True, False), "into": (False, True)}
    chosen = ways if one_way else {"both": ways["both"]}
    spans = [float(each) for each in seconds.split(",")]
    wrong = 0
    try:
        with network("ct", 3) as net:
            for session_s in sorted({SESSION_S if span <= SHORT_S else LONG_SESSION_S for span in spans}):
                wrong += _all_cuts(net, session_s, [span for span in spans if (span > SHORT_S) == (session_s > SESSION_S)], chosen, rate)
    except NoNamespaces as error:
        raise typer.BadParameter(str(error)) from None
    raise typer.Exit(1 if wrong else 0)


def _all_cuts(net: HostNetwork, session_s: float, spans: list[float], ways: dict[str, tuple[bool, bool]], rate: int) -> int:
    """How many were not invisible."""
    wrong = 0
    with tempfile.TemporaryDirectory() as folder, host_cluster(net, Path(folder), session_s) as cluster:
        for span in spans:
            for way, (out, into) in ways.items():
                found = cut(cluster, f"cut-{way}-{span:g}".replace(".", "-"), rate, span, out, into)
                wrong += not found.is_right
                how = "right" if found.is_right else f"WRONG: {found.error or 'not equal'}"
                print(
                    f"session {session_s:g} s, cut of {span:g} s, {way}: sent {found.sent:,}, counted {found.counted:,}, sums equal "
                    f"{found.summed == found.total}, twice {found.twice}, longest silence {found.longest_gap_s:.1f} s: {how}",
                    flush=True,
                )
    return wrong
