"""`python -m benchmarks kills`: parts of a cluster are killed and stopped at random while queries run and their answers are counted.

Rules:
1. Each query has a stream, a publisher and a reader of its own. A *hit* is its instance manager's death, a stop of it that is longer than
   its session, or the end of everything with the supervisor. A query that was hit fails, and says so; what it has answered until then is
   right. It is deployed anew under its name.
2. A query that was not hit never fails, and in the end has answered exactly what its rows ask for, whatever else has died meanwhile.
3. Whatever was killed is back within a minute: every process runs, every instance manager is registered, REST takes a record.
"""

from __future__ import annotations

import os
import random
import signal
import statistics
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from benchmarks.metering import stopwatch
from cep.errors import CepError
from cep.model.streams import Stream
from driver import TIME, LocalCluster, Query, Running, Subscription, col, count, first, last, stream

SESSION_S = 4.0
BACK_S = 60.0
ROWS = 50  # that are sent at once
BASE_MS, WINDOW_MS, STEP_MS, GROUPS = 1_699_999_980_000, 30_000, 10, 7
LONG_S = 1.5 * SESSION_S
SHORT_S = 0.3 * SESSION_S
DOORS = Query("doors").source(stream("doors.in", n=int)).map("pick", n=col("n")).output("doors.out")

#: What is hit, how often compared with others.
VICTIMS = {"orchestrator": 5, "zookeeper": 5, "gateway": 3, "metric-server": 3, "im": 8, "supervisor": 1}

Answers = Counter[tuple[str, int, int, int]]


def visits(name: str) -> Stream:
    return stream(f"{name}.visits", ip=str, ts="timestamp[ms]", event_time="ts", disorder="2s")


def windows(name: str, turn: int) -> Query:
    """Another document each `turn`, for what has been at work when its instance managers were killed is refused in the end."""
    query = Query(name).source(visits(name)).filter("mine", col("ip") != f"of turn {turn}")
    query = query.aggregate("window", TIME("30s"), by="ip", visits=count(), start=first("ts"), end=last("ts"))
    return query.output(f"{name}.per_ip").options(parallelism=1)


def rows(begin: int, end: int) -> list[dict[str, Any]]:
    return [{"ip": f"10.0.0.{i % GROUPS}", "ts": BASE_MS + i * STEP_MS} for i in range(begin, end)]


def expected(sent: int) -> Answers:
    """Of the first `sent` rows."""
    groups: dict[tuple[int, str], list[int]] = defaultdict(list)
    for row in rows(0, sent):
        groups[row["ts"] // WINDOW_MS, row["ip"]].append(row["ts"])
    return Counter((ip, len(times), min(times), max(times)) for (_, ip), times in groups.items())


class Flow:
    """A query, its publisher and its reader, each a thread."""

    def __init__(self, cluster: LocalCluster, name: str, turn: int) -> None:
        self.name, self.turn, self.began = name, turn, time.monotonic()
        self.running: Running = cluster.deploy(windows(name, turn))
        self.subscription: Subscription = self.running.subscribe(f"{name}.per_ip")
        self.publisher = cluster.publisher(f"{name}.visits")
        self.place = {placed["im"] for placed in self.running.status()["placed"]}
        self.sent, self.answers, self.errors = 0, Answers(), list[CepError]()
        self.enough = threading.Event()
        self.threads = [threading.Thread(target=run, daemon=True) for run in (self._publish, self._read)]
        for thread in self.threads:
            thread.start()

    def _publish(self) -> None:
        try:
            with self.publisher as out:
                while not self.enough.wait(0.02):
                    self.sent += out.send(rows(self.sent, self.sent + ROWS))
        except CepError as error:
            self.errors.append(error)

    def _read(self) -> None:
        try:
            for batch in self.subscription:
                for row in batch.to_pylist():
                    at = [int(row[name].timestamp() * 1000) if hasattr(row[name], "timestamp") else row[name] for name in ("start", "end")]
                    self.answers[row["ip"], row["visits"], at[0], at[1]] += 1
        except CepError as error:
            self.errors.append(error)

    def end(self) -> bool:
        """Ends it, and returns whether both threads have ended."""
        self.enough.set()
        for thread in self.threads:
            thread.join(BACK_S)
        return not any(thread.is_alive() for thread in self.threads)


@dataclass
class KillReport:
    """What has been done, what was seen, and what is wrong."""

    done: Counter[str] = field(default_factory=Counter)
    back_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    exact: int = 0
    failed: int = 0
    rows: int = 0
    wrong: list[str] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        yield f"{self.done.total()} kills and stops: {', '.join(f'{what} {n}' for what, n in sorted(self.done.items()))}"
        for what, taken in sorted(self.back_s.items()):
            yield f"  {what}: all is back after {statistics.median(taken):.1f} s in the middle, {max(taken):.1f} s at most"
        yield f"queries not hit: {self.exact}, all counts exact over {self.rows:,} rows; queries hit, which said so: {self.failed}"
        yield from (f"WRONG: {what}" for what in self.wrong)


class Round:
    """One cluster, until its supervisor is killed or there is no more to do."""

    def __init__(self, result: KillReport, choose: random.Random, say: Callable[[str], None], instances: int, lives: int) -> None:
        self.result, self.choose, self.say, self.lives = result, choose, say, lives
        self.cluster = LocalCluster(instances=instances, session_timeout_s=SESSION_S)
        self.instances = instances
        self.doors = self.cluster.deploy(DOORS)
        self.flows = [Flow(self.cluster, f"q{i}", 0) for i in range(instances)]
        self._is_back()  # the gateway is started by the first record

    def act(self) -> bool:
        """Kills or stops something. Does the cluster go on?"""
        kind = self.choose.choices(list(VICTIMS), list(VICTIMS.values()))[0]
        name = f"im-{self.choose.randrange(self.instances)}" if kind == "im" else kind
        how = self.choose.choice(("kill", "kill", "kill", "stop shortly", "stop shortly", "stop for long"))
        self.result.done[f"{kind}: {how}"] += 1
        began = time.monotonic()
        if name == "supervisor":
            return self._at_supervisor(how)
        pid = dict(self.cluster.processes())[name]
        self.say(f"{how} {name} ({pid})")
        if how == "kill":
            os.kill(pid, signal.SIGKILL)
        else:
            _stop(pid, how)
        self._renew({name} if name.startswith("im-") and how != "stop shortly" else set())
        self._wait_until_back(f"{kind}: {how}", name, pid if how == "kill" else 0, began)
        return True

    def end(self) -> None:
        for flow in self.flows:
            self._check(flow)
        self.cluster.close()

    def _at_supervisor(self, how: str) -> bool:
        pid = self.cluster.supervisor.pid
        self.say(f"{how} supervisor ({pid})")
        if how != "kill":
            _stop(pid, how)
            self._renew(set())
            return True
        self.cluster.supervisor.kill()
        self.cluster.supervisor.wait()
        for flow in self.flows:
            self._check_hit(flow)
        self.cluster.close()
        return False

    def _renew(self, hit: set[str]) -> None:
        """Those that were hit, and those that have lived for long enough, are looked at and begun anew."""
        for i, flow in enumerate(self.flows):
            flow.turn += 1
            if flow.place & hit:
                self._check_hit(flow)
            elif flow.turn % self.lives == 0:
                self._check(flow)
            else:
                continue
            flow.running.delete()
            wait_for(lambda: len(self.cluster.instance_managers()) == self.instances)
            self.flows[i] = Flow(self.cluster, flow.name, flow.turn)

    def _check(self, flow: Flow) -> None:
        """It was not hit: all its answers are there, and no others."""
        if not flow.end():
            self._wrong(flow, f"hangs; {flow.errors}")
        elif flow.errors:
            self._wrong(flow, f"was not hit and failed: {flow.errors[0]}")
        elif flow.answers != expected(flow.sent):
            given, wanted = flow.answers, expected(flow.sent)
            self._wrong(
                flow, f"of {wanted.total()} answers {(wanted - given).total()} are missing and {(given - wanted).total()} are others"
            )
        else:
            self.result.exact += 1
            self.result.rows += flow.sent

    def _check_hit(self, flow: Flow) -> None:
        """It failed, and what it had answered is right."""
        flow.threads[1].join(BACK_S)
        possible = expected(flow.sent + ROWS)  # of a send that was cut off, some may have been taken
        if not flow.end():
            self._wrong(flow, "was hit, and its reader or publisher hangs")
        elif not any(isinstance(error, CepError) for error in flow.errors):
            self._wrong(flow, "was hit and looks complete")
        elif not flow.answers.keys() <= possible.keys():
            self._wrong(flow, "was hit, and had given wrong answers before")
        else:
            self.result.failed += 1

    def _wrong(self, flow: Flow, what: str) -> None:
        self.result.wrong.append(f"query {flow.name!r} (on {sorted(flow.place)}) {what}")
        self.say(self.result.wrong[-1])

    def _wait_until_back(self, what: str, name: str, killed: int, began: float) -> None:
        def is_back() -> bool:
            return dict(self.cluster.processes()).get(name, killed) != killed and self._is_back()

        if not wait_for(is_back):
            self.result.wrong.append(f"{name} or what it is needed for is not back after {BACK_S:g} s: {what}")
        self.result.back_s[what].append(time.monotonic() - began)

    def _is_back(self) -> bool:
        try:
            self.cluster.rest.post("/streams/doors.in/records", [{"n": 1}])
            health = self.cluster.rest.get("/health", timeout=5.0)
            return bool(health["instance_managers"] == self.instances and self.cluster.rest.text("/metrics"))
        except CepError:
            return False


def _stop(pid: int, how: str) -> None:
    os.kill(pid, signal.SIGSTOP)
    time.sleep(SHORT_S if how == "stop shortly" else LONG_S)
    os.kill(pid, signal.SIGCONT)


def wait_for(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + BACK_S
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


def run(kills: int, seed: int, instances: int, lives: int, say: Callable[[str], None]) -> KillReport:
    """Does `kills` of them."""
    choose, result = random.Random(seed), KillReport()
    while result.done.total() < kills and not result.wrong:
        round_ = Round(result, choose, say, instances, lives)
        while result.done.total() < kills and not result.wrong:
            if not round_.act():
                break
        else:
            round_.end()
    return result


def command(
    kills: Annotated[int, typer.Option(min=1, help="How many.")] = 200,
    seed: Annotated[int, typer.Option(help="The same one chooses the same.")] = 7,
    instances: Annotated[int, typer.Option(min=1, help="Instance managers; there are as many queries.")] = 3,
    lives: Annotated[int, typer.Option(min=1, help="A query that is not hit is counted, and begun anew, after so many.")] = 15,
) -> None:
    """Kills and stops parts of a cluster at random while queries run. Leaves status 1 if an answer is missing or something not back."""
    say = stopwatch()
    result = run(kills, seed, instances, lives, say)
    print("\n".join(result.lines()))
    if result.wrong:
        raise typer.Exit(1)
