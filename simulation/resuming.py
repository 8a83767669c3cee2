"""Readers that go on from tokens, in one process after the other: each saves what it has made of its rows together with its token, and is
killed now and then, by itself too, or thought dead while it reads on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

import pyarrow as pa

from cep.errors import CepError
from cep.transport.wire import Header
from driver.streams.producers import SubscriptionOptions
from driver.streams.resuming.tokens import ResumeToken
from simulation.checkers import QueryOutcome
from simulation.client import ClientProcess, Heard, HeardSubscription
from simulation.schedule import MS, S, SeededSchedule
from simulation.workload import QUERY

KEEP_S = 60.0  # longer than all that may keep the next process from coming
ROOM_BYTES = 1 << 16  # with less than that each batch has to be acknowledged
BETWEEN_NS = 500 * MS  # until the next process is there, at most
NEVER_NS = 3600 * S


class ReadingCluster(Protocol):
    """The cluster, as far as its readers are concerned."""

    schedule: SeededSchedule
    outcome: QueryOutcome
    user: ClientProcess
    readers: list[ClientProcess]

    def new_reader(self, name: str) -> ClientProcess: ...


class Run:
    """One process that reads, and what it has made of its rows since it saved last."""

    def __init__(self, process: ClientProcess) -> None:
        self.process = process
        self.made: list[Callable[[], None]] = []


class ResumingReader:
    """Reads `stream` to its end. `heard` gets what is saved."""

    def __init__(self, cluster: ReadingCluster, stream: str, budget_bytes: int, heard: Heard) -> None:
        self.cluster, self.stream, self.heard = cluster, stream, heard
        self.options = SubscriptionOptions(event_time=True, budget_bytes=budget_bytes, keep_s=KEEP_S, resumable=True)
        self.token: str | None = None
        self.current: Run | None = None
        self.runs = 0
        self.is_done = False

    def supervise(self) -> None:
        """A program of the user's: starts the next process when one is gone, or seems to be."""
        choose, user = self.cluster.schedule.choose, self.cluster.user
        while not self.is_done:
            self.runs += 1
            run = self.current = Run(self.cluster.new_reader(f"{self.stream}-{self.runs}"))
            task = run.process.run(partial(self._read, run))
            while not task.ended and self.current is run:
                user.pause(20 * MS)
            if not self.is_done:
                user.pause(choose.randrange(BETWEEN_NS))

    def _read(self, run: Run) -> None:
        try:
            self._take_all(run)
        except CepError as error:
            self.cluster.schedule.note(run.process.name, f"{self.stream}: {type(error).__name__}: {error}")
            if self.current is run:
                self.cluster.outcome.failed(self.stream, error)
                self.is_done = True

    def _take_all(self, run: Run) -> None:
        def heard(header: Header, batch: pa.RecordBatch) -> None:
            run.made.append(partial(self.heard, header, batch))

        token = None if self.token is None else ResumeToken.of(self.token)
        subscription = HeardSubscription(run.process, self.stream, self.options, heard, token)
        subscription.attach(QUERY)
        if self.token is None:
            self._save(run, subscription)
        self.cluster.outcome.attached(self.stream)
        while subscription.next_batch() is not None:
            self._after_batch(run, subscription)
        self._save(run, subscription)
        self._perhaps_die(run)
        if self.current is run:
            subscription.acknowledge(subscription.token())
            self.cluster.outcome.ended(self.stream)
            self.is_done = True

    def _after_batch(self, run: Run, subscription: HeardSubscription) -> None:
        drawn = self.cluster.schedule.choose.random()
        if drawn < 0.1:
            run.process.pause(self.cluster.schedule.choose.randrange(50 * MS))
        narrow = self.options.budget_bytes < ROOM_BYTES
        if drawn < 0.3 or narrow:
            self._save(run, subscription)
        self._perhaps_die(run)
        if self.current is run and self.token is not None and (drawn < 0.25 or narrow):
            subscription.acknowledge(self.token)

    def _save(self, run: Run, subscription: HeardSubscription) -> None:
        """Rows and token together; only the process that has the subscription may."""
        if self.current is run:
            self.token = subscription.token()
            for each in run.made:
                each()
            run.made.clear()

    def _perhaps_die(self, run: Run) -> None:
        schedule = self.cluster.schedule
        drawn = schedule.choose.random()
        if self.current is not run or drawn > 0.1:
            return
        if drawn > 0.03:
            schedule.note(run.process.name, "dies")
            self.cluster.readers.remove(run.process)
            schedule.at(schedule.now_ns, run.process.kill)
            run.process.pause(NEVER_NS)
        schedule.note(run.process.name, "is thought dead")
        self.current = None
