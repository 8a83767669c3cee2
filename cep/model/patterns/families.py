"""What may become of rows that a match may begin with, for patterns of which all matches are asked for.

How to read it:
1. A *family* is rows taken so far, with their variables. What it awaits is its *kind*: its ways, in no order, since every match comes out.
2. By the variables that a row may be a *step* leads from a kind to another, for the row may be left out, or to none; and for each variable
   that it is taken as to the kind of the family with it, or to none, and says whether that is a match.
3. So all families of one kind of a group go on together, however many they are (`cep.kernels.patterns.families`). That is right where
   conditions read no row of the match, and time ends all ways of a start at once: `why_by_ways` says where it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from cep.model.patterns.automaton import COMPLETE, Automaton
from cep.model.patterns.outlooks import CELLS_MAX, WAYS_MAX, OutlookWay, WayMoves

KINDS_MAX = 256
"""Kinds of families of a pattern of which all matches are asked for."""
#: Edges that are looked at for it: a moment's work.
EDGES_MAX = 65_536
#: In place of a kind: there is none.
NONE = -1

Kind = tuple[OutlookWay, ...]


@dataclass(frozen=True)
class FamilyChild:
    """A family with a row more, taken as `variable`: of a kind, or NONE; is it a match?"""

    variable: int
    kind: int
    complete: bool


@dataclass(frozen=True)
class FamilyStep:
    """What a row does to families of a kind: the kind of those without it, or NONE, and of those with it."""

    stays: int
    children: tuple[FamilyChild, ...]


@dataclass(frozen=True)
class Families:
    """By the bits of the variables that a row may be: `begins` are those that it begins, `steps` the numbers in `known` of what it does to
    those of each kind. `last`: is a start open until its time is over, whatever comes?"""

    begins: tuple[int, ...]
    steps: tuple[tuple[int, ...], ...]
    known: tuple[FamilyStep, ...]
    last: bool


def families_of(automaton: Automaton, numbers: Mapping[str, int]) -> Families | None:
    """`numbers` of variables. None: there are too many kinds, or it would take long to find them."""
    try:
        return _Building(WayMoves(automaton, numbers), 1 << len(numbers)).run() if 1 << len(numbers) <= CELLS_MAX else None
    except _TooManyKindsError:
        return None


class _TooManyKindsError(Exception):
    """There are more kinds, or larger ones, than is worth it."""


class _Building:
    """Kinds as they are found, and their steps."""

    def __init__(self, moves: WayMoves, sets: int) -> None:
        self.moves, self.sets = moves, sets
        self.kinds: dict[Kind, int] = {}
        self.waiting: list[Kind] = []
        self.known: dict[FamilyStep, int] = {}
        self.work = 0

    def run(self) -> Families:
        first = 0
        for target in self.moves.automaton.initial:
            first |= 1 << self.moves.takes[target]
        begins = self._line(first, self._begin)
        lines: list[tuple[int, ...]] = []
        while len(lines) < len(self.waiting):
            kind = self.waiting[len(lines)]
            lines.append(self._line(self.moves.heeded(kind), partial(self._step, kind)))
        known = tuple(self.known)
        return Families(begins, tuple(lines), known, self._last(begins, lines, known))

    def _line(self, heeded: int, step: Callable[[int], FamilyStep]) -> tuple[int, ...]:
        """By bits, of which those of `heeded` count, the number of a step."""
        found: dict[int, int] = {}
        for bits in range(self.sets):
            if bits & heeded not in found:
                found[bits & heeded] = self.known.setdefault(step(bits & heeded), len(self.known))
                if self.work > EDGES_MAX or len(self.waiting) > min(KINDS_MAX, CELLS_MAX // self.sets):
                    raise _TooManyKindsError
        return tuple(found[bits & heeded] for bits in range(self.sets))

    def _last(self, begins: tuple[int, ...], lines: list[tuple[int, ...]], known: tuple[FamilyStep, ...]) -> bool:
        """Is there always the family that is the first row alone?"""
        firsts = {child.kind for number in begins for child in known[number].children}
        seen: set[int] = set()
        while firsts - seen:
            kind = (firsts - seen).pop()
            seen.add(kind)
            firsts |= {NONE} if kind == NONE else {known[number].stays for number in lines[kind]}
        return NONE not in seen

    def _begin(self, bits: int) -> FamilyStep:
        """A row that may be these variables, as the first."""
        automaton = self.moves.automaton
        self.work += len(automaton.initial)
        taken = ((self.moves.takes[target], target) for target in automaton.initial if bits >> self.moves.takes[target] & 1)
        return FamilyStep(NONE, self._children(taken))

    def _step(self, kind: Kind, bits: int) -> FamilyStep:
        """A row that may be these variables, behind families of a kind."""
        moves = self.moves
        self.work += sum(len(moves.edges_of(way)) for way in kind)
        taken = [(edge.takes, edge.target) for way in kind for edge in moves.edges_of(way) if moves.taken(way, edge, bits)]
        staying = [moves.bare(each) for way in kind for each in moves.staying(way, bool(taken), bits)]
        return FamilyStep(self._number(staying), self._children(iter(taken)))

    def _children(self, taken: Iterator[tuple[int, int]]) -> tuple[FamilyChild, ...]:
        """`taken`: as which variable, at which position."""
        arrive, targets = self.moves.automaton.arrive, dict[int, list[int]]()
        for variable, target in taken:
            targets.setdefault(variable, []).append(target)
        return tuple(self._child(variable, [state for target in found for state in arrive[target]]) for variable, found in targets.items())

    def _child(self, variable: int, states: list[int]) -> FamilyChild:
        ways = [self.moves.bare(OutlookWay(state, 0)) for state in states if state != COMPLETE]
        return FamilyChild(variable, self._number(ways), COMPLETE in states)

    def _number(self, ways: list[OutlookWay]) -> int:
        kind = tuple(sorted(set(ways), key=repr))
        if not kind:
            return NONE
        if len(kind) > WAYS_MAX:
            raise _TooManyKindsError
        if kind not in self.kinds:
            self.kinds[kind] = len(self.kinds)
            self.waiting.append(kind)
        return self.kinds[kind]
