"""What a process is at, in a page of shared memory: for each of its two threads (instance, operator, since).

It is read by the process that keeps this one up, and that needs neither the process nor its interpreter: one that is stuck, blocked or
dead has left there what it was at. Writing costs a few stores; nothing waits, and nothing is checked. What is read of a thread that goes on
meanwhile may be of two moments; what is acted on has stood still for half a minute, or for good.

A page is 4 KiB: words of the process, then for each thread eight words and the label of the instance (`label_of`), which says the names
that the words count.
"""

from __future__ import annotations

import mmap
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

PAGE_BYTES = 4096
_SLOT_BYTES, _WORDS, _WORD = 1984, 8, 8
_FIRST = 64  # where the first slot is; before it the words of the process
_LABEL_BYTES = _SLOT_BYTES - _WORDS * _WORD
#: Words of a slot. WHO is the length of the label, 0: none; SINCE is steady, in ns, 0: not yet; OPERATOR counts from 1, 0: none.
#: UNREAD, of the loop: do readers still have to take what ended queries have put out here?
SINCE, WHO, OPERATOR, THREAD, UNREAD = range(5)
_STARTED = 0  # of the process, µs since 1970


class Slot:
    """What one thread is at; written by that thread, which says besides, in SINCE, when it has come round."""

    __slots__ = ("_label", "_page", "_steady_ns", "words")

    def __init__(self, page: memoryview, at: int, steady_ns: Callable[[], int]) -> None:
        self._steady_ns = steady_ns
        self.words = page[at : at + _WORDS * _WORD].cast("q")
        self._page = page[at + _WORDS * _WORD : at + _SLOT_BYTES]
        self._label = b""

    def begin(self) -> None:
        """By the thread itself."""
        self.words[THREAD] = threading.get_native_id()
        self.words[SINCE] = self._steady_ns()

    def enter(self, label: bytes) -> int:
        """From now on it works for the instance of that label. The steady time in ns."""
        words, now = self.words, self._steady_ns()
        if label is not self._label:  # else it goes on, perhaps in the middle of the operator where it paused
            words[WHO] = words[OPERATOR] = 0
            self._page[: len(label)] = self._label = label
        words[SINCE] = now
        words[WHO] = len(label)
        return now

    def leave(self) -> None:
        """It works for no query in particular."""
        self.words[WHO] = 0


class Mark:
    """The page of one process, as the process writes it."""

    def __init__(self, page: memoryview, steady_ns: Callable[[], int]) -> None:
        self._words = page[:_FIRST].cast("q")
        self.loop, self.control = Slot(page, _FIRST, steady_ns), Slot(page, _FIRST + _SLOT_BYTES, steady_ns)

    @staticmethod
    def open(path: str | None, steady_ns: Callable[[], int] = time.monotonic_ns) -> Mark:
        """The page at `path`; without one it is not read. `steady_ns`: the clock by which it tells the time."""
        if path is not None:
            with suppress(OSError, ValueError), open(path, "r+b") as file:
                return Mark(memoryview(mmap.mmap(file.fileno(), PAGE_BYTES)), steady_ns)
        return Mark(memoryview(bytearray(PAGE_BYTES)), steady_ns)

    def begin(self, started: int) -> None:
        """The process is the one that was started then, in µs since 1970."""
        self._words[_STARTED] = started


def make_page(path: Path) -> None:
    """An empty page for the next process; its room is taken now, so that no store ever finds a full disk. Raises OSError: there is none."""
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(handle, 0, PAGE_BYTES)
    finally:
        os.close(handle)


def label_of(query: str, subquery: str, instance: int, operators: Sequence[str]) -> bytes:
    """As much of the names as there is room for."""
    return "\0".join((query, subquery, str(instance), *operators)).encode()[:_LABEL_BYTES]


class Work(NamedTuple):
    """What a thread is at; `operator` is empty where that is none of its operators."""

    query: str
    subquery: str
    instance: int | None
    operator: str

    def __str__(self) -> str:
        place = f"{self.subquery}/{self.instance} of query {self.query!r}"
        return f"operator {self.operator!r} ({place})" if self.operator else place


@dataclass(frozen=True, slots=True)
class Seen:
    """A thread as its slot shows it."""

    since_ns: int
    thread: int
    work: Work | None


@dataclass(frozen=True, slots=True)
class Page:
    """A page as it was read."""

    started: int
    loop: Seen
    control: Seen
    unread: bool = False


def read_page(path: Path) -> Page | None:
    """None: there is none."""
    try:
        page = memoryview(path.read_bytes())
    except OSError:
        return None
    if len(page) != PAGE_BYTES:
        return None
    unread = bool(page[_FIRST : _FIRST + _WORDS * _WORD].cast("q")[UNREAD])
    return Page(page[:_FIRST].cast("q")[_STARTED], _seen(page, _FIRST), _seen(page, _FIRST + _SLOT_BYTES), unread)


def _seen(page: memoryview, at: int) -> Seen:
    words = page[at : at + _WORDS * _WORD].cast("q")
    label = bytes(page[at + _WORDS * _WORD :][: words[WHO]])
    return Seen(words[SINCE], words[THREAD], _work(label, words[OPERATOR]) if words[WHO] > 0 else None)


def _work(label: bytes, operator: int) -> Work | None:
    query, *rest = label.decode(errors="replace").split("\0")
    if len(rest) < 2:
        return Work(query, rest[0] if rest else "", None, "")
    subquery, instance, *operators = rest
    return Work(
        query, subquery, int(instance) if instance.isdigit() else None, operators[operator - 1] if 0 < operator <= len(operators) else ""
    )
