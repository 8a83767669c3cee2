"""`python -m benchmarks fuzz --minutes 10`: messages of every kind at every door of a cluster, while another query's answers are checked.

Thrown are the messages of `benchmarks.faults.messages` at the instance managers' sockets and at the metric server's, bytes and requests at
the gateway's and at REST's. In between a query of its own is published to and read: its counts have to be exact. At the end every process
that was there is there still, under the same number, and has grown by no more than `GROWTH_BYTES`; what each has a minute is printed.
"""

from __future__ import annotations

import json
import random
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import psutil
import typer

from benchmarks.faults.memory_watch import MemoryWatch
from benchmarks.faults.messages import PUBLISHERS, Aims, messages, publisher_name
from cep.plan.channels import ChannelId, publisher_channel
from cep.transport.wire import Format
from driver import TIME, LocalCluster, Publisher, Query, Subscription, col, count, stream, sum_

GROWTH_BYTES = 96 << 20
AT_ONCE = 100
WARM_S = 20.0  # before memory is looked at first
KEYS = 3
#: The processes of a cluster, as they stand in command lines.
PARTS = ("instance_manager", "orchestrator.metrics.server", "driver.gateway", "-m orchestrator ", "QuorumPeer", "ZooKeeperServer")


def declared(name: str) -> Any:
    return stream(f"{name}.in", at="timestamp[us]", key="string", n="int64?", event_time="at", disorder="3us")


def query_of(name: str) -> Query:
    picked = Query(name).source(declared(name)).map("pick", key=col("key"), n=col("n"))
    return picked.aggregate("w", TIME("10us"), by="key", rows=count(), n=sum_("n")).output(f"{name}.out")


class Good:
    """A query that nothing is thrown at: row k is at k µs, its key one of three."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.answers: Subscription = cluster.deploy(query_of("good")).subscribe("good.out", event_time=True)
        self.publisher: Publisher = cluster.publisher("good.in")
        self.sent = self.windows = 0

    def step(self, rows: int) -> None:
        """Sends rows and waits for the answers that they bring. Raises AssertionError: they are not right."""
        numbers = range(self.sent, self.sent + rows)
        self.publisher.send([{"at": k, "key": f"k{k % KEYS}", "n": k} for k in numbers])
        self.sent += rows
        wanted = max(0, (self.sent - 4) // 10)
        found: list[tuple[int, str, int, int]] = []
        while len(found) < KEYS * (wanted - self.windows):
            batch = self.answers.next_batch(timeout=60)
            assert batch is not None, "the good query ended"
            found += [(_us(row["event_time"]), row["key"], row["rows"], row["n"]) for row in batch.to_pylist()]
        expected = [_window(end, key) for end in range(10 * self.windows + 10, 10 * wanted + 1, 10) for key in range(KEYS)]
        assert sorted(found) == expected, (sorted(found)[:5], expected[:5])
        self.windows = wanted


def _us(time_: datetime) -> int:
    return round(time_.timestamp() * 1_000_000)


def _window(end: int, key: int) -> tuple[int, str, int, int]:
    rows = [k for k in range(end - 10, end) if k % KEYS == key]
    return end - 1, f"k{key}", len(rows), sum(rows)


class FuzzedQuery:
    """A query that everything is thrown at; it is deployed anew when it has failed."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster, self.failed = cluster, -1
        self.running = self._deploy()

    def _deploy(self) -> Any:
        self.failed += 1
        return self.cluster.deploy(query_of("victim"))

    def look(self) -> None:
        if self.running.status()["state"] not in ("running", "ready"):
            self.running.delete() if hasattr(self.running, "delete") else self.cluster.rest.delete("/queries/victim")
            self.running = self._deploy()

    def aims(self, endpoint: str) -> Aims:
        epoch = self.running.status()["epoch"]
        entries = [ChannelId.entry("victim", "victim.in", reader, epoch).id for reader in range(2)]
        published = Format.published(declared("victim"))
        names = [publisher_name(number) for number in range(PUBLISHERS)]
        channels = [(publisher_channel(id_, name), published) for id_ in entries for name in names]
        inner = [ChannelId("victim", "pick>w", i, j, epoch).id for i in range(2) for j in range(2)]
        outlets = [ChannelId.outlet("victim", "victim.out", index, epoch).id for index in range(2)]
        return Aims([*channels, *[(id_, published) for id_ in inner] * 20], entries, outlets, endpoint)


def doors(cluster: LocalCluster, folder: Path) -> list[str]:
    """Paths of the sockets that take messages."""
    ours = {worker["endpoint"].removeprefix("ipc://") for worker in cluster.rest.get("/instance-managers")}
    return sorted(ours | {str(path) for path in folder.iterdir() if path.is_socket() and path.name.startswith(("im-", "metrics-in"))})


def throw(path: str, data: bytes) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection, suppress(OSError):
        connection.settimeout(5)
        connection.connect(path)
        connection.sendall(data)


def requests(choose: random.Random) -> Iterator[bytes]:
    """Requests to HTTP's doors, most of them malformed."""
    heads = (b"GET /answers?stream=good.out&reader=x", b"POST /records?stream=victim.in", b"GET /" + b"x" * 5000, b"\xff\x00" * 50)
    while True:
        body = choose.choice((b"", b"[", b"[[[[" * 1000, b'[{"at": NaN}]', b'[{"key": "\\ud800"}]', choose.randbytes(200)))
        size = choose.choice((len(body), len(body) + 5, -1, 10**12))
        head = choose.choice(heads) + b" HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\n"
        yield head + b"Content-Length: %d\r\n\r\n" % size + body


def processes() -> dict[str, int]:
    """Name and number of every process of the cluster, which are all ours."""
    found = {}
    for each in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            line = " ".join(each.cmdline())
            for name in PARTS:
                if name in line:
                    found[f"{name.strip()} {each.pid}"] = each.pid
    return found


def command(
    minutes: Annotated[float, typer.Option(min=0.05, help="how long")] = 10.0,
    seed: Annotated[int, typer.Option(help="of the messages")] = 1,
) -> None:
    """Throws broken messages at a cluster, and checks that nothing but the query that they name takes harm."""
    choose, begun, thrown = random.Random(seed), time.monotonic(), 0
    with LocalCluster(instances=2) as cluster:
        good, victims = Good(cluster), FuzzedQuery(cluster)
        good.step(100)
        cluster.rest.post("/streams/victim.in/records", [{"at": 1, "key": "k", "n": 1}])  # the gateway is there from now on
        folder = Path(next(iter(cluster.rest.get("/instance-managers")))["endpoint"].removeprefix("ipc://")).parent
        paths = doors(cluster, folder)
        http = [str(path) for path in folder.iterdir() if path.is_socket() and "gateway" in path.name]
        next_message, next_request = messages(victims.aims(f"ipc://{folder}/nobody"), seed), requests(choose)
        growth, ends_s = MemoryWatch(processes(), WARM_S), 60 * minutes
        while (passed_s := time.monotonic() - begun) < ends_s:
            for path in paths:
                found = [next_message() for _ in range(AT_ONCE)]
                for data in (*found[:10], b"".join(found[10:])):
                    throw(path, data)
                thrown += AT_ONCE
            for path in http:
                for _ in range(5):
                    throw(path, next(next_request))
                thrown += 5
            good.step(37)
            victims.look()
            growth.look(passed_s)
        growth.look(ends_s, at_once=True)
    print(
        json.dumps(
            {"thrown": thrown, "rows": good.sent, "windows": good.windows, "victim failed": victims.failed, "doors": len(paths + http)}
        )
    )
    print(*growth.lines(), sep="\n")
    if wrong := [name for name, bytes_ in growth.grown().items() if bytes_ > GROWTH_BYTES]:
        print(f"grown by more than {GROWTH_BYTES >> 20} MiB: {', '.join(wrong)}")
        raise typer.Exit(1)
