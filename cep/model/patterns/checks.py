"""What a pattern may not be, found when it is built; pointers are relative to the document of the operator."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from cep.errors import QueryError, meant
from cep.model.patterns.automaton import COMPLETE, POSITIONS_MAX, Automaton, Transition, automaton_of
from cep.model.patterns.parts import ALL_OF_MAX, ANY, THEN, AllOf, AnyOf, Not, PatternPart, Repeat, Seq, Var, walk

FIRST, ALL = MATCHES = ("first", "all")
PAST_LAST, TO_NEXT, TO_FIRST, TO_LAST = "past_last", "to_next", "to_first", "to_last"
VARIABLES_MAX = 62
"""Variables of a pattern: a bit of a word each."""


def checked_automaton(part: PatternPart, matches: str, after: str, within: int | None, ttl: int | None) -> Automaton:
    """The automaton of a part that stands alone. Raises QueryError, its pointer as in the document of the operator."""
    try:
        _check_shape(part)
        part = with_by(part, None, "")
        if may_take_nothing(part):
            raise QueryError("the pattern may take no row: expected a part that takes at least one")
        _check_negations(part, ttl)
        automaton = automaton_of(part)
        if matches == FIRST:
            _check_first(part, automaton, within)
            _check_after(automaton, after)
    except QueryError as error:
        raise error if error.pointer.startswith("/after") else error.under("/pattern") from None
    return automaton


# --- shape -----------------------------------------------------------------------------------------------------------


def may_take_nothing(part: PatternPart) -> bool:
    match part:
        case Var():
            return False
        case Seq(items=items):
            return all(may_take_nothing(item) for item in items if not isinstance(item, Not))
        case AllOf(items=items):
            return all(map(may_take_nothing, items))
        case AnyOf(items=items):
            return any(map(may_take_nothing, items))
        case Repeat():
            return part.least == 0 or may_take_nothing(part.item)
    return True


def _check_shape(part: PatternPart) -> None:
    places = 0
    for each, pointer in walk(part):
        places += isinstance(each, Var | Not)
        match each:
            case Seq(items=items) | AnyOf(items=items) | AllOf(items=items) if not items:
                raise QueryError("expected at least one part", pointer)
            case AllOf(items=items) if len(items) > ALL_OF_MAX:
                raise QueryError(f"all_of: expected at most {ALL_OF_MAX} parts, got {len(items)}", pointer)
            case AnyOf(items=items) | AllOf(items=items) if any(isinstance(item, Not) for item in items):
                raise QueryError("a negation stands in a seq alone, between two parts of it or at the end", pointer)
            case Repeat():
                _check_repeat(each, pointer)
    if isinstance(part, Not):
        raise QueryError("a negation stands in a seq alone, between two parts of it or at the end")
    if places > POSITIONS_MAX:
        raise QueryError(f"the pattern has {places} places of variables, expected at most {POSITIONS_MAX}")


def _check_repeat(repeat: Repeat, pointer: str) -> None:
    least, most = repeat.least, repeat.most
    if least < 0 or (most is not None and (most < 1 or most < least)):
        raise QueryError(f"expected 0 ≤ min ≤ max and 1 ≤ max, got {least} and {most}", pointer)
    if isinstance(repeat.item, Not):
        raise QueryError("a negation is not repeated: it stands in a seq, between two parts of it or at the end", pointer)
    if may_take_nothing(repeat.item):
        raise QueryError(
            "what is repeated may take no row, so that it could be repeated for ever: make it take at least one, and say min: 0",
            f"{pointer}/repeat",
        )


def with_by(part: PatternPart, by: str | None, pointer: str) -> PatternPart:
    """With what a repeat has of the seq around it. Raises QueryError: it is not said."""
    match part:
        case Seq(items=items):
            if part.by is None and sum(not isinstance(item, Not) for item in items) > 1:
                raise QueryError("a seq says how near its rows have to be: by: next, then or any", f"{pointer}/by")
            own = part.by or by
            return replace(part, items=tuple(with_by(item, own, f"{pointer}/seq/{i}") for i, item in enumerate(items)))
        case AllOf(items=items):
            if part.by is None:
                raise QueryError("all_of says how near its rows have to be: by: next, then or any", f"{pointer}/by")
            return replace(part, items=tuple(with_by(item, part.by, f"{pointer}/all_of/{i}") for i, item in enumerate(items)))
        case AnyOf(items=items):
            return replace(part, items=tuple(with_by(item, by, f"{pointer}/any_of/{i}") for i, item in enumerate(items)))
        case Repeat():
            own = part.by or by
            if own is None and part.most != 1:
                raise QueryError("a repeat outside a seq says how near its rows have to be: by: next, then or any", f"{pointer}/by")
            return replace(part, by=own, item=with_by(part.item, own, f"{pointer}/repeat"))
    return part


def _check_negations(part: PatternPart, ttl: int | None) -> None:
    for each, pointer in walk(part):
        for i, item in enumerate(each.items if isinstance(each, Seq) else ()):
            if isinstance(item, Not):
                _check_negation(item, i, f"{pointer}/seq/{i}", ttl)
    items = part.items if isinstance(part, Seq) else ()
    last = items[-1] if items else None
    if isinstance(last, Not) and last.for_ is None and not last.directly:
        raise QueryError(f"not {last.name!r} at the end: for how long? Say for, such as 30m, or next: true", f"/seq/{len(items) - 1}")


def _check_negation(item: Not, place: int, pointer: str, ttl: int | None) -> None:
    if place == 0:
        raise QueryError(f"not {item.name!r}: nothing stands before it", pointer)
    if item.directly and item.for_ is not None:
        raise QueryError(f"not {item.name!r}: expected next or for, got both", pointer)
    if item.for_ is not None and ttl is not None and item.for_ > ttl:
        raise QueryError(f"not {item.name!r}: for is longer than ttl, after which the group is forgotten", f"{pointer}/for")


# --- how the first match is found -------------------------------------------------------------------------------------


def _check_first(part: PatternPart, automaton: Automaton, within: int | None) -> None:
    for each, pointer in walk(part):
        if isinstance(each, Seq | AllOf | Repeat) and each.by == ANY:
            raise QueryError("by: any takes every later row, so it is for matches: all; expected next or then", f"{pointer}/by")
    if within is None and _never_ends(automaton):
        raise QueryError(
            "a greedy repeat without end stands last under then, so a match would never be decided: say within, or a gap, or make it "
            "reluctant"
        )


def _never_ends(automaton: Automaton) -> bool:
    """May a way that is complete go on for ever, for whatever time, preferring that?"""
    for position, items in enumerate(automaton.arrive):
        ends = [i for i, number in enumerate(items) if number == COMPLETE or automaton.states[number].wait is not None]
        for number in items[: ends[-1]] if ends else ():
            for edge in automaton.states[number].edges if number != COMPLETE else ():
                if edge.by == THEN and edge.gap is None and position in _behind(automaton, edge.target, lambda variable: True):
                    return True
    return False


def _behind(automaton: Automaton, position: int, passes: Callable[[str], bool]) -> set[int]:
    """`position` and what can be reached from there, over positions of variables that pass."""
    found, waiting = set[int](), [position]
    while waiting:
        at = waiting.pop()
        if at not in found and passes(automaton.variables[at]):
            found.add(at)
            waiting += (edge.target for edge in _edges(automaton, at))
    return found


def _edges(automaton: Automaton, position: int) -> list[Transition]:
    return [edge for number in automaton.arrive[position] if number != COMPLETE for edge in automaton.states[number].edges]


def _ends(automaton: Automaton, positions: Collection[int]) -> bool:
    """May a match end at one of them?"""
    return any(number == COMPLETE or automaton.states[number].wait is not None for at in positions for number in automaton.arrive[at])


def _check_after(automaton: Automaton, after: str) -> None:
    how, _, variable = after.partition(" ")
    if how in (PAST_LAST, TO_NEXT) and not variable:
        return
    if how not in (TO_FIRST, TO_LAST) or not variable:
        raise QueryError(f"after: expected past_last, to_next, to_first V or to_last V, got {after!r}", "/after")
    if variable not in automaton.variables:
        near = meant(variable, automaton.variables)
        raise QueryError(f"after: no variable {variable!r} takes a row{near}", "/after")
    others = [_behind(automaton, start, lambda name: name != variable) for start in automaton.initial]
    if any(_ends(automaton, positions) for positions in others):
        raise QueryError(f"after: {variable!r} may have no row in a match, so it does not say where to go on", "/after")
    firsts = [start for start in automaton.initial if automaton.variables[start] == variable]
    if how == TO_FIRST and firsts:
        raise QueryError(f"after: {variable!r} may have the first row of a match, at which the same match would be found again", "/after")
    for start in firsts:
        rest = set().union(*(_behind(automaton, edge.target, lambda name: name != variable) for edge in _edges(automaton, start)))
        if _ends(automaton, (start,)) or _ends(automaton, rest):
            raise QueryError(f"after: the last row of {variable!r} may be the first of a match, which would be found again", "/after")
