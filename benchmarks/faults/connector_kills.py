"""`python -m benchmarks connector-kills`: Kafka, a query that recovers, Kafka in transactions, while what takes part is killed, or frozen.

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
from collections.abc import Callable, Iterator, Sequence
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

WINDOW_MS, KEYS, PARTITIONS, OUT_PARTITIONS, DISORDER_MS = 100, 7, 2, 3, 1000
BACK_S, END_S, LOOK_S = 180.0, 5.0, 0.1
CHUNK = 1_000_000
PARTS = ("broker", "connectors", "orchestrator", "instance manager")
FROZEN_S = {", frozen": 13.0, ", frozen shortly": 3.0}
"""For longer, and for less long, than a process may be silent before its session ends (6 s), or another takes its place (5 s)."""

VICTIMS = (*PARTS, *(part + how for how in FROZEN_S for part in ("connectors", "instance manager")))
ANSWERS = pa.schema([("start", pa.timestamp("us", "UTC")), ("key", pa.int64()), ("visits", pa.int64()), ("total", pa.int64())])


class Tally:
    """What is in the topic of answers, added up by window and key: as large as there are windows, however many rows there are."""

    def __init__(self) -> None:
        self.answers = 0
        self.visits, self.totals = np.zeros(0, np.int64), np.zeros(0, np.int64)

    def add(self, found: np.ndarray) -> None:
        """`found`: window, key, visits and total of each answer."""
        ids = found[:, 0] * KEYS + found[:, 1]
        self.grow(int(ids.max(initial=-1)) + 1)
        np.add.at(self.visits, ids, found[:, 2])
        np.add.at(self.totals, ids, found[:, 3])
        self.answers += len(ids)

    def grow(self, size: int) -> None:
        """There is room for so many windows and keys."""
        if size > len(self.visits):
            more = np.zeros(max(size, 2 * len(self.visits)) - len(self.visits), np.int64)
            self.visits, self.totals = np.concatenate([self.visits, more]), np.concatenate([self.totals, more])


def wanted(rows: int) -> Tally:
    """What rows 0, 1, … have to become."""
    tally = Tally()
    for first in range(0, rows, CHUNK):
        numbers = np.arange(first, min(first + CHUNK, rows))
        ids = numbers // WINDOW_MS * KEYS + numbers % KEYS
        at, where, visits = np.unique(ids, return_inverse=True, return_counts=True)
        totals = np.zeros(len(at), np.int64)
        np.add.at(totals, where, numbers)
        tally.add(np.column_stack([at // KEYS, at % KEYS, visits, totals]))
    return tally


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

    def compare(self, found: Tally) -> None:
        right = wanted(self.rows)
        size = -(-self.rows // WINDOW_MS) * KEYS
        right.grow(size)
        found.grow(size)
        missing = right.visits[:size] - found.visits[:size]
        self.answers = found.answers
        self.lost, self.twice = int(np.maximum(missing, 0).sum()), int(np.maximum(-missing, 0).sum())
        self.others = int((right.totals[:size] != found.totals[:size]).sum())

    def lines(self) -> Iterator[str]:
        yield f"{self.done.total()} faults: {', '.join(f'{what} {n}' for what, n in sorted(self.done.items()))}"
        yield f"{self.rows:,} rows, {self.answers:,} answers, {self.seconds:.0f} s, {self.rows / max(self.seconds, 1e-9):,.0f} rows/s"
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
        kafka.make_topic("out", OUT_PARTITIONS)
        cluster.connect({"name": "out", "stream": "kills.out", "to": ends | {"topic": "out", "key": "key"}})
        _until(lambda: self._state("out")["error"] == "no query puts the stream out")
        self.running: Running = cluster.deploy(query())
        cluster.connect({"name": "in", "stream": "kills.in", "from": ends | {"topic": "in"}})
        self.producer = Producer({"bootstrap.servers": kafka.servers, "linger.ms": 20, "enable.idempotence": True, "log_level": 0})
        self.answers = AnswersReader(kafka)

    def go(self, rows: int, faults: int, kinds: Sequence[str]) -> RowsKept:
        begun = time.monotonic()
        self._ensure_second()
        for number in range(faults):
            before, behind = (rows * (2 * number + half) // (2 * faults) for half in (1, 2))
            self._produce(before)
            victim = kinds[number % len(kinds)]
            self._hit(victim)
            self._produce(behind)
            self._goes_on(before - DISORDER_MS)
            self.say(f"{behind:,} rows, {self.answers.tally.answers:,} answers, {time.monotonic() - begun:.0f} s; {victim}")
        for partition in range(PARTITIONS):
            self.producer.produce("in", _record(rows + CHUNK), partition=partition)
        self._goes_on(rows)
        self.report.seconds = time.monotonic() - begun
        self.answers.take(END_S)  # what should not be there
        self.report.compare(self.answers.tally)
        return self.report

    def close(self) -> None:
        self.answers.consumer.close()
        if self.second is not None:
            self.second.kill()
            self.second.wait()

    def _produce(self, behind: int) -> None:
        """Rows up to that number."""
        for i in range(self.report.rows, behind):
            while True:
                try:
                    self.producer.produce("in", _record(i), partition=i % PARTITIONS)
                    break
                except BufferError:
                    self.producer.poll(LOOK_S)
        self.producer.poll(0)
        self.report.rows = behind

    def _goes_on(self, rows: int) -> None:
        """All answers to so many rows come."""
        assert self.producer.flush(BACK_S) == 0
        self.answers.until(rows // WINDOW_MS * KEYS)
        self._ensure_second()

    def _hit(self, victim: str) -> None:
        """In the middle of its work."""
        time.sleep(self.chance.uniform(0.2, 1.5))
        part, frozen, how = victim.partition(",")
        if part == "broker":
            self.kafka.kill()
            self.kafka.start()
        elif frozen:
            pid = self._pid_of(part)
            os.kill(pid, signal.SIGSTOP)
            time.sleep(FROZEN_S[frozen + how])
            os.kill(pid, signal.SIGCONT)
        else:
            os.kill(self._pid_of(part), signal.SIGKILL)
        self.report.done[victim] += 1

    def _pid_of(self, part: str) -> int:
        if part == "connectors":
            return self._pid_of_connectors()
        placed: list[dict[str, Any]] = self.running.status()["placed"]
        name = part if part == "orchestrator" else self.chance.choice(placed)["im"]
        return dict(self.cluster.processes())[name]

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


class AnswersReader:
    """Of the topic of answers, what is committed, as it comes."""

    def __init__(self, kafka: Broker) -> None:
        self.tally = Tally()
        self.consumer = Consumer(
            {"bootstrap.servers": kafka.servers, "group.id": "seen", "isolation.level": "read_committed", "log_level": 0}
        )
        self.consumer.assign([TopicPartition("out", partition, 0) for partition in range(OUT_PARTITIONS)])

    def until(self, answers: int) -> None:
        """Raises AssertionError: no more come, and there are not so many."""
        while self.tally.answers < answers:
            assert self.take(BACK_S), f"{self.tally.answers} of {answers} answers are there, and no more within {BACK_S:g} s"

    def take(self, wait_s: float) -> bool:
        """The next ones. False: none came within that time."""
        deadline = time.monotonic() + wait_s
        while time.monotonic() < deadline:
            values = [each.value() or b"" for each in self.consumer.consume(10_000, LOOK_S) if each.error() is None]
            if values:
                self._add(values)
                return True
        return False

    def _add(self, values: list[bytes]) -> None:
        decoded = JsonFormat().decode(values, ANSWERS)
        assert sum(rows.num_rows for _, rows in decoded.runs) == len(values)
        for _, rows in decoded.runs:
            instants = rows.column("start").cast(pa.int64()).to_numpy() // (1000 * WINDOW_MS)
            self.tally.add(np.column_stack([instants, *(rows.column(name).to_numpy() for name in ("key", "visits", "total"))]))


def _record(i: int) -> bytes:
    return b'{"t":%d,"key":%d,"n":%d}' % (i, i % KEYS, i)


def _until(condition: Callable[[], Any]) -> None:
    """Raises AssertionError: it does not come true."""
    deadline = time.monotonic() + BACK_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {BACK_S:g} s"
        time.sleep(LOOK_S)


def run(rows: int, faults: int, seed: int, say: Callable[[str], None], kinds: Sequence[str] = VICTIMS) -> RowsKept:
    with tempfile.TemporaryDirectory() as folder, broker(Path(folder)) as kafka, LocalCluster(2) as cluster:
        killing = KillRun(kafka, cluster, seed, say)
        try:
            return killing.go(rows, faults, kinds)
        finally:
            killing.close()


def command(
    rows: Annotated[int, typer.Option(min=10_000, help="how many, all in all")] = 1_000_000,
    faults: Annotated[int, typer.Option(min=1, help="how many, one of each kind in turn")] = 10,
    seed: Annotated[int, typer.Option(help="of when it happens")] = 1,
    kind: Annotated[list[str] | None, typer.Option(help=f"of faults: {', '.join(VICTIMS)}; none said: all")] = None,
) -> None:
    """Kills and freezes what takes part in Kafka, query, Kafka; says what was lost and came twice. Leaves status 1 if anything was."""
    if unknown := set(kind or ()) - set(VICTIMS):
        raise typer.BadParameter(f"{', '.join(sorted(unknown))}: expected {', '.join(VICTIMS)}")
    report = run(rows, faults, seed, lambda line: print(line, file=sys.stderr, flush=True), kind or VICTIMS)
    for line in report.lines():
        print(line)
    if report.lost or report.twice or report.others:
        raise typer.Exit(1)
