"""The ways through a pattern of all groups of an instance: the tables of `cep.kernels.patterns.places`, with room for what comes.

It knows rows by number only: in their batch, and among all that anything still has. What comes out is a line for each match, start that
timed out and row in no match, and the rows of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cep.compile.patterns.conditions import WaysLoop
from cep.compile.patterns.groups import ROOM, Emitted, PatternGroups, parameters_of
from cep.kernels.jit import warm
from cep.kernels.machine.addresses import NOT_CALLED, Callee
from cep.kernels.patterns import places
from cep.kernels.patterns.chains import KERNELS, count_rows, mark_rows, oldest_way_row, renumber_way_rows, take_rows_of
from cep.kernels.patterns.loop import advance
from cep.kernels.patterns.ways import let_pass, settle_ways, watch_groups
from cep.kernels.states.exact_sum import POOL_WORDS
from cep.model.operators import PatternWays
from cep.model.patterns.automaton import COMPLETE, Automaton, WayState
from cep.model.patterns.checks import ALL, TO_NEXT
from cep.model.patterns.parts import BYS, NEXT

_GROUPS, _STARTS, _WAYS, _NODES, _WAITING, _EMITTED, _HEAP = range(7)
_NO_BITS = np.empty(0, np.int64)


class Ways(PatternGroups):
    """`loop` over rows, for groups by number."""

    fresh, desk_words = places.FRESH_GROUP, places.DESK_WORDS

    def __init__(self, operator: PatternWays, loop: WaysLoop) -> None:
        self.operator, self.loop = operator, loop
        self.automaton = _arrays(operator, loop)
        self.sums = np.array(loop.registers.sums, np.int64)
        self.quiet = bool(self.automaton[0][places.QUIET])
        super().__init__()
        warm(advance, let_pass, *KERNELS, settle_ways, watch_groups)

    def clear(self) -> None:
        super().clear()
        self.starts = np.zeros((ROOM, places.START_WORDS), np.int64)  # line 0 is looked at in place of none
        self.ways = np.zeros((ROOM, places.WAY_WORDS), np.int64)
        self.nodes = np.empty((ROOM, places.NODE_WORDS), np.int64)
        self.waiting = np.empty((ROOM, places.WAITING_WORDS), np.int64)
        self.takes = np.empty(ROOM, np.int64)
        self.desk[[places.FREE_STARTS, places.FREE_WAYS, places.FREE_NODES, places.FREE_WAITING]] = places.NONE
        self.desk[places.USED_WAYS] = 1  # way 0 is for trying
        self.whole = np.zeros(POOL_WORDS, np.int64)
        self._make_registers()

    def _make_registers(self) -> None:
        registers = self.loop.registers
        self.registers = np.zeros(max(len(self.ways) * registers.width, 1), np.int64)
        self.pool = np.zeros((max(len(self.ways) * len(registers.sums), 1), POOL_WORDS), np.int64)

    @property
    def bytes(self) -> int:
        tables = (*self.tables, self.takes, self.registers, self.pool)
        return sum(table.nbytes for table in tables)

    @property
    def tables(self) -> tuple[np.ndarray, ...]:
        return (self.groups, self.starts, self.ways, self.nodes, self.waiting, self.desk, self.emitted, self.heap)

    def _all(self, bits: np.ndarray = _NO_BITS, judging: Callee = NOT_CALLED) -> Any:
        """What the kernels take."""
        conditions = (bits, self.registers, self.pool, self.sums, self.takes, judging)
        return self._hand([*self.tables, *self.automaton, *conditions])

    # Rows and time

    def _advance(
        self, numbers: np.ndarray, time: np.ndarray, first: int, bits: np.ndarray, now: int, arguments: Sequence[np.ndarray | None]
    ) -> int:
        return int(advance(self._all(bits, self._called(now, arguments)), len(time), numbers, time, first))

    def _called(self, now: int, columns: Sequence[np.ndarray | None]) -> Callee:
        """The conditions over rows of the match, as the loop calls them while no table is made anew."""
        own = (self.registers, self.registers.view(np.float64), self.pool, self.whole, np.array([now]))
        return self.loop.judging.called(own, columns)

    def settle(self, before: int) -> None:
        if self.quiet:
            settle_ways(self._all(), before)

    def pass_time(self, before: int) -> Iterator[Emitted | None]:
        self.begin()
        while self.desk[places.HEAP] and self.heap[0, 0] < before:
            wanted = let_pass(self._all(), before)
            if wanted and not self.desk[places.EMITTED]:
                self.emitted = np.empty((2 * wanted, places.EMITTED_WORDS), np.int64)
                continue
            yield self._collected()

    def watch(self, groups: np.ndarray) -> None:
        """Groups `groups`, int64[m], have open starts of which the heap does not know."""
        self._fit("heap", int(self.desk[places.HEAP]) + len(groups))
        watch_groups(self._all(), groups)

    def add_lines(self, name: str, used: int, count: int) -> int:
        ways = len(self.ways)
        first = super().add_lines(name, used, count)
        if len(self.ways) > ways:
            self._extend_registers(ways)
        return first

    def _collected(self) -> Emitted | None:
        n = int(self.desk[places.EMITTED])
        if not n:
            return None
        lines = self._lines_out()
        counts = np.empty(n, np.int64)
        rows = np.empty((count_rows(self.nodes, lines, counts), 4), np.int64)
        take_rows_of(self._all(), lines, counts, rows)
        return Emitted(lines, rows)

    def _make_room(self, full: bool) -> None:
        wanted, desk = int(self.desk[places.WANTED]), self.desk
        self._fit("starts", int(desk[places.USED_STARTS]) + 2)
        ways = len(self.ways)
        self._fit("ways", int(desk[places.USED_WAYS]) + wanted)
        if len(self.ways) > ways:
            self._extend_registers(ways)
        self._fit("nodes", int(desk[places.USED_NODES]) + wanted)
        self._fit("waiting", int(desk[places.USED_WAITING]) + 2)
        self._fit("heap", int(desk[places.HEAP]) + 2)
        self._fit("emitted", int(desk[places.EMITTED]) + wanted)
        if len(self.takes) <= wanted:
            self.takes = np.empty(2 * wanted, np.int64)

    def _extend_registers(self, ways: int) -> None:
        registers, pool = self.registers, self.pool
        self._make_registers()
        words, sums = ways * self.loop.registers.width, ways * len(self.loop.registers.sums)
        self.registers[:words], self.pool[:sums] = registers[:words], pool[:sums]

    # What rows and groups anything has

    def oldest_row(self, rows: int) -> tuple[int, int] | None:
        if self.operator.unmatched:
            return None  # a row may wait that is of no start
        oldest, starts = oldest_way_row(self.starts[: self.desk[places.USED_STARTS]])
        return min(oldest, rows), starts

    def named_rows(self, rows: int) -> np.ndarray:
        """uint8[rows]: which of them anything has."""
        out = np.zeros(rows, np.uint8)
        mark_rows(self.nodes[: self.desk[places.USED_NODES]], self.waiting[: self.desk[places.USED_WAITING]], out)
        return out

    def renumber_rows(self, numbers: np.ndarray) -> None:
        """`numbers`: of each row that anything has its new number."""
        used = ((self.nodes, places.USED_NODES), (self.starts, places.USED_STARTS), (self.waiting, places.USED_WAITING))
        renumber_way_rows(*(table[: self.desk[word]] for table, word in used), numbers)

    def idle_groups(self, groups: int) -> np.ndarray:
        idle: np.ndarray = super().idle_groups(groups) & (self.groups[:groups, places.WAITING_FIRST] < 0)
        return idle

    def keep_groups(self, kept: np.ndarray) -> np.ndarray:
        numbers = super().keep_groups(kept)
        used = self.starts[: self.desk[places.USED_STARTS], places.GROUP]
        used[used >= 0] = numbers[used[used >= 0]]
        return numbers


# --- the automaton as arrays ------------------------------------------------------------------------------------------


def _arrays(operator: PatternWays, loop: WaysLoop) -> tuple[np.ndarray, ...]:
    """As the loops have them: parameters, edges, states, waits, arrive, arriving, initial."""
    automaton, numbers = operator.automaton, {name: number for number, (name, _) in enumerate(operator.define)}
    edges: list[tuple[int, ...]] = []
    states: list[tuple[int, ...]] = []
    waits: list[tuple[int, int]] = []
    for state in automaton.states:
        first, waiting = len(edges), len(waits)
        for edge in state.edges:
            takes = numbers[automaton.variables[edge.target]]
            gap = places.FAR if edge.gap is None else edge.gap
            edges.append((edge.target, takes, BYS.index(edge.by), gap, _bits(edge.forbids, numbers), _bits(edge.directly, numbers)))
        spans = () if state.wait is None else state.wait.spans
        waits += [(numbers[name], span) for name, span in spans]
        directly = 0 if state.wait is None else _bits(state.wait.directly, numbers)
        span = max((span for _, span in spans), default=0)
        states.append((first, len(edges), waiting, len(waits), directly, span, *_heeded(automaton, state, numbers)))
    arriving = [number for items in automaton.arrive for number in items]
    stops = np.cumsum([len(items) for items in automaton.arrive]).tolist()
    arrive = [
        (stop - len(items), stop, numbers[name]) for stop, items, name in zip(stops, automaton.arrive, automaton.variables, strict=True)
    ]
    return (
        _parameters(operator, loop, numbers),
        _table(edges, places.EDGE_WORDS),
        _table(states, places.STATE_WORDS),
        _table(waits, 2),
        _table(arrive, 3),
        np.array(arriving, np.int64),
        np.array(automaton.initial, np.int64),
    )


def _heeded(automaton: Automaton, state: WayState, numbers: dict[str, int]) -> tuple[int, bool]:
    """HEEDED and FRAGILE of a state."""
    found = _bits(frozenset(automaton.variables[edge.target] for edge in state.edges), numbers)
    fragile = any(edge.by == NEXT or edge.forbids or edge.directly for edge in state.edges) or state.wait is not None
    for edge in state.edges:
        found |= _bits(edge.forbids | edge.directly, numbers) | (places.ANY_ROW if edge.by == NEXT else 0)
    if state.wait is not None:
        found |= _bits(frozenset(name for name, _ in state.wait.spans), numbers) | (places.ANY_ROW if state.wait.directly else 0)
    return found, fragile


def _table(lines: Sequence[tuple[int, ...]], words: int) -> np.ndarray:
    return np.array(lines, np.int64).reshape(-1, words)


def _bits(names: frozenset[str], numbers: dict[str, int]) -> int:
    return sum(1 << numbers[name] for name in names)


def _parameters(operator: PatternWays, loop: WaysLoop, numbers: dict[str, int]) -> np.ndarray:
    found = parameters_of(operator, numbers)
    found[places.REGISTERS] = loop.registers.width
    found[places.CORRELATED], found[places.REMEMBERED] = loop.judging.conditions, loop.judging.takings
    found[places.FAN], found[places.FAN_FIRST] = _fans(operator.automaton)
    found[places.QUIET] = found[places.SIMPLE] and _is_quiet(operator)
    found[places.INITIAL] = _bits(frozenset(operator.automaton.variables[target] for target in operator.automaton.initial), numbers)
    return found


def _is_quiet(operator: PatternWays) -> bool:
    """Does nothing come out when time ends a start: no match to which another was preferred, that waited for an earlier one, or for
    something not to come?"""
    if any(state.wait is not None for state in operator.automaton.states):
        return False
    apart = operator.matches == ALL or operator.after == TO_NEXT
    decided = operator.matches == ALL or not _may_wait(operator.automaton)
    return apart and decided and not operator.timed_out and not operator.unmatched


def _may_wait(automaton: Automaton) -> bool:
    """May a start have a way that is complete while one that is preferred to it still awaits something? Where a row may be taken in several
    ways, or what has taken it goes on in several, the later ones of these may come to the end first."""
    taken = [automaton.initial, *([edge.target for edge in state.edges] for state in automaton.states)]
    made = [[state for position in positions for state in automaton.arrive[position]] for positions in taken]
    return any(state != COMPLETE for ways in made for state in ways[:-1])


def _fans(automaton: Automaton) -> tuple[int, int]:
    """How many ways at most a row makes of one, and of none; at least the edges of a state."""
    arriving = [len(items) for items in automaton.arrive]
    fans = [max(len(state.edges), sum(arriving[edge.target] for edge in state.edges)) for state in automaton.states]
    return max(fans, default=0) + 1, sum(arriving[target] for target in automaton.initial) + 1


assert COMPLETE == places.COMPLETE
