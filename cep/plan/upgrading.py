"""The plan of a changed query for the next attempt of one that runs, and what becomes of each of its parts; or why there is none. Pure.

Subqueries stay: each has the streams and the operators with state that it had, and the ways between them are those there were. So every
instance finds what it had in its own piece of the checkpoint; what else is in a subquery, and options, may be another (`kept_state.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from cep.errors import QueryError, counted
from cep.model import query as queries
from cep.model.duration import format_duration
from cep.model.operators import Delay
from cep.model.query import Options, Query
from cep.plan.balancers import route_fields
from cep.plan.checkpoints import check_recovery, recovers, with_recovery
from cep.plan.expand import shorter
from cep.plan.kept_state import ANOTHER, ComparedQuery, Fate, PartFate, begun_anew, fates
from cep.plan.physical import Edge, PhysicalPlan, Subquery
from cep.plan.planner import replanned
from cep.plan.scaling import scaled
from cep.plan.split import split
from cep.plan.validate import validate


@dataclass(frozen=True)
class Upgrade:
    """`plan`: of the changed query; None: it is refused."""

    fates: Sequence[PartFate]
    plan: PhysicalPlan | None

    @property
    def refused(self) -> list[PartFate]:
        return [each for each in self.fates if each.fate is Fate.REFUSED]

    @property
    def text(self) -> str:
        """A line for each part."""
        width = max((len(each.fate.value) for each in self.fates), default=0)
        return "\n".join(f"{each.fate.value:{width}}  {_rest(each)}" for each in self.fates)


def _rest(fate: PartFate) -> str:
    return str(fate) if fate.fate is Fate.REFUSED else fate.part + (f": {fate.note}" if fate.note else "")


def upgraded(plan: PhysicalPlan, query: Query, fresh: bool = False) -> Upgrade:
    """`query` in place of that of `plan`; `fresh`: operators that cannot keep their state begin with none. Raises QueryError: it is none,
    or that of the plan can never be upgraded, and why."""
    if query.name != plan.query.name:
        raise QueryError(f"this is query {query.name!r}, expected query {plan.query.name!r}, which runs", "/name")
    if why := _why_never(plan):
        raise QueryError(f"query {query.name!r} cannot be upgraded: {why}", "/options/recover")
    found = validate(with_recovery(query, plan.query.options.recover), plan.streams)
    there = ComparedQuery.of(plan)
    wanted = ComparedQuery(replace(plan, query=found.query, short=shorter(query, found.query), streams=dict(found.sources)), found, fresh)
    all_ = list(fates(there, wanted))
    if not _refusals(all_):
        check_recovery(wanted.plan)
        all_ += _subqueries(there, wanted)
    if _refusals(all_):
        return Upgrade(all_, None)
    return _planned(there, wanted, all_)


def _refusals(all_: Sequence[PartFate]) -> bool:
    return any(each.fate is Fate.REFUSED for each in all_)


def is_same(plan: PhysicalPlan, other: PhysicalPlan) -> bool:
    """Would nothing be another?"""
    return queries.to_json(plan.query) == queries.to_json(other.query) and plan.subqueries == other.subqueries


def _why_never(plan: PhysicalPlan) -> str:
    if not recovers(plan):
        return 'it does not recover, and an upgrade is a recovery; deploy it with options(recover="on-commit")'
    return ""


def _planned(there: ComparedQuery, wanted: ComparedQuery, all_: list[PartFate]) -> Upgrade:
    """With as many instances as there are; then with as many as are asked for."""
    old = there.plan
    try:
        same_size = replanned(wanted.plan, {})
    except QueryError as error:
        sizes_there = ", ".join(f"{each.name}={each.parallelism}" for each in old.subqueries)
        part = PartFate("instances of each subquery", Fate.REFUSED, "", sizes_there, "as many", error.message)
        return Upgrade([*all_, part], None)
    anew = begun_anew(there, wanted)
    all_ += [*_partials(old, same_size, anew), *_ways(there, replace(wanted, plan=same_size), anew)]
    all_ += _times(there, replace(wanted, plan=same_size))
    sizes, refused = _sizes(old, wanted.query.options)
    all_ += refused
    if _refusals(all_):
        return Upgrade(all_, None)
    plan = replace(wanted.plan, subqueries=same_size.subqueries, edges=same_size.edges)
    for name, instances in sizes.items():
        try:
            plan = scaled(plan, name, instances)
        except QueryError as error:
            return Upgrade([*all_, PartFate(name, Fate.REFUSED, "", _instances(old, name), f"{instances}", error.message)], None)
        all_.append(PartFate(name, Fate.KEEPS, f"in {counted(instances, 'instance')} in place of {_instances(old, name)}"))
    return Upgrade(all_, plan)


# --- its shape -------------------------------------------------------------------------------------------------------


def _subqueries(there: ComparedQuery, wanted: ComparedQuery) -> Iterator[PartFate]:
    old, new, anew = there.plan.subqueries, split(wanted.query), begun_anew(there, wanted)
    if _contents(old, there, anew) != _contents(new, wanted, anew):
        advice = f"an operator with several inputs begins a subquery, and so do options split and subqueries; leave those, or {ANOTHER}"
        yield PartFate("the cut into subqueries", Fate.REFUSED, "", _told(old), _told(new), advice)


def _contents(
    subqueries: Sequence[Subquery], side: ComparedQuery, anew: frozenset[str]
) -> list[tuple[str, frozenset[str], frozenset[str]]]:
    """What of each is found again: its name, streams, and operators that keep their state."""
    stateful = frozenset(name for name, operator in side.operators.items() if operator.stateful and name not in anew)
    return [(each.name, frozenset(each.streams), stateful.intersection(each.operators)) for each in subqueries]


def _told(subqueries: Sequence[Subquery]) -> str:
    return "; ".join(f"{each.name} ({', '.join((*each.streams, *each.operators))})" for each in subqueries)


def _partials(old: PhysicalPlan, new: PhysicalPlan, anew: frozenset[str]) -> Iterator[PartFate]:
    for before, after in zip(old.subqueries, new.subqueries, strict=True):
        if anew.issuperset(set(before.pre_aggregates) ^ set(after.pre_aggregates)):
            continue
        if before.pre_aggregates != after.pre_aggregates:
            there, wanted = (", ".join(each.pre_aggregates) or "none" for each in (before, after))
            advice = "such results are state; set the option pre_aggregation so that it stays as it is"
            yield PartFate(f"partial results of {before.name}", Fate.REFUSED, "", there, wanted, advice)


def _ways(there: ComparedQuery, wanted: ComparedQuery, anew: frozenset[str]) -> Iterator[PartFate]:
    """Those between subqueries, and out of the query. By which columns rows go to a subquery of which all state begins anew is free."""
    stateful = dict[str, set[str]]()
    for side in (there, wanted):
        for each in side.plan.subqueries:
            stateful.setdefault(each.name, set()).update(name for name in each.operators if side.operators[name].stateful)
    free = {name for name, operators in stateful.items() if operators and anew.issuperset(operators)}
    before, after = ([_way(side, edge, edge.target in free) for edge in side.plan.edges] for side in (there, wanted))
    for old, new in zip_longest(before, after, fillvalue="none"):
        if old != new:
            advice = f"state is where its rows were sent, and answers where they come out; leave that as it is, or {ANOTHER}"
            yield PartFate("a way between subqueries", Fate.REFUSED, "", old, new, advice)
            return


def _way(side: ComparedQuery, edge: Edge, free: bool) -> str:
    """What of it has to be the same, whatever maps and filters are called."""
    if edge.is_output:
        return f"{edge.source} → {edge.consumer}{' (late)' * edge.late}"
    if edge.is_input:
        return f"{edge.producer} → {edge.target}"
    if free:
        return f"{edge.source} → {edge.target}, input {edge.port}, {edge.balancer}"
    by = ", ".join(map(str, route_fields(side.plan, edge, side.validated.schemas)))
    partial = " of partial results" * edge.partial
    return f"{edge.source} → {edge.target}, input {edge.port}{partial}, {edge.balancer}{f' by {by}' * bool(by)}"


def _times(there: ComparedQuery, wanted: ComparedQuery) -> Iterator[PartFate]:
    """No row may be older than what was promised on its way: of no stream may rows come less delayed, or for the first time."""
    for old, new in zip(there.plan.edges, wanted.plan.edges, strict=False):
        before, after = _lags(there, old.producer), _lags(wanted, new.producer)
        if any(lag < before.get(name, lag + 1) for name, lag in after.items()):
            advice = f"what was promised of event time holds; leave the delays, and what is read there, or {ANOTHER}"
            way = f"event time of {new.source} → {new.target if new.is_inner else new.consumer}"
            yield PartFate(way, Fate.REFUSED, "", _told_lags(before), _told_lags(after), advice)


def _lags(side: ComparedQuery, producer: str) -> dict[str, int]:
    """Stream -> the least, in µs, by which its rows are delayed when they come out of `producer`."""
    operator = side.operators.get(producer)
    if operator is None:
        return {producer: 0}
    own, found = operator.by if isinstance(operator, Delay) else 0, dict[str, int]()
    for name, lag in (each for input_ in operator.inputs for each in _lags(side, input_).items()):
        found[name] = min(found.get(name, lag + own), lag + own)
    return found


def _told_lags(lags: Mapping[str, int]) -> str:
    return ", ".join(f"{name} + {format_duration(lag)}" for name, lag in sorted(lags.items()))


def _sizes(old: PhysicalPlan, asked: Options) -> tuple[dict[str, int], list[PartFate]]:
    """Subquery -> how many instances it is to have, of those that are to have another number. What is not asked for stays as it is."""
    options = old.query.options
    if (options.parallelism, options.parallelism_of) == (asked.parallelism, asked.parallelism_of):
        return {}, []
    if asked.parallelism is not None:
        there, advice = str(dict(options.parallelism_of) or options.parallelism), "name each subquery, as in parallelism={'SQ2': 4}"
        return {}, [PartFate("option 'parallelism'", Fate.REFUSED, "", there, str(asked.parallelism), advice)]
    sizes = {each.name: each.parallelism for each in old.subqueries}
    return {name: instances for name, instances in asked.parallelism_of if sizes.get(name) != instances}, []


def _instances(plan: PhysicalPlan, name: str) -> str:
    return next((str(each.parallelism) for each in plan.subqueries if each.name == name), "none")
