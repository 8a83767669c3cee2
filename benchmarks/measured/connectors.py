"""`python -m benchmarks connectors`: the latency that connectors add, each way, to what a publisher and a subscription of the driver have.

Rows go through a filter of a query that recovers, a thousand a second; each says when it was made. Kafka needs Maven and a JDK.
"""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from confluent_kafka import Consumer, Producer, TopicPartition

from driver import LocalCluster, Query, col, stream
from tests.support.kafka_broker import Broker, broker

AT_ONCE, EVERY_S = 10, 0.01
FILE_EVERY_S, LOOK_S, BACK_S = 0.1, 0.002, 60.0
COMMIT_S = 0.2
WAYS = (("driver", "driver"), ("kafka", "driver"), ("files", "driver"), ("driver", "kafka"), ("driver", "files"))

Rows = list[dict[str, int]]


class Way:
    """One way in and one way out of a query of its own."""

    def __init__(self, cluster: LocalCluster, kafka: Broker, folder: Path, way: tuple[str, str]) -> None:
        self.cluster, self.kafka, (self.enters, self.leaves) = cluster, kafka, way
        self.name = "-".join(way)
        self.inside, self.outside = folder / f"{self.name}.in", folder / f"{self.name}.out"
        self.latencies: list[float] = []
        source = stream(f"{self.name}.in", at=int, n=int)
        self.query = Query(self.name).source(source).filter("all", col("n") >= 0).output(f"{self.name}.out").options(recover="at-once")
        for made in (self.inside, self.outside):
            made.mkdir()
        for each in ("in", "out"):
            kafka.make_topic(f"{self.name}.{each}")

    def measure(self, seconds: float) -> tuple[float, float]:
        """p50 and p99 in ms. The first second is none of it."""
        self.cluster.deploy(self.query)
        wanted, sent, over = round(seconds / EVERY_S) * AT_ONCE, 0, threading.Event()
        with self._reader() as take, self._writer() as send:
            reading = threading.Thread(target=self._read, args=(take, wanted, over), daemon=True)
            reading.start()
            begun = time.monotonic()
            while sent < wanted:
                now = time.time_ns()
                send([{"at": now, "n": n} for n in range(sent, sent + AT_ONCE)])
                sent += AT_ONCE
                time.sleep(max(0.0, begun + sent / AT_ONCE * EVERY_S - time.monotonic()))
            assert over.wait(BACK_S), f"{self.name}: {len(self.latencies)} of {wanted} rows have come"
        p50, p99 = np.percentile(self.latencies[round(AT_ONCE / EVERY_S) :], [50, 99])
        return float(p50), float(p99)

    def _read(self, take: Callable[[], Rows], wanted: int, over: threading.Event) -> None:
        while len(self.latencies) < wanted:
            rows, now = take(), time.time_ns()
            self.latencies += [(now - row["at"]) / 1e6 for row in rows]
        over.set()

    @contextmanager
    def _writer(self) -> Iterator[Callable[[Rows], Any]]:
        """A file has the rows of FILE_EVERY_S, each with the time at which it is renamed."""
        if self.enters == "driver":
            with self.cluster.publisher(f"{self.name}.in") as publisher:
                yield publisher.send
            return
        self._connect("from", f"{self.name}.in", self.inside)
        if self.enters == "kafka":
            producer = Producer({"bootstrap.servers": self.kafka.servers, "linger.ms": 0})

            def send(rows: Rows) -> None:
                for row in rows:
                    producer.produce(f"{self.name}.in", json.dumps(row))
                producer.poll(0)

            yield send
            producer.flush(BACK_S)
        else:
            yield self._files_of()

    def _files_of(self) -> Callable[[Rows], None]:
        waiting: Rows = []
        at_once = round(FILE_EVERY_S / EVERY_S) * AT_ONCE

        def send(rows: Rows) -> None:
            waiting.extend(rows)
            if len(waiting) == at_once:
                part = self.inside / ".part"
                now = time.time_ns()
                part.write_text("".join(json.dumps(row | {"at": now}) + "\n" for row in waiting))
                part.rename(self.inside / f"{waiting[0]['n']:09d}")
                waiting.clear()

        return send

    @contextmanager
    def _reader(self) -> Iterator[Callable[[], Rows]]:
        if self.leaves == "driver":
            with self.cluster.subscribe(f"{self.name}.out") as subscription:
                batches = iter(subscription)
                yield lambda: next(batches).to_pylist()
            return
        self._connect("to", f"{self.name}.out", self.outside)
        if self.leaves == "files":
            yield self._found_files()
            return
        config = {"bootstrap.servers": self.kafka.servers, "group.id": "seen", "isolation.level": "read_committed"}
        with closing(Consumer(config)) as consumer:
            consumer.assign([TopicPartition(f"{self.name}.out", 0, 0)])
            yield lambda: [json.loads(each.value() or b"") for each in consumer.consume(1000, LOOK_S) if each.error() is None]

    def _found_files(self) -> Callable[[], Rows]:
        seen: set[Path] = set()

        def take() -> Rows:
            new = sorted(each for each in self.outside.glob("*.jsonl") if each not in seen)
            seen.update(new)
            if not new:
                time.sleep(LOOK_S)
            return [json.loads(line) for path in new for line in path.read_bytes().splitlines()]

        return take

    def _connect(self, side: str, stream_name: str, folder: Path) -> None:
        end: dict[str, Any] = {"connector": "files", "path": str(folder)}
        if "kafka" in (self.enters, self.leaves):
            end = {"connector": "kafka", "servers": self.kafka.servers, "topic": stream_name}
        if side == "to":
            end["commit_s" if end["connector"] == "kafka" else "roll_s"] = COMMIT_S
        self.cluster.connect({"name": self.name, "stream": stream_name, side: end})
        deadline = time.monotonic() + BACK_S
        while self._state() != "running":
            assert time.monotonic() < deadline, f"{self.name} does not run"
            time.sleep(0.1)

    def _state(self) -> str:
        return next(str(each["state"]) for each in self.cluster.connectors() if each["name"] == self.name)


def command(seconds: Annotated[float, typer.Option(min=2.0, help="of each way")] = 10.0) -> None:
    """What connectors add to the latency of a row."""
    with tempfile.TemporaryDirectory() as name, broker(Path(name)) as kafka, LocalCluster(1, data=[name]) as cluster:
        print(f"in, out: latency in ms, p50 and p99, at {AT_ONCE / EVERY_S:,.0f} rows/s; sinks commit every {COMMIT_S:g} s")
        for way in WAYS:
            p50, p99 = Way(cluster, kafka, Path(name), way).measure(seconds)
            print(f"{way[0]}, {way[1]}: {p50:.1f} {p99:.1f}", flush=True)
