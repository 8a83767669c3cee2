"""Aggregates of many functions: what would be one loop of thousands of lines becomes a loop that calls a few functions of a few lines.

A compiler's time grows faster than the function that it is given, above all where it is inlined in several places. So where there are many
states, those of which the source is the same but for its columns and places are taken `STATES` at a time into a function that is not
inlined (`cep.kernels.jit.apart`): 200 sums are one such function, called 25 times. A call is a few ns for each row and function. Shapes of
few states, which are most, stay one loop: there is nothing to win.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from cep.compile.aggregate.states import AggregateState, Arguments

#: From so many states on, and how many states a function has.
APART_FROM, STATES = 24, 8

#: (state, its columns, its place, the place of what is merged into it) -> lines of source, or one term.
Lines = Callable[[AggregateState, Arguments, str, str], list[str]]

_UPDATE = "entries, arena, used, pool, pooled, i, time"
_MERGE = "entries, arena, used, pool, pooled, other, other_arena, other_pool"
_ROOM, _MERGE_ROOM = "entries, i, time", "entries, other, other_arena"


@dataclass
class Apart:
    """`states` with their places in an entry; `functions` is the source of what the lines that were asked for call."""

    states: Sequence[AggregateState]
    places: Sequence[int]
    _names: dict[str, str] = field(default_factory=dict)  # source but for its name -> name

    @property
    def functions(self) -> str:
        return "".join(source.replace("APART", name, 1) for source, name in self._names.items())

    def first(self, count: int) -> Apart:
        """Of the first `count` states alone; what their lines call is among `functions` here."""
        return Apart(self.states[:count], self.places[:count], self._names)

    @property
    def is_worth_it(self) -> bool:
        return sum(map(_values, self.states)) >= APART_FROM

    def update(self, arguments: Arguments) -> list[str]:
        return self._calls(
            _origin(_UPDATE, self.states), lambda state, columns, at, _: state.update(columns, at), arguments, "used, pooled"
        )

    def merge(self) -> list[str]:
        return self._calls(_MERGE, lambda state, _, at, s: state.merge(at, s), None, "used, pooled")

    def answer(self) -> list[str]:
        return self._calls(_MERGE, lambda state, _, at, s: state.answer(at, s), None, "used, pooled")

    def room(self, arguments: Arguments) -> list[str]:
        return self._calls(_origin(_ROOM, self.states), lambda state, columns, at, _: _term(state.room(columns, at)), arguments, "")

    def merge_room(self) -> list[str]:
        return self._calls(_MERGE_ROOM, lambda state, _, at, s: _term(state.merge_room(at, s)), None, "")

    def answer_room(self) -> list[str]:
        return self._calls(_MERGE_ROOM, lambda state, _, at, s: _term(state.answer_room(at, s)), None, "")

    def _calls(self, given: str, lines: Lines, arguments: Arguments | None, result: str) -> list[str]:
        """Calls that do `lines` of all states; without `result` they are terms of a sum."""
        alike: dict[tuple[str, ...], list[tuple[AggregateState, int]]] = {}
        for state, place in zip(self.states, self.places, strict=True):
            columns = Arguments()
            source = lines(state, columns, "at", "s")
            if source:
                alike.setdefault((*source, *self._types_of(state, columns)), []).append((state, place))
        groups = [group for found in alike.values() for group in _in_groups(found)]
        return [self._call(group, given, lines, arguments, result) for group in groups]

    def _types_of(self, state: AggregateState, columns: Arguments) -> list[str]:
        """Two states whose columns have other types are not alike, though their lines may be."""
        fields = getattr(state, "column", None), getattr(state, "by", None), *getattr(state, "columns", ())
        return [*(repr(getattr(each, "type", None)) for each in fields), *columns.used]

    def _call(self, group: Sequence[tuple[AggregateState, int]], given: str, lines: Lines, arguments: Arguments | None, result: str) -> str:
        body: list[str] = []
        names, values = [], []
        for j, (state, place) in enumerate(group):
            columns = Arguments(suffix=f"_{j}")
            body += lines(state, columns, f"a{j}", f"s{j}")
            names += [f"a{j}", *([] if arguments is not None else [f"s{j}"]), *columns.used]
            values += [f"at + {place}", *([] if arguments is not None else [f"s + {place}"])]
            values += [] if arguments is None else [arguments.of(*wanted) for wanted in columns.used.values()]
        done = [*body, f"return {result}"] if result else [f"return {' + '.join(body)}"]
        source = f"\n\n@apart\ndef APART({given}, {', '.join(names)}):\n" + "".join(f"    {line}\n" for line in done)
        name = self._names.setdefault(source, f"apart_{len(self._names)}")
        call = f"{name}({given}, {', '.join(values)})"
        return f"{result} = {call}" if result else call


def _values(state: AggregateState) -> int:
    """How many columns it remembers a value of."""
    return len(getattr(state, "columns", (None,)))


def _in_groups(states: Sequence[tuple[AggregateState, int]]) -> Iterator[Sequence[tuple[AggregateState, int]]]:
    """Those of a function, which are alike."""
    most = max(1, STATES // _values(states[0][0]))
    return (states[start : start + most] for start in range(0, len(states), most))


def _origin(given: str, states: Sequence[AggregateState]) -> str:
    return f"{given}, origin" if any(state.origin for state in states) else given


def _term(term: str) -> list[str]:
    return [term] if term else []


def identity_lines(states: Sequence[AggregateState], first: int) -> list[str]:
    """Sets the words of an entry from `first` on; of many states equal ones behind each other in a loop."""
    words = [word for state in states for word in state.identity()]
    lines: list[str] = []
    start = 0
    while start < len(words):
        stop = start
        while stop < len(words) and words[stop] == words[start]:
            stop += 1
        if len(states) >= APART_FROM and stop - start > 2:
            lines += [f"for k in range(at + {first + start}, at + {first + stop}):", f"    entries[k] = {words[start]}"]
        else:
            lines += [f"entries[at + {first + k}] = {words[k]}" for k in range(start, stop)]
        start = stop
    return lines
