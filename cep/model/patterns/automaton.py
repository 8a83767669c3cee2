"""A pattern as an automaton over rows: where a way through it may go on from each place, the preferred first.

    {seq: [A, {repeat: B}, C], by: then}          start ─A→ 0 ─B→ 1 ─C→ 2 ■        1 ─B→ 1 before 1 ─C→ 2

1. A *position* is one place in the pattern that takes a row; what is repeated up to n times has n of them, and what is repeated without
   end leads back to itself. Parts are first joined by steps that take no row, in order of preference (Thompson); then each position gets
   what it reaches by such steps (Glushkov), in that order.
2. How near the next row has to be, and how far apart it may be, says the outermost part between the two: the seq or repeat in which they
   are neighbours. What is negated on the way stands with the edge.
3. A *state* is what a way awaits: some edges of a position, or, at the end of the pattern, that nothing comes (`wait`). Where the end is
   preferred to one edge and not to another a position has two states, and a way that comes there goes on as one for each, in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import permutations

from cep.errors import QueryError
from cep.model.duration import format_duration
from cep.model.patterns.parts import AllOf, AnyOf, Not, PatternPart, Repeat, Seq, Var

POSITIONS_MAX = 256
"""Places of variables in a pattern as it is written."""
STATES_MAX = 4_096
"""Positions of the automaton."""
#: In place of a state: the pattern has ended.
COMPLETE = -1


@dataclass(frozen=True)
class Transition:
    """The next row that is taken, at position `target`. `gap`: µs after the last one at most; `forbids`: variables that no row between may
    satisfy; `directly`: that the row right behind may not."""

    target: int
    by: str
    gap: int | None = None
    forbids: frozenset[str] = frozenset()
    directly: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Absence:
    """The end of the pattern, if no later row up to `spans` µs satisfies a variable, and the row right behind none of `directly`."""

    spans: tuple[tuple[str, int], ...]
    directly: frozenset[str] = frozenset()


@dataclass(frozen=True)
class WayState:
    """What a way at `position` awaits: one of `edges`, or that `wait` is over."""

    position: int
    edges: tuple[Transition, ...]
    wait: Absence | None = None


@dataclass(frozen=True)
class Automaton:
    """`variables`: which each position takes. `states`; `arrive`: for each position what a way goes on as that has come there, in order of
    preference, states by number or COMPLETE; `initial`: where the first row may be taken, in order."""

    variables: tuple[str, ...]
    states: tuple[WayState, ...]
    arrive: tuple[tuple[int, ...], ...]
    initial: tuple[int, ...]

    @cached_property
    def only_waits(self) -> bool:
        """Is a match one row, and what has taken it waits for nothing but that none comes, all for one and the same time?"""
        spans = [None if state.wait is None or state.edges else {span for _, span in state.wait.spans} for state in self.states]
        return bool(spans) and all(each is not None and len(each) < 2 and each == spans[0] for each in spans)

    @cached_property
    def text(self) -> str:
        """A line for each position: `1 B: B then 1, C then 2`; ■ is the end."""
        begin = ", ".join(f"{self.variables[target]} {target}" for target in self.initial)
        return "\n".join([f"start: {begin}", *(self._line(position) for position in range(len(self.variables)))])

    def _line(self, position: int) -> str:
        return f"{position} {self.variables[position]}: " + ", ".join(self._awaited(position))

    def _awaited(self, position: int) -> Iterator[str]:
        for number in self.arrive[position]:
            if number == COMPLETE:
                yield "■"
                continue
            state = self.states[number]
            yield from self.wait_texts(state)
            yield from map(self.edge_text, state.edges)

    def wait_texts(self, state: WayState) -> Iterator[str]:
        """What may not come at the end, if anything."""
        if state.wait is not None:
            for name, span in state.wait.spans:
                yield f"■ after no {name} for {format_duration(span)}"
            yield from (f"■ after no {name} next" for name in sorted(state.wait.directly))

    def edge_text(self, edge: Transition) -> str:
        return f"{self.variables[edge.target]} {edge.by} {edge.target}{self.bounds_text(edge)}"

    def bounds_text(self, edge: Transition) -> str:
        """What may not come between, and how far apart the two may be."""
        forbids = "".join(f" without {name}" for name in sorted(edge.forbids))
        directly = "".join(f" not directly {name}" for name in sorted(edge.directly))
        gap = "" if edge.gap is None else f" within {format_duration(edge.gap)}"
        return f"{forbids}{directly}{gap}"


def automaton_of(part: PatternPart) -> Automaton:
    """Raises QueryError: it has too many places, or what stands at the end does not."""
    made = _Thompson()
    start = made.part(part, made.accept, 0, None)
    made.number_from_the_front()
    positions = [_reached(made, made.behind[position]) for position in range(len(made.variables))]
    states: list[WayState] = []
    arrive = [_states_of(position, reached, states) for position, reached in enumerate(positions)]
    initial = [each.target for each in _reached(made, start) if isinstance(each, Transition)]
    return Automaton(tuple(made.variables), tuple(states), tuple(arrive), tuple(dict.fromkeys(initial)))


def _states_of(position: int, reached: Sequence[Transition | Absence], states: list[WayState]) -> tuple[int, ...]:
    """What a way is that has come to `position`; adds its states."""
    found, edges = [], list[Transition]()

    def end_segment() -> None:
        if edges:
            found.append(len(states))
            states.append(WayState(position, tuple(edges)))
            edges.clear()

    for each in reached:
        if isinstance(each, Transition):
            edges.append(each)
            continue
        end_segment()
        if each.spans or each.directly:
            found.append(len(states))
            states.append(WayState(position, (), each))
        else:
            found.append(COMPLETE)
    end_segment()
    return tuple(found)


@dataclass(frozen=True)
class _Step:
    """To a node without a row. `depth`: of the part whose neighbours it joins, by `by`; `negated`: what it passes."""

    node: int
    depth: int | None = None
    by: str = ""
    gap: int | None = None
    negated: Not | None = None


@dataclass(frozen=True)
class _Path:
    """What the steps so far say of the edge that they are to become."""

    depth: int | None = None
    by: str = ""
    gap: int | None = None
    negated: tuple[Not, ...] = ()

    def behind(self, step: _Step) -> _Path:
        path = self if step.negated is None or step.negated in self.negated else replace(self, negated=(*self.negated, step.negated))
        if step.depth is None or (path.depth is not None and path.depth <= step.depth):
            return path
        return replace(path, depth=step.depth, by=step.by, gap=step.gap)

    def edge(self, target: int) -> Transition:
        late = next((each for each in self.negated if each.for_ is not None), None)
        if late is not None:
            raise QueryError(f"not {late.name!r} for a time: expected at the end of the pattern, a row follows it")
        forbids = frozenset(each.name for each in self.negated if not each.directly)
        return Transition(target, self.by, self.gap, forbids, frozenset(each.name for each in self.negated if each.directly))

    def wait(self) -> Absence:
        spans = tuple((each.name, each.for_) for each in self.negated if each.for_ is not None)
        return Absence(spans, frozenset(each.name for each in self.negated if each.directly))


class _Thompson:
    """Nodes with steps in order of preference; node `takes[n]` is position n, and `behind[n]` the node that it leads to."""

    def __init__(self) -> None:
        self.steps: list[list[_Step]] = [[]]
        self.accept = 0
        self.position: dict[int, int] = {}
        self.variables: list[str] = []
        self.behind: list[int] = []

    def number_from_the_front(self) -> None:
        """It was built from the end."""
        last = len(self.variables) - 1
        self.position = {node: last - position for node, position in self.position.items()}
        self.variables.reverse()
        self.behind.reverse()

    def node(self, *steps: _Step) -> int:
        self.steps.append(list(steps))
        return len(self.steps) - 1

    def part(self, part: PatternPart, after: int, depth: int, gap: int | None) -> int:
        """The node at which `part` begins, which goes on at node `after`; `gap` of the parts around it."""
        match part:
            case Var(name=name):
                return self._take(name, after)
            case Seq():
                return self._seq(part, after, depth, _less(gap, part.gap_us))
            case AnyOf(items=items):
                return self.node(*(_Step(self.part(item, after, depth + 1, gap)) for item in items))
            case AllOf():
                gap = _less(gap, part.gap_us)
                if len(part.items) < 3 or all(map(_is_one_word, part.items)):
                    return self._all_of(part, frozenset(), after, depth, gap, {})
                return self._orders(part, after, depth, gap)
            case Repeat():
                return self._repeat(part, after, depth, _less(gap, part.gap_us))
        raise AssertionError(part)

    def _take(self, name: str, after: int) -> int:
        if len(self.variables) == STATES_MAX:
            raise QueryError(f"the pattern has more than {STATES_MAX:,} places with its repetitions and orders written out")
        node = self.node()
        self.position[node] = len(self.variables)
        self.variables.append(name)
        self.behind.append(after)
        return node

    def _seq(self, seq: Seq, after: int, depth: int, gap: int | None) -> int:
        first = next(i for i, item in enumerate(seq.items) if not isinstance(item, Not))
        for i in range(len(seq.items) - 1, -1, -1):
            item = seq.items[i]
            if isinstance(item, Not):
                after = self.node(_Step(after, negated=item))
                continue
            after = self.part(item, after, depth + 1, gap)
            if i > first:
                after = self.node(_Step(after, depth, seq.by or "", gap))
        return after

    def _all_of(self, part: AllOf, taken: frozenset[int], after: int, depth: int, gap: int | None, known: dict[frozenset[int], int]) -> int:
        if len(taken) == len(part.items):
            return after
        if taken not in known:
            steps = []
            for i in range(len(part.items)):
                if i in taken:
                    continue
                rest = self._all_of(part, taken | {i}, after, depth, gap, known)
                begin = self.part(part.items[i], rest, depth + 1, gap)
                steps.append(_Step(begin, depth, part.by or "", gap) if taken else _Step(begin))
            known[taken] = self.node(*steps)
        return known[taken]

    def _orders(self, part: AllOf, after: int, depth: int, gap: int | None) -> int:
        """Each order by itself: whichever rows a part takes, all words of an order go before those of the next."""
        known: dict[tuple[int, ...], int] = {}

        def begin(order: tuple[int, ...]) -> int:
            if order not in known:
                rest = self.node(_Step(begin(order[1:]), depth, part.by or "", gap)) if order[1:] else after
                known[order] = self.part(part.items[order[0]], rest, depth + 1, gap)
            return known[order]

        return self.node(*(_Step(begin(order)) for order in permutations(range(len(part.items)))))

    def _repeat(self, repeat: Repeat, after: int, depth: int, gap: int | None) -> int:
        def one_more(begin: int) -> _Step:
            return _Step(begin, depth, repeat.by or "", gap)

        def choice(more: _Step) -> int:
            stop = _Step(after)
            return self.node(*((more, stop) if repeat.greedy else (stop, more)))

        written = max(repeat.least, 1)
        if repeat.most is None:
            loop = self.node()
            begin = self.part(repeat.item, loop, depth + 1, gap)
            stop, more = _Step(after), one_more(begin)
            self.steps[loop] += (more, stop) if repeat.greedy else (stop, more)
        else:
            tail = after
            for _ in range(repeat.most - written):
                tail = choice(one_more(self.part(repeat.item, tail, depth + 1, gap)))
            begin = self.part(repeat.item, tail, depth + 1, gap)
        for _ in range(written - 1):
            begin = self.part(repeat.item, self.node(one_more(begin)), depth + 1, gap)
        return begin if repeat.least else choice(_Step(begin))


def _is_one_word(part: PatternPart) -> bool:
    """Is there one row of it after the other in one way only?"""
    match part:
        case Seq(items=items):
            return all(isinstance(item, Not) or _is_one_word(item) for item in items)
        case Repeat(item=item):
            return part.least == part.most and _is_one_word(item)
    return isinstance(part, Var)


def _less(one: int | None, other: int | None) -> int | None:
    return min((each for each in (one, other) if each is not None), default=None)


def _reached(made: _Thompson, node: int) -> list[Transition | Absence]:
    """What steps without a row lead to from `node`, the preferred first; the same only once."""
    found: dict[Transition | Absence, None] = {}
    seen: set[tuple[int, _Path]] = set()
    waiting = [(node, _Path())]
    while waiting:
        node, path = waiting.pop()
        if (node, path) in seen:
            continue
        seen.add((node, path))
        if node == made.accept:
            found.setdefault(path.wait())
        elif node in made.position:
            found.setdefault(path.edge(made.position[node]))
        else:
            waiting += ((step.node, path.behind(step)) for step in reversed(made.steps[node]))
    return list(found)
