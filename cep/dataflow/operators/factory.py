"""From the description of an operator to the operator at work: compiled, and its machine code warm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from cep.compile.chain.chain import compile_chain
from cep.dataflow.joins import as_of_join, interval_join, window_join
from cep.dataflow.joins import zip as zip_
from cep.dataflow.operators import (
    aggregate,
    apply,
    deduplicate,
    delay,
    flat_map,
    keep_last,
    lookup,
    over,
    sample,
    sort,
    stateful_map,
    table_versions,
    versioned_lookup,
)
from cep.dataflow.operators.context import BuildContext
from cep.dataflow.operators.operator import (
    ChainOperator,
    PassOperator,
    RunningOperator,
    SlowChainOperator,
    StatefulOperator,
    TextChainOperator,
)
from cep.dataflow.patterns import pattern
from cep.kernels.jit import warm
from cep.model import operators as described
from cep.model.operators import PLANNED, TYPES

D = TypeVar("D", bound=described.Operator)
Build = Callable[[Any, BuildContext], RunningOperator]

#: A run of these is one loop of machine code.
FUSED = (described.Map, described.Filter)


def _stateless(kind: type[D], build: Callable[[D, BuildContext], RunningOperator]) -> tuple[type[described.Operator], Build]:
    return kind, build


def _stateful(kind: type[D], build: Callable[[D, BuildContext], StatefulOperator]) -> tuple[type[described.Operator], Build]:
    """Its state can be taken out and in: an operator that cannot is an error of the type checker here."""
    return kind, build


def _union(union: described.Union, context: BuildContext) -> PassOperator:
    return PassOperator(union.name, context.layout.words(union.name))


#: How each kind is built that is in a plan: all but what a plan has in full, and runs of FUSED.
BUILDS: dict[type[described.Operator], Build] = dict(
    [
        _stateless(described.Union, _union),
        _stateless(described.FlatMap, flat_map.build),
        _stateless(described.Apply, apply.build),
        _stateless(described.Delay, delay.build),
        _stateless(described.Lookup, lookup.build),
        _stateless(described.Sample, sample.build),
        _stateful(described.TableVersions, table_versions.build),
        _stateful(described.VersionedLookup, versioned_lookup.build),
        _stateful(described.Aggregate, aggregate.build),
        _stateful(described.Join, window_join.build),
        _stateful(described.IntervalJoin, interval_join.build),
        _stateful(described.AsOfJoin, as_of_join.build),
        _stateful(described.Zip, zip_.build),
        _stateful(described.Sort, sort.build),
        _stateful(described.TopN, sort.build),
        _stateful(described.SampleN, sample.build_n),
        _stateful(described.Deduplicate, deduplicate.build),
        _stateful(described.KeepLast, keep_last.build),
        _stateful(described.Over, over.build),
        _stateful(described.StatefulMap, stateful_map.build),
        _stateful(described.PatternWays, pattern.build),
        _stateless(described.PatternBranch, pattern.build_branch),
    ]
)
_missing = {*TYPES.values(), *PLANNED.values()} - BUILDS.keys() - {*FUSED, described.Demux, described.Pattern}
if _missing:
    raise TypeError(f"nothing runs {', '.join(sorted(kind.__name__ for kind in _missing))}; say in BUILDS what does")


def build_operator(group: Sequence[described.Operator], context: BuildContext) -> RunningOperator:
    """For a run of FUSED ones, or any other operator alone."""
    first = group[0]
    if isinstance(first, FUSED):
        return _chain(group, context)
    if not isinstance(first, described.Aggregate):  # which knows whether it needs them
        warm()  # what operators run of hand-written kernels
    return BUILDS[type(first)](first, context)


def _chain(group: Sequence[described.Operator], context: BuildContext) -> RunningOperator:
    stateless = tuple(operator for operator in group if isinstance(operator, FUSED))
    chain = compile_chain(stateless, context.columns(stateless[0].input))
    kind = TextChainOperator if chain.makes_texts else ChainOperator
    whole = kind("+".join(operator.name for operator in group), chain, context.clock, context.dead_letters)
    return SlowChainOperator(whole) if chain.notes else whole
