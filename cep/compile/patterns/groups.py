"""What ways and cohorts have in common: groups by number, what comes out of them, and a heap of when time decides something."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cep.errors import StateLimitExceeded
from cep.kernels.jit import interpreting
from cep.kernels.machine.addresses import Callee, Handed
from cep.kernels.patterns import places
from cep.model.operators import PatternWays
from cep.model.operators.pattern_ways import DROP_OLDEST
from cep.model.patterns.checks import ALL, TO_FIRST, TO_LAST, TO_NEXT

#: Lines that a table has at first; those of what comes out, at most, unless a row has more.
ROOM, EMITTED_ROOM = 64, 8_192
#: Rows of what comes out, at most, unless a match has more.
ROWS_ROOM = 65_536
_CACHE_LINE = 8


@dataclass(frozen=True)
class Emitted:
    """`lines`: by `cep.kernels.patterns.places`, int64[n, EMITTED_WORDS]; `rows`: (which of them, number, variable, number in its group) of
    the rows of each, in order, int64[m, 4]. Both are there until the next ones are asked for."""

    lines: np.ndarray
    rows: np.ndarray

    def __len__(self) -> int:
        return len(self.lines)


class PatternGroups(ABC):
    """`desk_words`: how many words there are of no line; `fresh`: what a group is at first. `quiet`: nothing comes out when time passes, so
    that what it ends is only left behind: with the next row of its group, or where all are looked through (`settle`)."""

    fresh: tuple[int, ...]
    desk_words: int
    quiet: bool

    def __init__(self) -> None:
        self.desk = np.zeros(self.desk_words, np.int64)
        self._handed, self._handed_of = Handed(()), tuple[object, ...]()
        self.clear()

    def clear(self) -> None:
        """Forgets all groups; what was dropped stays counted."""
        dropped = self.dropped
        self.groups = np.empty((0, len(self.fresh)), np.int64)
        self.heap = np.empty((ROOM, 2), np.int64)
        self.emitted = np.empty((ROOM, places.EMITTED_WORDS), np.int64)
        self.desk = np.zeros(self.desk_words, np.int64)
        self.desk[places.DROPPED] = dropped

    @property
    def next_due(self) -> int | None:
        """The event time whose passing decides something next; None: there is none."""
        return int(self.heap[0, 0]) if self.desk[places.HEAP] else None

    @property
    def dropped(self) -> int:
        """Open starts that were dropped, since their groups had too many."""
        return int(self.desk[places.DROPPED])

    def has_groups(self, count: int) -> None:
        """There are so many groups."""
        before = len(self.groups)
        if count > before:
            self.groups = longer(self.groups, max(ROOM, 2 * count))
            self.groups[before:] = self.fresh

    def begin(self) -> None:
        """Other rows, or times, are at hand than before."""
        self.desk[places.AT_ROW], self.desk[places.OVERFULL], self.desk[places.TOLD_GROUP] = 0, places.NONE, places.NONE
        self.desk[places.TAKEN] = 0

    def take(
        self, numbers: np.ndarray, time: np.ndarray, first: int, bits: np.ndarray, now: int, arguments: Sequence[np.ndarray | None]
    ) -> Iterator[Emitted | None]:
        """Rows in stream order: their groups, event times, bits of variables, and what the conditions read; the first of them has the
        number `first` among all. None: others may have their turn. To be pulled to its end before anything else is called.

        Raises StateLimitExceeded: a group has more open starts than it may have.
        """
        self.begin()
        while True:
            stopped = self._advance(numbers, time, first, bits, now, arguments)
            full = bool(self.desk[places.EMITTED])
            if stopped != 1 or full:
                yield self._collected()
            if stopped == 0:
                return
            if stopped == 2:
                raise StateLimitExceeded(str(self.desk[places.OVERFULL]))
            self._make_room(full)

    @abstractmethod
    def _advance(
        self, numbers: np.ndarray, time: np.ndarray, first: int, bits: np.ndarray, now: int, arguments: Sequence[np.ndarray | None]
    ) -> int:
        """Takes rows: 0 when it is done, 1 where there is no room, 2 where a group has too many starts."""

    @abstractmethod
    def _collected(self) -> Emitted | None:
        """What was emitted, which is forgotten here."""

    @abstractmethod
    def _make_room(self, full: bool) -> None:
        """For what the next row may make, or for what is to come out; `full`: there was room for that, but others had it."""

    @abstractmethod
    def pass_time(self, before: int) -> Iterator[Emitted | None]:
        """Time passes until right before `before`; `FAR`: for ever."""

    def end(self) -> Iterator[Emitted | None]:
        """The end of event time: also what waits for no time is decided."""
        groups = np.flatnonzero((self.groups[:, places.HEAD] >= 0) & (self.groups[:, places.DUE] == places.FAR))
        self.groups[groups, places.DUE] = places.OVER
        self._watch_due(groups)
        yield from self.pass_time(places.FAR)

    @abstractmethod
    def settle(self, before: int) -> None:
        """What time before that has decided and nothing comes out of, is left behind, if it was not yet."""

    def oldest_row(self, rows: int) -> tuple[int, int] | None:
        """The number of the first row that anything may have, `rows` if nothing has one, and how many of those behind it anything has, at
        least; None: it is not known."""
        return None

    def idle_groups(self, groups: int) -> np.ndarray:
        """bool[groups]: which of them have nothing open, so that they may begin anew with whatever comes."""
        idle: np.ndarray = self.groups[:groups, places.HEAD] < 0
        return idle

    def numbered_groups(self, groups: int, since: int) -> np.ndarray:
        """bool[groups]: which of them had matches, and their last rows at `since` or later. Where they have a time to live."""
        lines = self.groups[:groups]
        found: np.ndarray = (lines[:, places.MATCHES] > 0) & (lines[:, places.LAST] >= since)
        return found

    def opened(self, groups: int) -> np.ndarray:
        """int64[groups]: how many starts of each are open."""
        found: np.ndarray = self.groups[:groups, places.OPEN]
        return found

    def keep_groups(self, kept: np.ndarray) -> np.ndarray:
        """Groups `kept`, int64[m] ascending, are 0 to m - 1 from now on; the others have nothing open. Returns the new numbers of all."""
        numbers = np.full(len(self.groups), places.NONE)
        numbers[kept] = np.arange(len(kept))
        self.groups = self.groups[kept]
        self.desk[places.HEAP] = 0
        if not self.quiet:
            self._watch_due(np.flatnonzero(self.groups[:, places.DUE] != places.FAR))
        return numbers

    def _watch_due(self, groups: np.ndarray) -> None:
        """The heap knows of `groups` too, int64[m], as their lines say: what is sorted is a heap."""
        known = self.heap[: self.desk[places.HEAP]]
        heap = np.concatenate([known, np.column_stack([self.groups[groups, places.DUE], groups])])
        self.desk[places.HEAP] = 0
        self._fit("heap", len(heap))
        self.heap[: len(heap)] = heap[np.argsort(heap[:, 0], kind="stable")]
        self.desk[places.HEAP] = len(heap)

    def _lines_out(self) -> np.ndarray:
        """What was emitted, which is forgotten here; more is taken at a time if there is much."""
        n = int(self.desk[places.EMITTED])
        lines = self.emitted[:n]
        self.desk[places.EMITTED] = 0
        if 2 * n > len(self.emitted) < EMITTED_ROOM:
            self.emitted = np.empty((2 * len(self.emitted), places.EMITTED_WORDS), np.int64)
        return lines

    def add_lines(self, name: str, used: int, count: int) -> int:
        """Room for `count` lines more in a table, which are in use from now on; returns the first."""
        first = int(self.desk[used])
        self._fit(name, first + count)
        self.desk[used] += count
        return first

    def _hand(self, arrays: Sequence[np.ndarray | Callee]) -> Any:
        """What the kernels take for `arrays`, as long as none of them is made anew."""
        known = (interpreting(), *map(id, arrays))
        if self._handed_of != known:
            self._handed, self._handed_of = Handed.of(arrays), known
        return self._handed.arrays

    def _fit(self, name: str, lines: int) -> None:
        table = getattr(self, name)
        if len(table) <= lines:
            setattr(self, name, longer(table, 2 * lines))


class RowsTold(PatternGroups):
    """Whose loop writes the rows of what comes out too."""

    def clear(self) -> None:
        super().clear()
        self.rows = np.empty((4 * ROOM, 4), np.int64)

    def _collected(self) -> Emitted | None:
        if not self.desk[places.EMITTED]:
            return None
        rows = self.rows[: self.desk[places.ROWS_OUT]]
        self.desk[places.ROWS_OUT] = 0
        return Emitted(self._lines_out(), rows)


def longer(table: np.ndarray, lines: int) -> np.ndarray:
    """`table` with room for so many lines. It begins where a line of the cache does: lines of eight words would be in two of the cache each
    otherwise, of which one alone is asked for ahead."""
    width = math.prod(table.shape[1:])
    room = np.empty(lines * width + _CACHE_LINE, np.int64)
    begin = -room.ctypes.data // room.itemsize % _CACHE_LINE
    found = room[begin : begin + lines * width].reshape(lines, *table.shape[1:])
    found[: len(table)] = table
    return found


def parameters_of(operator: PatternWays, numbers: dict[str, int]) -> np.ndarray:
    """What a pattern says, by `cep.kernels.patterns.places`; `numbers` of variables."""
    how, _, variable = operator.after.partition(" ")
    found = np.zeros(places.PARAMETERS, np.int64)
    ttl = operator.time_to_live
    found[places.WITHIN] = places.FAR if operator.within is None else operator.within
    found[places.TTL] = places.FAR if ttl is None else ttl
    found[places.ALL] = operator.matches == ALL
    found[places.SKIP] = {TO_NEXT: places.TO_NEXT, TO_FIRST: places.TO_FIRST, TO_LAST: places.TO_LAST}.get(how, places.PAST_LAST)
    found[places.SKIP_VARIABLE] = numbers.get(variable, places.NONE)
    found[places.WANTS_TIMED_OUT], found[places.WANTS_UNMATCHED] = operator.timed_out, operator.unmatched
    found[places.LIMIT], found[places.DROPS] = operator.limit, operator.on_limit == DROP_OLDEST
    life = life_of(operator)
    found[places.SIMPLE], found[places.LIFE] = life is not None, places.FAR if life is None else life
    return found


def life_of(operator: PatternWays) -> int | None:
    """How long a start lives from its first row on, if that is the same for all and time ends nothing else: µs."""
    states = operator.automaton.states
    if not any(state.wait is not None or any(edge.gap is not None for edge in state.edges) for state in states):
        return operator.within
    waits = [state.wait for state in states if state.wait is not None] if operator.automaton.only_waits else []
    return next((span for wait in waits for _, span in wait.spans), None)
