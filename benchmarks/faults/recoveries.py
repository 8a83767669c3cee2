"""`python -m benchmarks faults`: processes of a cluster are killed while a query that recovers is at work, and its rows are counted.

Rules:
1. A round is a query over the same rows, which ends when they are through: of files, or (`--published`) of programs that publish them.
   Meanwhile processes of all kinds are killed, those programs too, one after the other, at moments drawn from the seed: most of them after
   the query goes on again, some while it recovers. A program that was killed comes again, and goes on from what was accepted.
2. What a subscriber got and what stands in the finished files are each, row for row, what the rows ask for, counted apart with numpy:
   none lost, none twice. So are the counts of late rows and of dead letters: some rows are far behind, some are nonsense.
3. A recovery lasts from the kill of an instance manager that the query was on until its subscriber has the first row of the next attempt,
   where nothing else is under way.
4. Now and then the query is scaled, an instance of it is moved, or an instance manager freezes, and processes are killed while that is
   under way (`changes.py`). Rounds tell their answers on commit and at once, in turn.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import typer

from benchmarks.faults.changes import Changes, Freezes
from benchmarks.faults.counted_query import Rows, expected, query, read_files, rows_of, write_files
from benchmarks.faults.kills import BACK_S
from benchmarks.faults.programs import Programs, declared, is_bad, is_late
from benchmarks.metering import stopwatch
from cep.errors import CepError, PlacementError
from driver import LocalCluster, Query, Running

HANGS_S = 120.0
SOON_S = 0.05  # after which the next kill may come while the query recovers
LATER_S = 1.0
AGAIN_S = 0.05
GRACE_S = 60.0  # in which a program that was killed has come again, however busy the machine is: later its rows would be late
DEATHS_MAX = 3  # that a query may be blamed for without a checkpoint in between
AT_ONCE = 0.2  # of the kills, which do not wait for the query
CHANGE, FREEZE = 0.15, 0.08  # how often, by kill
SESSION_S = 6.0
RECOVER = "on-commit", "at-once"

#: What is killed, how often compared with others.
VICTIMS = {"im": 10, "orchestrator": 2, "zookeeper": 2, "gateway": 1, "metric-server": 1, "loader-0": 1}
PROGRAM = "program"


@dataclass
class RecoveryReport:
    """What has been done, what was seen, and what is wrong."""

    done: Counter[str] = field(default_factory=Counter)
    besides: Counter[str] = field(default_factory=Counter)
    during: Counter[str] = field(default_factory=Counter)  # kills while something else was under way
    recovered_s: list[float] = field(default_factory=list)
    rounds: int = 0
    rows: int = 0
    lost: int = 0
    twice: int = 0
    counts: int = 0
    wrong: list[str] = field(default_factory=list)

    def compare(self, what: str, found: Rows, wanted: Rows) -> None:
        """What of the rows is missing, and what is there once too often or is another."""
        self.rows += len(found)
        if np.array_equal(found, wanted):
            return
        there, want = Counter(found.tolist()), Counter(wanted.tolist())
        lost, twice = (want - there).total(), (there - want).total()
        self.lost, self.twice = self.lost + lost, self.twice + twice
        self.wrong.append(f"{what}: of {want.total():,} rows {lost:,} are missing, {twice:,} came twice or are others")

    def lines(self) -> Iterator[str]:
        yield f"{self.done.total()} kills: {', '.join(f'{what} {n}' for what, n in sorted(self.done.items()))}"
        if self.besides:
            yield f"besides: {', '.join(f'{what} {n}' for what, n in sorted(self.besides.items()))}"
            yield f"kills meanwhile: {', '.join(f'{what} {n}' for what, n in sorted(self.during.items()))}"
        yield f"{self.rounds} rounds, {self.rows:,} rows compared: lost {self.lost}, twice {self.twice}"
        yield f"{self.counts:,} late rows and dead letters, counted exactly in each round but for what is said below"
        if self.recovered_s:
            p50, p95, worst = np.percentile(self.recovered_s, [50, 95, 100])
            yield f"{len(self.recovered_s)} recoveries, from kill to first row: p50 {p50:.2f} s, p95 {p95:.2f} s, worst {worst:.2f} s"
        yield from (f"WRONG: {what}" for what in self.wrong)


class AnswerReader:
    """Takes what the query puts out, in a thread, and notes when."""

    def __init__(self, running: Running, stream: str) -> None:
        self.subscription = running.subscribe(stream)
        self.batches: list[pa.RecordBatch] = []
        self.arrived: list[float] = []
        self.error: CepError | None = None
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        try:
            for batch in self.subscription:
                self.batches.append(batch)
                self.arrived.append(time.monotonic())
        except CepError as error:
            self.error = error

    @property
    def ended(self) -> bool:
        return not self.thread.is_alive()

    def first_after(self, moment: float) -> float | None:
        return next((at for at in self.arrived if at > moment), None)


class RecoveryRound:
    """One query from its start to its end, while processes are killed."""

    def __init__(self, faults: KillRounds, number: int, folder: Path) -> None:
        self.faults, self.cluster, self.result, self.choose = faults, faults.cluster, faults.result, faults.choose
        self.name, self.folder = f"round{number}", folder
        self.committed, self.since_commit = list[int](), 0
        read = declared(f"{self.name}.in") if faults.published else read_files(self.name, faults.paths)
        recover = RECOVER[number % len(RECOVER)]
        self.running = self._deployed(query(self.name, read, folder, faults.checkpoint, recover))
        self.reader = AnswerReader(self.running, f"{self.name}.out")
        self.running.start()
        self.programs = Programs(self.cluster.rest.url, f"{self.name}.in", faults.rows, faults.rate if faults.published else 0)
        self.changes = Changes(self.running, self.choose, self.result.besides, self.result.wrong)
        self.freezes = Freezes(self.choose, SESSION_S)

    def run(self, kills: int) -> None:
        while not self.reader.ended and self.result.done.total() < kills:
            self._pause(self.choose.random() * (SOON_S if self.choose.random() < AT_ONCE else LATER_S))
            if self.reader.ended:
                break
            if (chance := self.choose.random()) < CHANGE:
                self._change()
            elif chance < CHANGE + FREEZE:
                self._freeze()
            else:
                self._kill()
        self._pause(HANGS_S + (self.faults.rows / self.faults.rate if self.faults.published else 0.0))  # what is left has to be sent yet
        self.changes.end(HANGS_S)
        self.freezes.end()
        self._check()
        self.programs.close()

    def _deployed(self, asked: Query) -> Running:
        """All instance managers may have been hit just now, and one that dies again and again is started again after a pause."""
        end = time.monotonic() + BACK_S
        while True:
            try:
                return self.cluster.deploy(asked, start=False)
            except PlacementError:
                if time.monotonic() > end:
                    raise
                time.sleep(AGAIN_S)

    def _pause(self, seconds: float) -> None:
        """Meanwhile programs that were killed are started again."""
        end = time.monotonic() + seconds
        while not self.reader.ended and (left := end - time.monotonic()) > 0:
            self.programs.keep_up()
            self.reader.thread.join(min(left, AGAIN_S))

    def _change(self) -> None:
        """Once it runs, mostly: what is asked for while it recovers is refused."""
        began, waits = time.monotonic(), self.choose.random() > AT_ONCE
        while (status := self._status())["state"] != "running" and waits and not self.reader.ended and time.monotonic() - began < HANGS_S:
            self._pause(0.02)
        if said := self.changes.begin(status["placed"], self.faults.instances):
            self.faults.say(f"{self.name}: {said}")

    def _freeze(self) -> None:
        name = f"im-{self.choose.randrange(self.faults.instances)}"
        self._await_commit()  # one that was frozen for longer than a session is as good as dead
        pid = dict(self.cluster.processes()).get(name)
        if pid is not None and (how := self.freezes.begin(pid)) is not None:
            self.result.besides[how] += 1
            self.faults.say(f"{self.name}: {name} ({pid}): {how}")

    def _kill(self) -> None:
        victims = VICTIMS | ({PROGRAM: 8} if self.faults.published else {})
        kind = self.choose.choices(list(victims), list(victims.values()))[0]
        name = f"im-{self.choose.randrange(self.faults.instances)}" if kind == "im" else kind
        if kind == "im":
            self._await_commit()
        pid = self.programs.victim(self.choose) if kind == PROGRAM else dict(self.cluster.processes()).get(name)
        if pid is None:
            return  # it is down already, or was not started yet
        before, is_hit, began = self._attempts(), self._is_on(name), time.monotonic()
        meanwhile = [what for what, each in (("change", self.changes), ("freeze", self.freezes)) if each.under_way]
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        self.faults.say(f"{self.name}: {name} ({pid})")
        self.result.done[kind] += 1
        self.result.during.update(meanwhile)
        if is_hit and not meanwhile:
            self._note_recovery(before, began)

    def _note_recovery(self, before: int, began: float) -> None:
        """Until the first row of the next attempt has come, if there is one: the query may have ended meanwhile."""
        at_once = self.choose.random() < AT_ONCE
        while time.monotonic() - began < HANGS_S and not self.reader.ended:
            if (attempts := self._attempts()) > before:
                seen = time.monotonic()
                while not at_once and not self.reader.ended and time.monotonic() - began < HANGS_S:
                    if (arrived := self.reader.first_after(seen)) is not None:
                        if attempts == self._attempts():  # no other one has come between
                            self.result.recovered_s.append(arrived - began)
                        return
                    self._pause(0.005)
                return
            self._pause(0.005)

    def _await_commit(self) -> None:
        """A third death in a row that it may be blamed for, without a checkpoint in between, would fail the query for good."""
        while (last := self._last_commit()) == self.committed and self.since_commit == DEATHS_MAX - 1 and not self.reader.ended:
            self._pause(0.02)
        self.since_commit = 1 if last != self.committed else self.since_commit + 1
        self.committed = last

    def _last_commit(self) -> list[int]:
        last = self._recovery()["checkpoints"]["last"]
        return [] if last is None else list(last["number"])

    def _attempts(self) -> int:
        return int(self._recovery()["attempts"])

    def _is_on(self, im: str) -> bool:
        """An instance manager that was killed has nothing of the query when it is there again."""
        return any(each["im"] == im for each in self._status()["placed"])

    def _recovery(self) -> dict[str, Any]:
        return dict(self._status()["recovery"])

    def _status(self) -> dict[str, Any]:
        """Once an orchestrator answers."""
        while True:
            try:
                return self.running.status()
            except CepError:
                self._pause(0.05)

    def _check(self) -> None:
        self.result.rounds += 1
        if not self.reader.ended:
            self.result.wrong.append(f"{self.name} hangs: {self.running.status()}")
            return
        if self.reader.error is not None:
            self.result.wrong.append(f"{self.name} failed: {self.reader.error}")
            return
        wanted = self.faults.wanted
        self.result.compare(f"{self.name}, subscriber", rows_of(pa.Table.from_batches(self.reader.batches)), wanted)
        self.result.compare(f"{self.name}, files", rows_of(pa.dataset.dataset(self.folder, format="parquet").to_table()), wanted)
        if not self._has_ended():
            self.result.wrong.append(f"{self.name}: its reader has had all, and it does not end: {self.running.status()}")
            return
        self._check_counts()
        counted = self.running.status()["rows"][f"{self.name}.out"]
        if counted != len(wanted):
            self.result.wrong.append(f"{self.name}: expected {len(wanted):,} rows out in its status, got {counted:,}")

    def _has_ended(self) -> bool:
        """Its reader hears of the end with the commit; a kill just behind that has it recover once more before it says so itself."""
        end = time.monotonic() + HANGS_S
        while self._status()["state"] != "ended" and time.monotonic() < end:
            time.sleep(AGAIN_S)
        return bool(self._status()["state"] == "ended")

    def _check_counts(self) -> None:
        i = np.arange(self.faults.rows, dtype=np.int64)
        wanted = {"late rows": int(is_late(i).sum()), "dead letters": int(is_bad(i).sum())}
        unused = self.running.status()["unused"] or {}
        found = {"late rows": unused.get("late", 0), "dead letters": unused.get("dead_letters", 0)}
        self.result.counts += sum(wanted.values())
        if found != wanted:
            self.result.wrong.append(f"{self.name}: expected {wanted}, got {found}")


class KillRounds:
    """Rounds in one cluster, until there have been enough kills. `rate`: rows a second of programs that publish; 0: files are read."""

    def __init__(
        self, folder: Path, rows: int, seed: int, instances: int, checkpoint: str, say: Callable[[str], None], rate: int = 0
    ) -> None:
        self.folder, self.instances, self.checkpoint, self.say = folder, instances, checkpoint, say
        self.rows, self.rate, self.published = rows, rate, rate > 0
        self.choose, self.result = random.Random(seed), RecoveryReport()
        self.paths, self.wanted = "" if self.published else write_files(folder, rows), expected(rows)
        self.cluster = LocalCluster(instances=instances, data=[folder], grace_s=GRACE_S, session_timeout_s=SESSION_S)

    def run(self, kills: int) -> RecoveryReport:
        with self.cluster:
            while self.result.done.total() < kills and not self.result.wrong:
                number = self.result.rounds
                out = self.folder / f"out{number}"
                out.mkdir()
                round_ = RecoveryRound(self, number, out)
                round_.run(kills)
                round_.running.delete()
        return self.result


def command(
    kills: Annotated[int, typer.Option(min=1, help="How many.")] = 100,
    seed: Annotated[int, typer.Option(help="The same one chooses the same.")] = 7,
    instances: Annotated[int, typer.Option(min=1, help="Instance managers.")] = 3,
    rows: Annotated[int, typer.Option(min=1000, help="That are read in a round.")] = 24_000_000,
    checkpoint: Annotated[str, typer.Option(help="The interval.")] = "1s",
    published: Annotated[bool, typer.Option("--published", help="Programs publish the rows, and are killed too.")] = False,
    rate: Annotated[int, typer.Option(min=1000, help="Rows a second of these programs together.")] = 200_000,
) -> None:
    """Kills processes of a cluster while queries run that recover. Leaves status 1 if a row is lost or comes twice, or a count is wrong."""
    say = stopwatch()
    with TemporaryDirectory(prefix="cep-faults-") as folder:
        result = KillRounds(Path(folder), rows, seed, instances, checkpoint, say, rate if published else 0).run(kills)
    print("\n".join(result.lines()))
    if result.wrong:
        raise typer.Exit(1)
