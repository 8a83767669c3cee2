"""`python -m benchmarks connector-kills`: Kafka, a query that recovers, Kafka in transactions, while whatever takes part is killed.

Rows are counted by windows of 100 ms and 7 keys, and each answer is in the topic once, with the rows of its window, or it is said how many
were lost and how many came twice. Needs Maven and a JDK, which bring the broker; clients of it by `pip install 'numa-cep[kafka]'`.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import psutil
import pyarrow as pa
import typer
from confluent_kafka import Consumer, Producer, TopicPartition

from connectors.formats.json_values import JsonFormat
from driver import TIME, LocalCluster, Query, Running, count, stream, sum_, window_start
from tests.support.kafka_broker import Broker, broker

WINDOW_MS, KEYS, PARTITIONS, ROUND_ROWS = 100, 7, 2, 100_000
BACK_S, FROZEN_S, LOOK_S = 180.0, 13.0, 0.1  # frozen for longer than a process may be silent before another takes its place
VICTIMS = ("broker", "connectors", "orchestrator", "instance manager", "connectors, frozen")
ANSWERS = pa.schema([("start", pa.timestamp("us", "UTC")), ("key", pa.int64()), ("visits", pa.int64()), ("total", pa.int64())])


@dataclass
class RowsKept:
    """What was done, and what of the rows is in the topic."""

    rows: int = 0
    answers: int = 0
    done: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    twice: int = 0
    others: int = 0  # answers whose sum is another
    seconds: float = 0.0

    def compare(self, found: np.ndarray) -> None:
        """`found`: window, key, visits and total of each answer."""
        numbers = np.arange(self.rows)
        of = numbers // WINDOW_MS * KEYS + numbers % KEYS
        size = int(of.max()) + 1
        ids = found[:, 0] * KEYS + found[:, 1]
        inside = found[ids < size]
        ids = ids[ids < size]
        wanted, there = np.bincount(of, minlength=size), np.bincount(ids, inside[:, 2], size)
        self.answers = len(ids)
        self.lost = int(np.maximum(wanted - there, 0).sum())
        self.twice = int(np.maximum(there - wanted, 0).sum())
        self.others = int((np.bincount(ids, inside[:, 3], size) != np.bincount(of, numbers, size)).sum())

    def lines(self) -> Iterator[str]:
        yield f"{self.done.total()} faults: {', '.join(f'{what} {n}' for what, n in sorted(self.done.items()))}"
        yield f"{self.rows:,} rows, {self.answers:,} answers, {self.seconds:.0f} s"
        yield f"lost {self.lost}, twice {self.twice}, wrong sums {self.others}"


def query() -> Query:
    source = stream("kills.in", t="timestamp[ms]", key=int, n=int, event_time="t", disorder="1s")
    made = Query("kills").source(source).aggregate("w", TIME("100ms"), by="key", start=window_start(), visits=count(), total=sum_("n"))
    return made.output("kills.out").options(recover="on-commit", checkpoint="500ms", parallelism=2)


class KillRun:
    """A broker, a cluster, and beside the cluster's own process for connectors another one, that takes over from one that is silent."""

    def __init__(self, kafka: Broker, cluster: LocalCluster, seed: int, say: Callable[[str], None]) -> None:
        self.kafka, self.cluster, self.say = kafka, cluster, say
        self.chance, self.report = random.Random(seed), RowsKept()
        self.second: subprocess.Popen[bytes] | None = None
        ends = {"connector": "kafka", "servers": kafka.servers}
        kafka.make_topic("in", PARTITIONS)
        kafka.make_topic("out", 3)
        cluster.connect({"name": "out", "stream": "kills.out", "to": ends | {"topic": "out", "key": "key"}})
        _until(lambda: self._state("out")["error"] == "no query puts the stream out")
        self.running: Running = cluster.deploy(query())
        cluster.connect({"name": "in", "stream": "kills.in", "from": ends | {"topic": "in"}})
        self.producer = Producer({"bootstrap.servers": kafka.servers, "linger.ms": 20, "queue.buffering.max.messages": 2 * ROUND_ROWS})

    def go(self, rows: int) -> RowsKept:
        begun = time.monotonic()
        self._ensure_second()
        while self.report.rows < rows:
            self._produce(ROUND_ROWS // 2)
            victim = VICTIMS[self.report.rows // ROUND_ROWS % len(VICTIMS)]
            self._hit(victim)
            self._goes_on()
            self.say(f"{self.report.rows:,} rows; {victim}")
        for partition in range(PARTITIONS):
            self.producer.produce("in", _record(self.report.rows + 1_000_000), partition=partition)
        self.producer.flush(BACK_S)
        answers = -(-self.report.rows // WINDOW_MS) * KEYS
        _until(lambda: _end_of(self.kafka) >= answers)
        _until(lambda: len(self._found()) >= answers)
        self.report.seconds = time.monotonic() - begun
        self.report.compare(self._found())
        return self.report

    def close(self) -> None:
        if self.second is not None:
            self.second.kill()
            self.second.wait()

    def _produce(self, rows: int) -> None:
        for i in range(self.report.rows, self.report.rows + rows):
            self.producer.produce("in", _record(i), partition=i % PARTITIONS)
        self.producer.poll(0)
        self.report.rows += rows

    def _hit(self, victim: str) -> None:
        """In the middle of its work."""
        time.sleep(self.chance.uniform(0.2, 1.5))
        if victim == "broker":
            self.kafka.kill()
            self.kafka.start()
        elif victim == "connectors":
            os.kill(self._pid_of_connectors(), signal.SIGKILL)
        elif victim == "connectors, frozen":
            pid = self._pid_of_connectors()
            os.kill(pid, signal.SIGSTOP)
            time.sleep(FROZEN_S)
            os.kill(pid, signal.SIGCONT)
        else:
            placed: list[dict[str, Any]] = self.running.status()["placed"]
            name = victim if victim == "orchestrator" else self.chance.choice(placed)["im"]
            os.kill(dict(self.cluster.processes())[name], signal.SIGKILL)
        self.report.done[victim] += 1

    def _goes_on(self) -> None:
        """More rows come, and answers to them."""
        seen = _end_of(self.kafka)
        self._produce(ROUND_ROWS // 2)
        assert self.producer.flush(BACK_S) == 0
        _until(lambda: _end_of(self.kafka) > seen)
        self._ensure_second()

    def _pid_of_connectors(self) -> int:
        """Of the process that has the sink."""
        is_second = self._state("out")["place"].startswith("second:")
        assert self.second is not None
        return self.second.pid if is_second else dict(self.cluster.processes())["connectors"]

    def _ensure_second(self) -> None:
        if self.second is None or self.second.poll() is not None:
            first = psutil.Process(dict(self.cluster.processes())["connectors"])
            words = first.cmdline()
            at = next(at for at, word in enumerate(words) if word.startswith("{"))
            config = json.loads(words[at]) | {"host": "second"}
            self.second = subprocess.Popen(
                [*words[:at], json.dumps(config)], env=first.environ(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )

    def _state(self, name: str) -> dict[str, Any]:
        return next(each for each in self.cluster.connectors() if each["name"] == name)

    def _found(self) -> np.ndarray:
        columns: list[np.ndarray] = []
        for first, rows in JsonFormat().decode(_values(self.kafka), ANSWERS).runs:
            assert not first or columns
            instants = rows.column("start").cast(pa.int64()).to_numpy() // (1000 * WINDOW_MS)
            columns.append(np.column_stack([instants, *(rows.column(name).to_numpy() for name in ("key", "visits", "total"))]))
        return np.concatenate(columns) if columns else np.empty((0, 4), np.int64)


def _record(i: int) -> bytes:
    return b'{"t":%d,"key":%d,"n":%d}' % (i, i % KEYS, i)


def _consumer(kafka: Broker) -> Consumer:
    return Consumer(
        {"bootstrap.servers": kafka.servers, "group.id": "seen", "isolation.level": "read_committed", "enable.partition.eof": True}
    )


def _end_of(kafka: Broker) -> int:
    """How far the topic of answers is, transactions' own records among them."""
    with closing(_consumer(kafka)) as consumer:
        return sum(consumer.get_watermark_offsets(TopicPartition("out", partition), 10)[1] for partition in range(3))


def _values(kafka: Broker) -> list[bytes]:
    """All that is committed there."""
    values: list[bytes] = []
    with closing(_consumer(kafka)) as consumer:
        consumer.assign([TopicPartition("out", partition, 0) for partition in range(3)])
        ended = 0
        while ended < 3:
            for message in consumer.consume(10_000, 1.0):
                ended += message.error() is not None
                if message.error() is None:
                    values.append(message.value() or b"")
    return values


def _until(condition: Callable[[], Any]) -> None:
    """Raises AssertionError: it does not come true."""
    deadline = time.monotonic() + BACK_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {BACK_S:g} s"
        time.sleep(LOOK_S)


def run(rows: int, seed: int, say: Callable[[str], None]) -> RowsKept:
    with tempfile.TemporaryDirectory() as folder, broker(Path(folder)) as kafka, LocalCluster(2) as cluster:
        killing = KillRun(kafka, cluster, seed, say)
        try:
            return killing.go(rows)
        finally:
            killing.close()


def command(
    rows: Annotated[int, typer.Option(min=ROUND_ROWS, help="how many, all in all")] = 1_000_000,
    seed: Annotated[int, typer.Option(help="of when it happens")] = 1,
) -> None:
    """Kills what takes part in Kafka, query, Kafka, and says what was lost and what came twice. Leaves status 1 if anything was."""
    report = run(rows, seed, lambda line: print(line, file=sys.stderr, flush=True))
    for line in report.lines():
        print(line)
    if report.lost or report.twice or report.others:
        raise typer.Exit(1)
