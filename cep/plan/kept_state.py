"""What becomes of each part of a query that runs when a changed one takes its place: it keeps its state, has none, begins with none, or
cannot be. Pure.

State is found again by the name of its operator. It is kept where what makes its layout and its meaning is the same: kind, window, key,
functions, and the columns, in their types, that the operator has of its inputs. What stands between is free: maps and filters before and
behind may come, go, and be others. An operator whose state cannot be kept is refused, unless the query that is wanted is `fresh`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from itertools import zip_longest

from cep.model import operator_documents, sinks
from cep.model import streams as stream_documents
from cep.model.contract import phrases
from cep.model.functions import OF_A_ROW, Order, UserFunction
from cep.model.operators import Aggregate, Operator
from cep.model.query import Output, Query, options_to_json
from cep.plan.feeds import ties, words
from cep.plan.needed import beginnings, leaves_with_origin, needed_columns, restrict, wants_origin
from cep.plan.physical import PhysicalPlan
from cep.plan.validate import Validated, validate

#: Options that say where state is, or what was told of answers: they stay.
FIXED_OPTIONS = ("recover", "replicas", "buckets")
_KEEPS_NOTHING = ("window_start", "window_end")  # functions that are answered from the window alone


class Fate(Enum):
    KEEPS = "keeps its state"
    NONE = "has no state"
    ANEW = "begins with none"
    LOST = "its state is lost"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class PartFate:
    """Of one part of a query. `there`, `wanted`, `advice`: of one that is refused; `note`: what else there is to know."""

    part: str
    fate: Fate
    note: str = ""
    there: str = ""
    wanted: str = ""
    advice: str = ""

    def __str__(self) -> str:
        if self.fate is not Fate.REFUSED:
            return f"{self.part}: {self.fate.value}" + (f", {self.note}" if self.note else "")
        return f"{self.part}: there is {self.there}; wanted is {self.wanted}; {self.advice}"


@dataclass(frozen=True)
class ComparedQuery:
    """The query that is there, or the one that is wanted. `plan.query` is in full. `fresh`: of one that is wanted, its operators begin with
    no state where they cannot keep what there is."""

    plan: PhysicalPlan
    validated: Validated
    fresh: bool = False

    @classmethod
    def of(cls, plan: PhysicalPlan) -> ComparedQuery:
        return cls(plan, validate(plan.query, plan.streams))

    @property
    def query(self) -> Query:
        return self.plan.query

    @cached_property
    def operators(self) -> Mapping[str, Operator]:
        return {each.name: each for each in self.query.operators}


ANOTHER = "deploy it as a query of another name"


def fates(there: ComparedQuery, wanted: ComparedQuery) -> Iterator[PartFate]:
    """Of each stream, operator, output and option of either."""
    yield from _streams(there, wanted)
    yield from _operators(there, wanted).values()
    yield from _outputs(there, wanted)
    yield from _options(there.query, wanted.query)


# --- what is at the edges ----------------------------------------------------------------------------------------------


def _streams(there: ComparedQuery, wanted: ComparedQuery) -> Iterator[PartFate]:
    """How far each was read is state of its readers."""
    old, new = there.validated.sources, wanted.validated.sources
    for name in sorted(old.keys() | new.keys()):
        part = f"stream {name!r}"
        if name not in old:
            yield _refused(part, "none that is read", "one", f"its rows of before would not count; {ANOTHER}")
        elif name not in new:
            yield _refused(part, "one that is read", "none", f"its publishers would wait for a reader for ever; {ANOTHER}")
        else:
            before, after = (json.dumps(stream_documents.to_json(side[name])) for side in (old, new))
            if before == after:
                yield PartFate(part, Fate.KEEPS, "goes on where it was read")
            else:
                yield _refused(part, before, after, "leave its declaration as it is")


def _outputs(there: ComparedQuery, wanted: ComparedQuery) -> Iterator[PartFate]:
    old, new = ({each.stream: each for each in side.query.outputs} for side in (there, wanted))
    for name in dict.fromkeys((*old, *new)):
        part = f"output {name!r}"
        if name not in new:
            yield _refused(part, "one", "none", f"its subscribers have not had all of it; leave it, or {ANOTHER}")
        elif name not in old:
            yield _refused(part, "none", "one", f"an output cannot begin in the middle; {ANOTHER}")
        else:
            yield _output(part, there, wanted, old[name], new[name])
    if there.query.late != wanted.query.late:
        yield _refused("the stream of late rows", repr(there.query.late), repr(wanted.query.late), "leave it as it is")


def _output(part: str, there: ComparedQuery, wanted: ComparedQuery, old: Output, new: Output) -> PartFate:
    before, after = (side.validated.schemas[old.stream] for side in (there, wanted))
    if before != after:
        return _refused(part, str(before), str(after), f"its subscribers read those columns; {ANOTHER}")
    ways = [_order(there, old.input), _order(wanted, new.input)]
    if ways[0] != ways[1]:
        return _refused(part, f"rows in the order of {ways[0]}", ways[1], f"what reads it goes on in that order; {ANOTHER}")
    files = [None if each.files is None else sinks.to_json(each.files) for each in (old, new)]
    if files[0] != files[1]:
        return _refused(part, f"files {files[0]}", f"files {files[1]}", "files that were begun go on; leave them as they are")
    return PartFate(part, Fate.KEEPS, "its subscribers stay")


def _options(old: Query, new: Query) -> Iterator[PartFate]:
    before, after = options_to_json(old.options), options_to_json(new.options)
    for name in FIXED_OPTIONS:
        if before[name] != after[name]:
            yield _refused(f"option {name!r}", f"{before[name]!r}", f"{after[name]!r}", f"leave it as it is, or {ANOTHER}")


# --- operators -------------------------------------------------------------------------------------------------------


def _operators(there: ComparedQuery, wanted: ComparedQuery) -> dict[str, PartFate]:
    """By name."""
    old, new = there.operators, wanted.operators
    return {name: _fate(f"operator {name!r}", there, wanted, old.get(name), new.get(name)) for name in dict.fromkeys((*new, *old))}


def begun_anew(there: ComparedQuery, wanted: ComparedQuery) -> frozenset[str]:
    """The operators that cannot keep what those of their names know, and those that go."""
    found = _operators(there, replace(wanted, fresh=True))
    return frozenset(name for name, each in found.items() if each.fate in (Fate.ANEW, Fate.LOST))


def _fate(part: str, there: ComparedQuery, wanted: ComparedQuery, old: Operator | None, new: Operator | None) -> PartFate:
    before, after = ("none" if each is None else each.explained() for each in (old, new))
    if old is None or new is None:
        if new is not None and new.stateful:
            advice = f"it would know nothing of the rows of before; {ANOTHER}"
            return PartFate(part, Fate.ANEW, "comes") if wanted.fresh else _refused(part, before, after, advice)
        if old is not None and old.stateful:
            advice = f"what it knows would be lost; leave it, or {ANOTHER}"
            return PartFate(part, Fate.LOST, "goes") if wanted.fresh else _refused(part, before, after, advice)
    if old is None or new is None:
        return PartFate(part, Fate.NONE, "comes" if old is None else "goes")
    if not old.stateful and not new.stateful:
        same = before == after and old.inputs == new.inputs
        return PartFate(part, Fate.NONE, "" if same else f"it was {before}, and is {after}")
    return _of_state(part, there, wanted, old, new)


def _of_state(part: str, there: ComparedQuery, wanted: ComparedQuery, old: Operator, new: Operator) -> PartFate:
    merging = _merges(there, old) and _merges(wanted, new)
    before, after = dict(_aspects(there, old, merging)), dict(_aspects(wanted, new, merging))
    for aspect, value in after.items():
        if before.get(aspect) != value:
            if wanted.fresh:
                return PartFate(part, Fate.ANEW, f"its {aspect} was {before.get(aspect, 'none')}, and is {value}")
            advice = f"state is kept where the {aspect} is the same; leave that as it is, or {ANOTHER}"
            return _refused(f"{part}, its {aspect}", before.get(aspect, "none"), value, advice)
    if merging and isinstance(old, Aggregate) and isinstance(new, Aggregate):
        return _of_functions(part, _functions(there, old), _functions(wanted, new), wanted.fresh)
    return PartFate(part, Fate.KEEPS)


def _of_functions(part: str, old: Mapping[str, str], new: Mapping[str, str], fresh: bool) -> PartFate:
    """Names of functions -> what each has to remember, in words."""
    if unknown := [name for name, function in new.items() if function not in old.values()]:
        if fresh:
            return PartFate(part, Fate.ANEW, f"{', '.join(unknown)} comes")
        there, wanted = (", ".join(f"{name} = {function}" for name, function in side.items()) for side in (old, new))
        advice = f"of the windows that are open {', '.join(unknown)} would lack the rows of before; leave it out, or {ANOTHER}"
        return _refused(f"{part}, its functions", there, wanted, advice)
    dropped = ", ".join(name for name, function in old.items() if function not in new.values())
    return PartFate(part, Fate.KEEPS, f"but for what {dropped} needed" if dropped else "")


def _functions(side: ComparedQuery, aggregate: Aggregate) -> dict[str, str]:
    """Those that remember something. Functions of one row remember that row together."""
    schema, times = side.validated.schemas[aggregate.input], side.validated.event_time_columns[aggregate.input]
    found = dict[str, str]()
    for name, function in aggregate.functions:
        if function.name not in _KEEPS_NOTHING:
            found[name] = f"{phrases.function(function)} over {restrict(schema, function.columns)}"
            found[name] += ", its event time" * (function.column in times)
        if function.name in OF_A_ROW:
            alike = {str(each.column) for _, each in aggregate.functions if (each.name, each.by) == (function.name, function.by)}
            found[name] += f", of a row kept as {', '.join(sorted(alike))}"
    return found


def _aspects(side: ComparedQuery, operator: Operator, merging: bool) -> Iterator[tuple[str, str]]:
    """What has to be the same for its state to be kept, in words; of one that is `merging` functions are looked at one by one."""
    document, forms = operator_documents.to_json(operator), operator.keys()
    yield "type", document["type"]
    for key in forms:
        if key not in operator.input_keys and not (merging and key == "functions"):
            yield key, json.dumps(document.get(key))
    for key, producer in zip_longest(operator.input_keys, operator.inputs, fillvalue="input"):
        yield from _aspects_of_input(side, operator, key, producer, merging)
    times = side.validated.event_time_columns
    leaves = leaves_with_origin(side.query, operator.name) or wants_origin(side.query, operator.name, times)
    yield "origin of its rows", "carried" if leaves else "not carried"


def _aspects_of_input(side: ComparedQuery, operator: Operator, key: str, producer: str, merging: bool) -> Iterator[tuple[str, str]]:
    schema = side.validated.schemas[producer]
    columns = restrict(schema, needed_columns(side.query, producer, schema.names))
    if merging and isinstance(operator, Aggregate):
        columns = restrict(schema, operator.by)
    yield f"columns of {key}", str(columns)
    times = side.validated.event_time_columns[producer].intersection(columns.names)
    yield f"event time of {key}", ", ".join(sorted(times)) or "none of its columns"
    yield f"order of {key}", _order(side, producer)


def _order(side: ComparedQuery, producer: str) -> str:
    """By what the rows of `producer` are in order: where their origins began, on how many ways from there, and how far time was moved."""
    began = ", ".join(f"{name} ({ways})" for name, ways in sorted(beginnings(side.query, producer).items()))
    moved = "".join(f", {each}" for each in _delays(side, producer))
    return f"{began}, in {words(side.plan, producer)} words{', with ties' * ties(side.plan, producer)}{moved}"


def _delays(side: ComparedQuery, producer: str) -> list[str]:
    """What moves the event time of its rows, behind the last operator with state."""
    operator = side.operators.get(producer)
    if operator is None or operator.stateful:
        return []
    own = [] if operator.keeps_time else [operator.explained()]
    return own + [each for input_ in operator.inputs for each in _delays(side, input_)]


def _merges(side: ComparedQuery, operator: Operator) -> bool:
    """Is it known of each part of its state which function it is for?"""
    if not isinstance(operator, Aggregate) or operator.row_order is Order.SEQUENTIAL or ties(side.plan, operator.input):
        return False
    return not any(isinstance(function, UserFunction) for _, function in operator.functions)


def _refused(part: str, there: str, wanted: str, advice: str) -> PartFate:
    return PartFate(part, Fate.REFUSED, "", there, wanted, advice)
