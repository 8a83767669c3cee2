"""Instance managers made as copies of a process that has loaded what they need (`instance_manager.copying`), a loader; each node has one.

It is a help and no more: where there is none, or it does not answer, an instance manager is started by itself, which takes a second longer.
"""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cep.world.parents import adopt_orphans
from driver.processes import process as processes
from driver.processes.events import Events

LOG = logging.getLogger(__name__)
ANSWER_S, LOAD_S, END_S = 10.0, 60.0, 1.0
"""A loader that does not answer for so long is ended, one that does not while it loads, and one that does not end when it shall."""
ANSWER_BYTES_MAX = 4096


@dataclass(frozen=True, slots=True)
class Copy:
    """How a process is made as a copy: the command of its loader, to which a descriptor's number is added, and what it is told."""

    loader: tuple[str, ...]
    config: Mapping[str, Any]


class Adopted:
    """A child of this process that it has not started itself; as `subprocess.Popen` as far as it goes."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Raises subprocess.TimeoutExpired."""
        if self.poll() is None:
            handle = os.pidfd_open(self.pid)
            try:
                ending = select.poll()  # any number of descriptors may be open
                ending.register(handle, select.POLLIN)
                ending.poll(None if timeout is None else 1000 * timeout)
            finally:
                os.close(handle)
        if (code := self.poll()) is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        return code

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        if self.poll() is None:  # else its number may be another's by now
            os.kill(self.pid, number)


class Loader:
    """One process of which others are copies.

    Args:
        log: where it says what it has to say; None: where ours goes.
        environment: its own, and its copies'.

    Raises OSError: it cannot be started.
    """

    def __init__(self, command: Sequence[str], log: Path | None, environment: Mapping[str, str], events: Events) -> None:
        adopt_orphans()  # copies become our children
        self._events = events
        self._asked: dict[str, Callable[[Adopted | None], None]] = {}
        self._has_loaded = False
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ours.settimeout(LOAD_S)  # dozens of requests fill it until they are read
        with theirs:
            number = str(theirs.fileno())
            alone = {**environment, "OPENBLAS_NUM_THREADS": "1"}  # copies would not have its other threads
            try:
                self.process = processes.start([*command, number], log, alone, (theirs.fileno(),))
            except OSError:
                self._ours.close()
                raise
        events.on(self._ours.fileno(), self._hear)
        self.is_up = True

    @property
    def is_asked(self) -> bool:
        """Are there copies that have not been told of?"""
        return bool(self._asked)

    def ask(self, name: str, config: Mapping[str, Any], log: Path | None, made: Callable[[Adopted | None], None]) -> None:
        """`made` is called with the copy `name`, later; or with None: there is none, for this process is over."""
        self._asked[name] = made
        try:
            self._ours.send(json.dumps({"name": name, "config": config, "log": None if log is None else str(log)}).encode())
        except OSError as error:
            self._give_up(str(error))
            return
        patience_s = ANSWER_S if self._has_loaded else LOAD_S
        self._events.after(patience_s, lambda: self._lose_patience(made, patience_s))

    def stop(self) -> list[Adopted]:
        """Ends it. Returns copies that no caller knows of yet."""
        if not self.is_up:
            return []
        self._close()
        self._ours.shutdown(socket.SHUT_WR)  # the end of requests: it ends in order, if it has come so far
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(END_S if self._has_loaded else 0.0)
        self.process.kill()
        self.process.wait()
        self._ours.setblocking(False)
        left = []
        while self._asked and (said := self._said()):
            left += [Adopted(said["pid"])] if "pid" in said else []
        self._ours.close()
        return left

    def _hear(self) -> None:
        said = self._said()
        if said is None:
            self._give_up("it has ended")
        elif not said:
            self._has_loaded = True
        else:
            made = self._asked.pop(said["name"])
            if "error" in said:
                LOG.warning("%s could not be made as a copy: %s", said["name"], said["error"])
            made(Adopted(said["pid"]) if "pid" in said else None)

    def _said(self) -> dict[str, Any] | None:
        try:
            received = self._ours.recv(ANSWER_BYTES_MAX)
        except OSError:
            return None
        return json.loads(received) if received else None

    def _lose_patience(self, made: Callable[[Adopted | None], None], patience_s: float) -> None:
        if self.is_up and made in self._asked.values():
            self._give_up(f"it has not answered for {patience_s:g} s")

    def _give_up(self, why: str) -> None:
        """What it was asked for is made otherwise."""
        LOG.warning("process %d, of which instance managers are copies: %s", self.process.pid, why)
        for each in self.stop():
            each.kill()
            each.wait()
        asked, self._asked = list(self._asked.values()), {}
        for made in asked:
            made(None)

    def _close(self) -> None:
        self.is_up = False
        self._events.off(self._ours.fileno())
