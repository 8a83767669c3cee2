"""Processes that are kept up: no death of one is the last, and none takes another with it.

Rules:
1. One that dies is started again: at once, and where it dies again and again after pauses that double, up to `pause_max_s`. One that
   has lived for 30 s begins anew. What cannot be started at all (no such file, no room for its log) counts as a death.
2. While the whole is being started (`starting`) there is no patience: a death then raises, with the end of the log.
3. What is up, what is down and why is a report: a file that is always whole, for any reader, whether anything else works or
   not. Where it cannot be written, it is written with the next change.
4. A child may be made as a copy of a process that has loaded what it needs (`driver.processes.loaders`), which others are copies of too.
5. Of a child that has a mark (`cep.service.mark`) the report says what holds it for more than a second. Held for `hold_s` it is ended, and
   what held it is named. One that dies otherwise, but not because it was asked to end, names what it was at.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any

from cep.config import InstanceManagerConfig
from cep.errors import ClusterError
from cep.service.logs import about
from cep.service.mark import Work, make_page, read_page
from cep.service.reports import remove_report, write_report
from driver.commands import INSTANCE_MANAGER, bound
from driver.processes import process as processes
from driver.processes.events import Events
from driver.processes.loaders import Adopted, Copy, Loader
from driver.processes.process import ChildProcess
from driver.processes.watch import HOLD_S, LOOK_S, STOPPED, LoopHold, OperatorWatch, at_death, state_of

LOG = logging.getLogger(__name__)
PAUSE_MAX_S = 15.0
STEADY_S = 30.0
DEATHS_KEPT = 8
LOG_LINES = 12
ROOM_BYTES = 2 << 20
"""With less the disk counts as full: ZooKeeper takes a megabyte at a time."""


_ASKED = frozenset((-signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP, 0))
"""Return codes of a process that was asked to end."""


@dataclass(frozen=True, slots=True)
class Death:
    """How one process of a child ended.

    Args:
        pid: 0: it could not even be started.
        at: seconds since 1970.
        started: as the process itself says, in µs since 1970; 0: it did not.
        how: in words, with what it was at.
        blamed: the query that it was at, and where in it; None: none, or it was asked to end.
    """

    pid: int
    at: float
    how: str
    log: str = ""
    started: int = 0
    blamed: Work | None = None

    def to_json(self) -> dict[str, Any]:
        own = {each.name: getattr(self, each.name) for each in fields(self)}
        return own | {"blamed": None if self.blamed is None else self.blamed._asdict()}


@dataclass
class Child:
    """A process to be kept: how it is started, and what has become of it."""

    name: str
    command: Sequence[str]
    pass_fds: tuple[int, ...] = ()
    mark: Path | None = None
    copy: Copy | None = None
    process: ChildProcess | None = None
    since: float = 0.0  # up or waiting; seconds since 1970
    next_try: float | None = None  # likewise
    deaths: int = 0
    last: deque[Death] = field(default_factory=lambda: deque(maxlen=DEATHS_KEPT))
    started_at: float = 0.0  # by the steady clock
    in_a_row: int = 0
    watch: OperatorWatch = field(default_factory=OperatorWatch)
    hold: LoopHold | None = None
    ended: str = ""  # why we have ended it
    stopped: bool = False  # by a signal, and not yet told to go on

    @property
    def state(self) -> str:
        if self.process is None:
            return "starting" if self.next_try is None else "waiting"
        return "stopped" if self.stopped else "up"

    def look(self, now_ns: int) -> bool:
        """Is it as it was?"""
        if self.process is None:
            return True
        pid, before = self.process.pid, (self.stopped, self.hold and (self.hold.work, self.hold.prepared))
        self.stopped = state_of(pid, pid) in STOPPED
        page = None if self.mark is None else read_page(self.mark)
        self.hold = None if page is None else self.watch.look(page, now_ns, partial(state_of, pid))
        return before == (self.stopped, self.hold and (self.hold.work, self.hold.prepared))

    def death(self, process: ChildProcess, log: str) -> Death:
        """How its process, which is over, has died."""
        page = None if self.mark is None else read_page(self.mark)
        hold = self.hold if self.ended else None if page is None or process.returncode in _ASKED else at_death(page)
        how = self.ended or processes.ending(process) + (f", at {hold}" if hold is not None else "")
        blamed = None if hold is None else hold.work
        return Death(process.pid, time.time(), how, log, 0 if page is None else page.started, blamed)

    def pause_s(self, now: float) -> float:
        """How long to wait before it is started again, now that it has died: nothing, then a quarter of a second, and ever twice that."""
        self.in_a_row = 0 if now - self.started_at >= STEADY_S else self.in_a_row
        self.in_a_row += 1
        return 0.0 if self.in_a_row == 1 else 2.0 ** min(self.in_a_row - 4, 30)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "state": self.state,
            "pid": None if self.process is None else self.process.pid,
            "since": self.since,
            "next_try": self.next_try,
            "deaths": self.deaths,
            "last_deaths": [death.to_json() for death in self.last],
            "held_by": None if self.hold is None else {"what": str(self.hold), "since": time.time() - self.hold.held_s},
        }


class Children:
    """Those of one supervisor.

    Args:
        name: of the supervisor; its report is `<name>.json` in `reports`.
        logs: the folder of their logs, `<child>.log`; None: they say what they have to say where the supervisor does.
        environment: theirs.
        facts: what the report tells of the supervisor besides.
        hold_s: how long a loop may be held before its process is ended; 0: for ever.
        pause_max_s: the longest pause before one that dies again and again is started again.
    """

    def __init__(
        self,
        name: str,
        events: Events,
        logs: Path | None,
        reports: Path,
        environment: Mapping[str, str],
        facts: Mapping[str, Any] | None = None,
        hold_s: float = HOLD_S,
        pause_max_s: float = PAUSE_MAX_S,
    ) -> None:
        self.name, self.events, self.logs, self.reports, self.environment = name, events, logs, reports, environment
        self.facts = {"supervisor": name, "pid": os.getpid(), "started": time.time(), "hold_s": hold_s} | dict(facts or {})
        self.hold_s, self.pause_max_s, self.starting = hold_s, pause_max_s, True
        self.full = False  # the disk of the logs
        self._children: dict[str, Child] = {}
        self._loaders: dict[tuple[str, ...], Loader] = {}

    def start(
        self, name: str, command: Sequence[str], fds: tuple[int, ...] = (), mark: str | None = None, copy: Copy | None = None
    ) -> None:
        """Starts one and keeps it up. `mark`: where it says what it is at. `copy`: how it may be made in place of by its command.

        Raises OSError while all are being started: there is no such command."""
        child = self._children[name] = Child(name, command, fds, None if mark is None else Path(mark), copy)
        self._run(child)

    def start_managers(self, command: Sequence[str], managers: Sequence[InstanceManagerConfig]) -> None:
        """The same of instance managers, as copies of one loader for each node; by another command than ours each by itself."""
        first = {manager.node: bound(command, manager) for manager in reversed(managers)}
        for each in managers:
            copied = tuple(command) == INSTANCE_MANAGER and each.cluster.loaders
            copy = Copy(tuple(first[each.node]), each.to_json()) if copied else None
            self.start(each.id, bound(command, each), mark=each.mark, copy=copy)

    def started(self) -> None:
        """All are there: from now on a death is mended."""
        self.starting = False
        self.report()
        self.events.after(LOOK_S, self._look)

    def running(self) -> dict[str, ChildProcess]:
        """Those that run, by name."""
        return {child.name: child.process for child in self._children.values() if child.process is not None}

    def listing(self) -> list[tuple[str, int]]:
        """Names and process ids of those that run, and of those of which they are copies."""
        loaders = [(f"loader-{i}", loader.process.pid) for i, loader in enumerate(self._loaders.values()) if loader.is_up]
        return [*((name, process.pid) for name, process in self.running().items()), *loaders]

    def unread(self) -> list[str]:
        """Those that hold what ended queries have put out, for readers that have not taken it yet."""
        pages = ((name, child.mark and read_page(child.mark)) for name, child in self._children.items() if child.process is not None)
        return [name for name, page in pages if page and page.unread]

    def tails(self, lines: int = 3) -> str:
        """The ends of all logs."""
        return "\n".join(f"--- {name}\n{self._tail(name, lines)}" for name in self._children)

    def report(self) -> None:
        """Tells how all are now."""
        children = [child.to_json() for child in self._children.values()]
        now = {"written": time.time(), "children": children, "full_disk": str(self.logs) if self.full else None}
        write_report(self.reports, self.name, self.facts | now)

    def stop(self, last: str = "", patience_s: float = 5.0) -> None:
        """Takes down every one, `last` behind the others and with a patience of its own."""
        unknown = [copy for loader in self._loaders.values() for copy in loader.stop()]
        running = self.running()
        behind = running.pop(last, None)
        processes.stop([*running.values(), *unknown])
        if behind is not None:
            processes.stop([behind], patience_s)
        remove_report(self.reports, self.name)
        for mark in (child.mark for child in self._children.values() if child.mark is not None):
            mark.unlink(missing_ok=True)

    def _look(self) -> None:
        """At what each is at, without asking it."""
        as_it_was = [child.look(time.monotonic_ns()) for child in self._children.values()]
        for child in self._children.values():
            self._end_if_held(child)
        if not all(as_it_was) or self._look_at_disk():
            self.report()
        if self._loaders:
            self._bury()
        self.events.after(LOOK_S, self._look)

    def _bury(self) -> None:
        """Orphans that came to us, since copies shall; one that we wait for ourselves is left for that."""
        ours = {pid for _, pid in self.listing()}
        while not any(loader.is_asked for loader in self._loaders.values()):
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None or ended.si_pid in ours:
                return
            os.waitpid(ended.si_pid, 0)

    def _look_at_disk(self) -> bool:
        """Is it full now and was not, or the other way round? What dies of it has no room to say so."""
        before = self.full
        with suppress(OSError):
            disk = None if self.logs is None else os.statvfs(self.logs)
            self.full = disk is not None and disk.f_bavail * disk.f_frsize < ROOM_BYTES
        return before != self.full

    def _end_if_held(self, child: Child) -> None:
        hold = child.hold
        if child.process is not None and hold is not None and self.hold_s and hold.held_s >= self.hold_s and not child.ended:
            child.ended = f"was ended, for {hold} had held it for {hold.held_s:.0f} s"
            child.process.kill()

    def _run(self, child: Child) -> None:
        child.since, child.started_at, child.next_try = time.time(), time.monotonic(), None
        child.watch, child.hold, child.ended, child.stopped = OperatorWatch(), None, "", False
        if child.mark is not None:
            with suppress(OSError):  # no room: then it cannot be seen what it is at
                make_page(child.mark)
        loader = None if child.copy is None else self._loader_of(child.copy)
        if loader is None or child.copy is None:
            self._take(child, lambda: self._start(child))
        else:
            loader.ask(child.name, child.copy.config, self._log(child.name), partial(self._copied, child))

    def _loader_of(self, copy: Copy) -> Loader | None:
        """None: there is none at the moment, but for the next time."""
        loader = self._loaders.get(copy.loader)
        if loader is not None and loader.is_up:
            return loader
        name = f"loader-{len(self._loaders) if loader is None else list(self._loaders).index(copy.loader)}"
        try:
            made = self._loaders[copy.loader] = Loader(copy.loader, self._log(name), self.environment, self.events)
        except OSError as error:
            LOG.warning("%s could not be started: %s", name, error)
            return None
        return made if loader is None else None

    def _copied(self, child: Child, copy: Adopted | None) -> None:
        self._take(child, lambda: self._start(child) if copy is None else copy)

    def _take(self, child: Child, begin: Callable[[], ChildProcess]) -> None:
        """The process that `begin` gives is the child's, which is watched from now on."""
        try:
            child.process = process = begin()
            handle = _watched(process)
        except OSError as error:
            child.process = None
            if self.starting:
                raise
            self._mourn(child, Death(0, time.time(), f"could not be started: {error}"))
            return
        self.events.on(handle, lambda: self._died(child, handle))
        if not self.starting:
            self.report()

    def _start(self, child: Child) -> ChildProcess:
        """Raises OSError: there is no such command."""
        return processes.start(child.command, self._log(child.name), self.environment, child.pass_fds)

    def _died(self, child: Child, handle: int) -> None:
        self.events.off(handle)
        os.close(handle)
        process, child.process = child.process, None
        assert process is not None
        process.wait()
        self._mourn(child, child.death(process, self._tail(child.name)))

    def _mourn(self, child: Child, death: Death) -> None:
        """Raises ClusterError while all are being started."""
        if self.starting:
            raise ClusterError(f"{child.name} {death.how}" + (f"; it said:\n{death.log}" if death.log else ""))
        self._look_at_disk()
        query, place = (None, None) if death.blamed is None else (death.blamed.query, f"{death.blamed.subquery}/{death.blamed.instance}")
        LOG.error("%s (process %d) %s", child.name, death.pid, death.how, extra=about(query, place, child=child.name))
        child.last.append(death)
        child.deaths += 1
        pause_s = min(child.pause_s(time.monotonic()), self.pause_max_s)
        child.since, child.hold, child.stopped = death.at, None, False
        child.next_try = child.since + pause_s
        self.report()
        self.events.after(pause_s, lambda: self._run(child))

    def _log(self, name: str) -> Path | None:
        return None if self.logs is None else self.logs / f"{name}.log"

    def _tail(self, name: str, lines: int = LOG_LINES) -> str:
        log = self._log(name)
        return "" if log is None else processes.tail(log, lines)


def _watched(process: ChildProcess) -> int:
    """What tells of its death. Raises OSError: no descriptor is left, and a process whose death would go unnoticed is ended."""
    try:
        return os.pidfd_open(process.pid)
    except OSError:
        process.kill()
        process.wait()
        raise
