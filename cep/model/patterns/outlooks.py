"""What may become of a start, whichever rows it took and when: for patterns whose starts go on alike.

How to read it:
1. An *outlook* is what a start awaits: its ways in order of preference, and which of them have the same rows (a *chain*, by number).
2. By the variables that a row may be a *move* leads from an outlook to another, or to none. It says of each chain there which chain it was
   before, and as which variable the row was put behind that.
3. So all starts of one outlook go on together, and a row costs what it costs for one of them (`cep.kernels.patterns.cohorts`). That is
   right where conditions read no row of the match, and time ends all ways of a start at once: `why_apart` says where it is not. What
   may not come at the end is of that kind where it is all that is awaited (`Automaton.only_waits`).

A move does what `cep.kernels.patterns.loop` does with the ways of one start, step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from cep.model.patterns.automaton import COMPLETE, Automaton
from cep.model.patterns.checks import ALL
from cep.model.patterns.forms import Definitions
from cep.model.patterns.parts import NEXT, THEN
from cep.model.patterns.rows import rows_read

OUTLOOKS_MAX = 4_096
"""Outlooks of a pattern whose starts go on together."""
#: Of its tables: outlooks times sets of variables. And ways of an outlook, and of all for which moves are looked for: a moment's work.
CELLS_MAX, WAYS_MAX, WORK_MAX = 262_144, 64, 32_768
#: In place of a chain or a variable.
NONE = -1
#: In place of a move: nothing changes; there is no way left.
SAME, DEAD = -1, -2


@dataclass(frozen=True)
class OutlookWay:
    """A way's `state`, and the `chain` of its rows; `broken`, `direct`: negated variables that rows behind it were, and the row right
    behind it; `passed`: a row behind it was taken, so that `then` is over; `fresh`: none has come yet."""

    state: int
    chain: int
    broken: int = 0
    direct: int = 0
    passed: bool = False
    fresh: bool = True


Outlook = tuple[OutlookWay, ...]


@dataclass(frozen=True)
class OutlookMove:
    """To `outlook`; empty: the start is over. `chains`: of each chain there (chain before, variable), NONE: no row is put behind it."""

    outlook: Outlook
    chains: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Outlooks:
    """`begins`: by the bits of the variables that a row may be the move that begins a start, or DEAD. `moves`: of each outlook, by bits,
    the number of a move, SAME or DEAD. Of a move: `targets` the outlook, `chains` as `OutlookMove`. Of an outlook: `complete` the chain of
    the way that has ended, or will when its time is over, or NONE; `done`: is that the preferred way?"""

    begins: tuple[int, ...]
    moves: tuple[tuple[int, ...], ...]
    targets: tuple[int, ...]
    chains: tuple[tuple[tuple[int, int], ...], ...]
    complete: tuple[int, ...]
    done: tuple[bool, ...]

    @property
    def waits(self) -> bool:
        """May time make a match of what is none yet?"""
        return any(chain != NONE and not done for chain, done in zip(self.complete, self.done, strict=True))

    @property
    def overtakes(self) -> bool:
        """May a start have its match before an earlier one has, or is over? Also where it would take long to say."""
        sets = range(len(self.begins))
        waiting = {
            (older, self.targets[self.begins[bits]])
            for outlook in range(len(self.moves))
            for bits in sets
            if self.begins[bits] != DEAD and (older := self._behind(outlook, bits)) is not None
        }
        seen: set[tuple[int, int]] = set()
        while waiting:
            older, newer = pair = waiting.pop()
            if older == newer or self.done[older] or pair in seen:
                continue
            if self.done[newer] or len(seen) * len(sets) > CELLS_MAX:
                return True
            seen.add(pair)
            steps = ((self._behind(older, bits), self._behind(newer, bits)) for bits in sets)
            waiting |= {(one, other) for one, other in steps if one is not None and other is not None}
        return False

    def _behind(self, outlook: int, bits: int) -> int | None:
        """The outlook behind a row that may be these variables; None: it is over."""
        move = self.moves[outlook][bits]
        return outlook if move == SAME else None if move == DEAD else self.targets[move]


def why_apart(automaton: Automaton, matches: str, unmatched: bool, define: Definitions) -> str:
    """Why the starts of a pattern do not go on together, but each way of each by itself; empty: they do."""
    return "all matches are asked for" if matches == ALL else why_by_ways(automaton, unmatched, define, automaton.only_waits)


def why_by_ways(automaton: Automaton, unmatched: bool, define: Definitions, waits: bool = False) -> str:
    """Why neither starts nor families of a pattern go on together, but each way of each start by itself; empty: they may. `waits`: what may
    not come at the end is no reason."""
    if unmatched:
        return "rows in no match are asked for"
    for name, definition in define:
        if definition.condition is not None and rows_read(definition.condition):
            return f"the condition of {name} reads rows of the match"
    if not waits and any(state.wait is not None or any(edge.gap is not None for edge in state.edges) for state in automaton.states):
        return "a gap, or what may not come at the end, is of each way's own time"
    return ""


def outlooks_of(automaton: Automaton, numbers: Mapping[str, int]) -> Outlooks | None:
    """`numbers` of variables. None: there are too many."""
    return _Building(WayMoves(automaton, numbers), len(numbers)).run()


@dataclass(frozen=True)
class _Edge:
    target: int
    takes: int
    by: str
    forbids: int
    directly: int


@dataclass(frozen=True)
class _Wait:
    """What may not come while a way waits, and right behind its row. All ways wait for the same time, so a row that comes is in time."""

    forbids: int
    directly: int


class WayMoves:
    """What a row, by the bits of the variables that it may be, does to a way."""

    def __init__(self, automaton: Automaton, numbers: Mapping[str, int]) -> None:
        def bits(names: frozenset[str]) -> int:
            return sum(1 << numbers[name] for name in names)

        self.automaton = automaton
        self.takes = [numbers[name] for name in automaton.variables]
        waits = [state.wait for state in automaton.states]
        self.waits = [
            None if wait is None else _Wait(bits(frozenset(name for name, _ in wait.spans)), bits(wait.directly)) for wait in waits
        ]
        self.edges = [
            [_Edge(edge.target, self.takes[edge.target], edge.by, bits(edge.forbids), bits(edge.directly)) for edge in state.edges]
            for state in automaton.states
        ]

    def heeded(self, outlook: Outlook) -> int:
        """Variables, by bits, on which it depends what becomes of it."""
        found = 0
        for way in outlook:
            for edge in self.edges_of(way):
                found |= 1 << edge.takes | edge.forbids | edge.directly
            if (wait := self.wait_of(way)) is not None:
                found |= wait.forbids | wait.directly
        return found

    def begin(self, bits: int) -> OutlookMove:
        """A start whose first row may be these variables."""
        ways = [
            OutlookWay(state, self.takes[position])
            for position in self.automaton.initial
            if bits >> self.takes[position] & 1
            for state in self.automaton.arrive[position]
        ]
        return self._made(ways, {way.chain for way in ways}, {variable: (NONE, variable) for variable in self.takes})

    def step(self, outlook: Outlook, bits: int) -> OutlookMove:
        """Behind a row that may be these variables."""
        taken = [[self.taken(way, edge, bits) for edge in self.edges_of(way)] for way in outlook]
        hit = {way.chain for way, takes in zip(outlook, taken, strict=True) if any(takes)}
        before = {way.chain: (way.chain, NONE) for way in outlook}
        children: dict[tuple[int, int], int] = {}
        ways: list[OutlookWay] = []
        for way, takes in zip(outlook, taken, strict=True):
            for edge, takes_it in zip(self.edges_of(way), takes, strict=True):
                if takes_it:
                    child = children.setdefault((way.chain, edge.takes), len(before) + len(children))
                    ways += (OutlookWay(state, child) for state in self.automaton.arrive[edge.target])
            ways += self.staying(way, way.chain in hit, bits)
        return self._made(ways, set(children.values()), {**before, **{child: own for own, child in children.items()}})

    def edges_of(self, way: OutlookWay) -> Sequence[_Edge]:
        return () if way.state == COMPLETE else self.edges[way.state]

    def wait_of(self, way: OutlookWay) -> _Wait | None:
        return None if way.state == COMPLETE else self.waits[way.state]

    def taken(self, way: OutlookWay, edge: _Edge, bits: int) -> bool:
        if (edge.by == NEXT and not way.fresh) or (edge.by == THEN and way.passed):
            return False
        if edge.forbids & way.broken or edge.directly & way.direct or (way.fresh and edge.directly & bits):
            return False
        return bool(bits >> edge.takes & 1)

    def staying(self, way: OutlookWay, hit: bool, bits: int) -> Iterator[OutlookWay]:
        """The way behind a row that it has not taken, if it still awaits something."""
        if way.state == COMPLETE:
            yield way
            return
        if (wait := self.wait_of(way)) is not None:
            if not (bits & wait.forbids or (way.fresh and bits & wait.directly)):
                over = way.fresh and wait.directly and not wait.forbids
                yield replace(way, state=COMPLETE if over else way.state, fresh=False)
            return
        passed, broken, direct, alive = way.passed or hit, way.broken, way.direct, False
        for edge in self.edges[way.state]:
            if edge.by == NEXT or (edge.by == THEN and passed):
                continue
            direct |= edge.directly & bits if way.fresh else 0
            broken |= edge.forbids & bits
            alive = alive or not (edge.forbids & broken or edge.directly & direct)
        if alive:
            yield replace(way, passed=passed, broken=broken, direct=direct, fresh=False)

    def _made(self, ways: list[OutlookWay], new: set[int], chains: Mapping[int, tuple[int, int]]) -> OutlookMove:
        """Of the ways behind a row, which made the chains `new`, those that count."""
        ways = _cut(_merged(ways, new)) if ways else ways
        order: dict[int, int] = {}
        for way in ways:
            order.setdefault(way.chain, len(order))
        return OutlookMove(tuple(self.bare(replace(way, chain=order[way.chain])) for way in ways), tuple(chains[chain] for chain in order))

    def bare(self, way: OutlookWay) -> OutlookWay:
        """Without what makes no difference."""
        edges, forbids, wait = self.edges_of(way), 0, self.wait_of(way)
        directly = 0 if wait is None else wait.directly
        for edge in edges:
            forbids, directly = forbids | edge.forbids, directly | edge.directly
        return replace(
            way,
            broken=way.broken & forbids,
            direct=way.direct & directly,
            passed=way.passed and any(edge.by == THEN for edge in edges),
            fresh=way.fresh and (bool(directly) or any(edge.by == NEXT for edge in edges)),
        )


def _merged(ways: Sequence[OutlookWay], new: set[int]) -> list[OutlookWay]:
    """Of `new` chains whose ways go on alike only the preferred one stays."""
    ways = list(ways)
    for chain in dict.fromkeys(way.chain for way in ways if way.chain in new):
        for rival in dict.fromkeys(way.chain for way in ways):
            if rival == chain:
                break  # those behind it are no rivals
            if rival in new and _alike(ways, rival, chain):
                ways = [way for way in ways if way.chain != chain]
                break
    return ways


def _alike(ways: Sequence[OutlookWay], one: int, other: int) -> bool:
    """Do the ways with chain `one` await what those with the other do, each before its like?"""
    first = [(place, way.state) for place, way in enumerate(ways) if way.chain == one]
    second = [(place, way.state) for place, way in enumerate(ways) if way.chain == other]
    return len(first) == len(second) and all(a[1] == b[1] and a[0] < b[0] for a, b in zip(first, second, strict=True))


def _cut(ways: Sequence[OutlookWay]) -> list[OutlookWay]:
    """Behind a way that is complete none can be preferred. Those stay whose rows are those of a way before it: that one may not skip what
    they take."""
    kept: list[OutlookWay] = []
    complete, seen = False, set[int]()
    for way in ways:
        if complete and (way.state == COMPLETE or way.chain not in seen):
            continue
        if not complete:
            seen.add(way.chain)
        complete = complete or way.state == COMPLETE
        kept.append(way)
    return kept[:1] if kept[0].state == COMPLETE else kept


class _TooManyError(Exception):
    """There are more outlooks, or larger ones, than is worth it."""


class _Building:
    """Outlooks as they are found, and their moves."""

    def __init__(self, moves: WayMoves, variables: int) -> None:
        self.moves, self.sets = moves, 1 << variables
        self.outlooks: dict[Outlook, int] = {}
        self.waiting: list[Outlook] = []
        self.numbers: dict[tuple[int, tuple[tuple[int, int], ...]], int] = {}
        self.work = 0

    def run(self) -> Outlooks | None:
        try:
            return self._all() if self.sets <= CELLS_MAX else None
        except _TooManyError:
            return None

    def _all(self) -> Outlooks:
        heeded = 0
        for position in self.moves.automaton.initial:
            heeded |= 1 << self.moves.takes[position]
        begins = self._line(heeded, lambda bits: self._number(self.moves.begin(bits)))
        lines: list[tuple[int, ...]] = []
        while len(lines) < len(self.waiting):
            outlook = self.waiting[len(lines)]
            lines.append(self._line(self.moves.heeded(outlook), partial(self._move, outlook)))
        return self._found(begins, tuple(lines))

    def _line(self, heeded: int, move: Callable[[int], int]) -> tuple[int, ...]:
        known: dict[int, int] = {}
        for bits in range(self.sets):
            if bits & heeded not in known:
                known[bits & heeded] = move(bits & heeded)
        return tuple(known[bits & heeded] for bits in range(self.sets))

    def _move(self, outlook: Outlook, bits: int) -> int:
        move = self.moves.step(outlook, bits)
        self.work += len(outlook)
        same = move.outlook == outlook and all(own == (chain, NONE) for chain, own in enumerate(move.chains))
        return SAME if same else self._number(move)

    def _number(self, move: OutlookMove) -> int:
        if not move.outlook:
            return DEAD
        if move.outlook not in self.outlooks:
            self.outlooks[move.outlook] = len(self.outlooks)
            self.waiting.append(move.outlook)
            many = len(self.waiting) > min(OUTLOOKS_MAX, CELLS_MAX // self.sets)
            if many or len(move.outlook) > WAYS_MAX or self.work > WORK_MAX:
                raise _TooManyError
        return self.numbers.setdefault((self.outlooks[move.outlook], move.chains), len(self.numbers))

    def _ends(self, way: OutlookWay) -> bool:
        """Is it a match if nothing comes any more?"""
        return way.state == COMPLETE or self.moves.wait_of(way) is not None

    def _found(self, begins: tuple[int, ...], moves: tuple[tuple[int, ...], ...]) -> Outlooks:
        complete = [next((way.chain for way in ways if self._ends(way)), NONE) for ways in self.waiting]
        return Outlooks(
            begins,
            moves,
            tuple(target for target, _ in self.numbers),
            tuple(chains for _, chains in self.numbers),
            tuple(complete),
            tuple(ways[0].state == COMPLETE for ways in self.waiting),
        )
