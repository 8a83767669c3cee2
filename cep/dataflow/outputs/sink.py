"""Where an output is written to, beside its subscribers: one more target of its edge, which takes every batch at once.

A sink is described by a class of `cep.model.sinks`. What it is given it writes as it comes, under a name that is not looked for. `stage`
makes what was given so far whole, and `finish` shows it: whole, or not at all, and however often it is asked.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from cep.dataflow.channel import Credit
from cep.dataflow.dead_letters import DeadLetters, Letter
from cep.dataflow.meter import Account, Meter
from cep.dataflow.outputs.arrow_stream import ArrowStreamWriter
from cep.dataflow.outputs.json_lines import JsonLinesWriter
from cep.dataflow.outputs.parquet import ParquetWriter
from cep.dataflow.outputs.staged import SUFFIX, Appending, Staged, attempt_of, final, staged_name
from cep.dataflow.outputs.text import TextWriter
from cep.elements import LAST, MAX_TIME, Batch, Element, Fail, Stop
from cep.errors import ClusterError
from cep.model import sinks
from cep.model.schema import Schema
from cep.model.sinks import name_of
from cep.world.store import DiskStore, Store


class RowSink(Protocol):
    def write(self, batch: Batch) -> None:
        """Raises ClusterError where it cannot."""

    def stage(self) -> Staged | None:
        """Makes whole what was given since the last time; None: nothing was."""

    def finish(self, staged: Staged) -> None:
        """Shows it. It may have been done already."""

    def close(self) -> None:
        """Nothing more comes; what is not finished stays as it is. Never raises: the query has failed already."""


class FileWriter(Protocol):
    """How rows become a file of one format. A writer is one class, registered in `WRITERS` under the description of its files."""

    def write(self, batch: Batch) -> None: ...

    def end(self) -> None:
        """What is still to be written for the file to be whole."""


#: Says that a row is left out, and why: it would be read as something else.
LeaveOut = Callable[[int, str], None]

#: A new format is registered here: a writer of rows of a schema, to an empty file.
WRITERS: Mapping[type, Callable[[Any, Schema, Appending, LeaveOut], FileWriter]] = {
    sinks.TextSink: TextWriter,
    sinks.ArrowSink: ArrowStreamWriter,
    sinks.ParquetSink: ParquetWriter,
    sinks.JsonLinesSink: JsonLinesWriter,
}


class FileSink:
    """An instance's file, and another one behind each `stage`. `attempt`: of its query; in the first one it is opened at once, so that what
    is in its way is said before anything runs."""

    def __init__(
        self,
        files: sinks.SinkFiles,
        stream: str,
        index: int,
        schema: Schema,
        dead_letters: DeadLetters,
        store: Store | None = None,
        attempt: int = 0,
    ) -> None:
        self.files, self.stream, self.index, self.schema, self.dead_letters = files, stream, index, schema, dead_letters
        self.store: Store = store or DiskStore()
        self.attempt = attempt
        self.part = -1
        self.rows = 0  # in the file that is open
        self._file: Appending | None = None
        self._writer: FileWriter | None = None if attempt else self._open()

    def write(self, batch: Batch) -> None:
        if self._file is None or self._writer is None:
            self._writer = self._open()
        self._writer.write(batch)
        self.rows += len(batch)

    @property
    def staged_parts(self) -> int:
        """The number of the last part that was made whole; -1: none was."""
        return self.part - (self._file is not None)

    def go_on(self, part: int, waiting: Sequence[Staged]) -> None:
        """Behind part `part`. What earlier attempts began, other than what is `waiting` to be finished, is of no use any more. There may be
        later ones than ours: a process that was frozen wakes up in the middle of an attempt that is over."""
        self.part = part
        own = re.compile(rf"\.{re.escape(f'{self.stream}-{self.index:05}')}(-[0-9]+)?\.{re.escape(self.files.suffix)}")
        kept = {os.path.basename(each.path) for each in waiting}
        with suppress(OSError):
            for name in self.store.names(self.files.folder):
                if own.match(name) and name.endswith(SUFFIX) and name not in kept and attempt_of(name) < self.attempt:
                    self.store.remove(os.path.join(self.files.folder, name))

    def begin_last(self) -> None:
        """The stream has ended: where nothing was ever written there is a file without rows."""
        if self._file is None and self.part < 0:
            self._writer = self._open()

    def stage(self) -> Staged | None:
        if self._file is None or self._writer is None:
            return None
        self._writer.end()
        staged, file = Staged(self._file.path, self._file.bytes), self._file
        self._file, self.rows = None, 0
        file.close()
        return staged

    def finish(self, staged: Staged) -> None:
        try:
            self.store.rename(staged.path, final(staged.path))
        except FileNotFoundError:
            self._check_finished(staged)
        except OSError as error:
            raise ClusterError(f"file {final(staged.path)!r} cannot be made of {staged.path!r}: {error.strerror}") from error

    def close(self) -> None:
        if self._file is not None:
            self._file.abandon()
            self._file = None

    def _check_finished(self, staged: Staged) -> None:
        path = final(staged.path)
        if os.path.basename(path) not in self.store.names(os.path.dirname(path)):
            raise ClusterError(f"file {path!r} is not there, nor is {staged.path!r}, of which it was to be made: it was removed")

    def _open(self) -> FileWriter:
        """The next file."""
        self.part += 1
        name = name_of(self.files, self.stream, self.index, self.part)
        path = os.path.join(self.files.folder, name)
        try:
            self.store.make_folder(self.files.folder)
            if not self.files.overwrite and name in self.store.names(self.files.folder):
                raise FileExistsError
            file = self.store.create(os.path.join(self.files.folder, staged_name(name, self.attempt)), self.files.overwrite)
        except FileExistsError:
            what = f"file {path!r} is there already, or its beginning, {staged_name(name, self.attempt)!r}, is"
            raise ClusterError(f"{what}: name another folder, remove it, or ask for overwrite") from None
        except OSError as error:
            raise ClusterError(f"file {path!r} cannot be made: {error.strerror}") from error
        self._file = Appending(file, os.path.join(self.files.folder, staged_name(name, self.attempt)))
        return WRITERS[type(self.files)](self.files, self.schema, self._file, self._refuse)

    def _refuse(self, time: int, reason: str) -> None:
        path = os.path.join(self.files.folder, name_of(self.files, self.stream, self.index, self.part))
        self.dead_letters.put(Letter(self.stream, reason, path, f"event time {time} µs"))


class Boundless(Credit):
    """Of a target that takes everything at once."""

    def __init__(self) -> None:
        super().__init__()
        self.returned = MAX_TIME

    def allows(self, size: int) -> bool:
        return True


class SinkChannel:
    """The sending end of a channel to a sink, whose writing is on an account of its own; what led to it is on `before`, its output's.

    What was given is shown when the stream has ended, or was stopped, before anything else hears of that: a sink that cannot is the query's
    failure. What a query gave that has failed stays staged.
    """

    shares = True

    def __init__(self, sink: RowSink, meter: Meter, before: Account) -> None:
        self.sink, self.meter, self.before, self.account = sink, meter, before, Account()
        self.credit: Credit = Boundless()
        self._staged: Staged | None = None

    def send(self, element: Element, size: int, watermark: int, since: int) -> None:
        self.meter.charge(self.before)
        if isinstance(element, Batch):
            self.sink.write(element)
            self.account.take(len(element))
        elif isinstance(element, Fail):
            with suppress(Exception):  # the query has failed with a cause of its own, and others of its outputs have to hear of that
                self.sink.stage()
            self.sink.close()
        elif isinstance(element, LAST):
            self.stage()
            self.finish()
        self.meter.charge(self.account)

    def stage(self) -> None:
        """Nothing more comes: what was given is made whole. Raises ClusterError where it cannot be."""
        self._staged = self.sink.stage() or self._staged

    def finish(self) -> None:
        """It is shown; once more changes nothing. Raises ClusterError where it cannot be."""
        if self._staged is not None:
            self.sink.finish(self._staged)
            self._staged = None


class CommittedSink(SinkChannel):
    """Of a query that recovers: what was given up to a checkpoint is made whole there, and shown when that is committed."""

    def __init__(self, sink: FileSink, meter: Meter, before: Account) -> None:
        super().__init__(sink, meter, before)
        self.files = sink
        self.waiting: deque[tuple[int, Staged]] = deque()  # with the number of the checkpoint
        self.last: Staged | None = None  # whole, and in no checkpoint yet

    def send(self, element: Element, size: int, watermark: int, since: int) -> None:
        if isinstance(element, Stop):  # as much as there is: nothing will go on from here
            self.stage()
            self.cover(None)
        elif isinstance(element, Batch | Fail):
            super().send(element, size, watermark, since)

    def stage(self) -> None:
        self.files.begin_last()
        self.last = self.files.stage() or self.last

    def finish(self) -> None:
        """A commit does."""

    def stage_for(self, number: int) -> None:
        """Checkpoint `number` is being taken."""
        staged = self.files.stage() if self.files.rows else None
        self.waiting += [(number, each) for each in (staged, self.last) if each is not None]
        self.last = None

    def cover(self, number: int | None) -> None:
        """Checkpoint `number` is committed; None: everything is to be shown."""
        while self.waiting and (number is None or self.waiting[0][0] <= number):
            self.files.finish(self.waiting[0][1])
            self.waiting.popleft()
        if number is None and self.last is not None:
            self.files.finish(self.last)
            self.last = None

    @property
    def is_covered(self) -> bool:
        return not self.waiting and self.last is None

    @property
    def is_delivered(self) -> bool:
        """Is everything shown?"""
        return self.is_covered

    @property
    def is_new(self) -> bool:
        """Has something come that is in no checkpoint?"""
        return self.last is not None or self.files.rows > 0

    def kept(self) -> dict[str, Any]:
        """What is whole and not shown, and how many parts there are, for the checkpoint that is being taken."""
        return {"part": self.files.staged_parts, "waiting": [[each.path, each.bytes] for _, each in self.waiting]}

    def restore(self, kept: Mapping[str, Any]) -> None:
        """What the checkpoint had is committed, so it is shown; perhaps it has been before."""
        waiting = [Staged(path, size) for path, size in kept["waiting"]]
        self.files.go_on(kept["part"], waiting)
        for each in waiting:
            self.files.finish(each)
