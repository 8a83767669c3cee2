"""Pieces of a checkpoint for an attempt whose plan deals buckets otherwise, to more or fewer instances or by another table: what N
instances had, for each of M. Pure. Replicas of a query have groups of their own, so each deals what its own instances had.

Behind an aligned Barrier nothing is under way, so what N had is all there is. State goes to the instance to which the plan sends its
tuples; what is nobody's (accounts, letters, partial results) of instance j to instance j mod M. A promise of several is the least of
theirs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from cep.dataflow.layout import Layout
from cep.dataflow.meter import Account
from cep.dataflow.movement.figures import Figures, LatencyFigures, LetterFigures, NodeFigures, OutputFigures, Promise
from cep.dataflow.movement.instance_move import FIGURES, move_document, value_of
from cep.dataflow.movement.owners import keep_of
from cep.dataflow.operators.operator import Keep, Part
from cep.elements import State
from cep.plan.moving import is_dealt_anew
from cep.plan.physical import PhysicalPlan

Piece = Sequence[State]


@dataclass(frozen=True)
class Shared:
    """The pieces of all instances of its subquery, by index, of whose operators' state `index` takes its part."""

    plan: PhysicalPlan
    subquery: str
    index: int
    pieces: Mapping[int, Piece]

    @cached_property
    def layout(self) -> Layout:
        return Layout(self.plan)

    def parts(self, operator: str) -> list[Part]:
        """Partial results, which are only on their way, go to one instance."""
        size = self.plan.subquery(self.subquery).parallelism
        mine = [piece for j, piece in self.pieces.items() if operator in self.layout.operators or j % size == self.index % size]
        return [replace(part, found=None) for piece in mine for part in parts_in(piece, operator)]

    def keep(self, operator: str) -> Keep:
        subquery = self.plan.subquery(self.subquery)
        return keep_of(self.layout, subquery, operator, self.index % subquery.parallelism)


def parts_in(piece: Piece, operator: str) -> list[Part]:
    """The parts of the state of `operator`, as they were taken."""
    return [Part(state.part, state.port, state.rows, found=state.found) for state in piece if state.operator == operator]


def needed(before: PhysicalPlan, after: PhysicalPlan, subquery: str, index: int) -> list[int]:
    """Of which instances an instance needs the pieces."""
    if not is_dealt_anew(before, after, subquery):
        return [index]
    size = before.subquery(subquery).parallelism
    first = index // after.subquery(subquery).parallelism * size  # of its replica
    return list(range(first, first + size))


def of_its_own(before: PhysicalPlan, after: PhysicalPlan, subquery: str, index: int, pieces: Mapping[int, Piece]) -> Iterator[State]:
    """What belongs to no operator, as if the instance had written it."""
    figures = {j: Figures.from_json(_value(piece, FIGURES)) for j, piece in pieces.items()}
    size = after.subquery(subquery).parallelism
    is_changed = size != before.subquery(subquery).parallelism
    own = [each for j, each in figures.items() if not is_changed or j % size == index]
    merged = _merged(list(figures.values()), own) if is_changed else figures[index]
    outputs = [replace(each, routes=None) for each in merged.outputs]  # tables of queries that recover are as the plan has them
    inputs = _promises(before, after, subquery, index, figures)
    yield move_document(FIGURES, replace(merged, inputs=inputs, outputs=outputs, buckets=None).to_json())
    if is_changed:
        yield move_document("over", all(_value(piece, "over") for piece in pieces.values()))
        yield move_document("sinks", [])  # none of those that are scaled has any
    else:
        yield from (state for state in pieces[index] if not state.operator and state.part != FIGURES)


def _value(piece: Piece, part: str) -> str:
    found: str = next(value_of(state) for state in piece if not state.operator and state.part == part)
    return found


def _promises(before: PhysicalPlan, after: PhysicalPlan, subquery: str, index: int, figures: Mapping[int, Figures]) -> list[list[Promise]]:
    """By input and channel, as the plan has them now."""
    found = list[list[Promise]]()
    new_edges = [edge for edge in after.edges_into(subquery) if edge.is_inner]
    old_edges = [edge for edge in before.edges_into(subquery) if edge.is_inner]
    for k, (new, old) in enumerate(zip(new_edges, old_edges, strict=True)):
        told = [
            (source, promise)
            for j, each in figures.items()
            for source, promise in zip([s for s, t in before.channels(old) if t == j], each.inputs[k], strict=True)
        ]
        same = before.subquery(old.source).parallelism == after.subquery(new.source).parallelism
        sources = [s for s, t in after.channels(new) if t == index]
        found.append([_least([promise for s, promise in told if s == source or not same]) for source in sources])
    return found


def _least(promises: Sequence[Promise]) -> Promise:
    """What all of them have promised. What an idle one promised last says nothing, unless all are idle."""
    open_ = [each for each in promises if not each.ended] or list(promises)
    awake = [each for each in open_ if not each.idle] or open_
    return Promise(min(each.time for each in awake), all(each.idle for each in open_), all(each.ended for each in promises))


def _merged(all_: Sequence[Figures], own: Sequence[Figures]) -> Figures:
    """`own`: whose accounts it goes on with, perhaps none."""
    barriers = {kind: max(each.barriers.get(kind, 0) for each in all_) for kind in {kind for each in all_ for kind in each.barriers}}
    counts = sum((Counter(each.letters.counts) for each in own), Counter[str]())
    letters = LetterFigures(dict(counts), [letter for each in own for letter in each.letters.waiting])
    nodes = [_node(node.name, [each.nodes[k] for each in own]) for k, node in enumerate(all_[0].nodes)]
    outputs = [_output([each.outputs[k] for each in all_], [each.outputs[k] for each in own]) for k in range(len(all_[0].outputs))]
    account = _account([each.account for each in own])
    return Figures(max(each.since for each in all_), barriers, account, nodes, [], {}, outputs, letters, None)


def _node(name: str, own: Sequence[NodeFigures]) -> NodeFigures:
    rows, incomplete = sum(each.rows_out for each in own), sum(each.incomplete for each in own)
    return NodeFigures(name, _account([each.account for each in own]), rows, incomplete)


def _output(all_: Sequence[OutputFigures], own: Sequence[OutputFigures]) -> OutputFigures:
    latencies = [each.latency for each in own if each.latency is not None]
    latency = LatencyFigures(
        sum(each.sum_us for each in latencies), [sum(c) for c in zip(*(each.counts for each in latencies), strict=True)]
    )
    discarded, size = sum(each.discarded for each in own), sum(each.bytes for each in own)
    waited_ns, account = sum(each.waited_ns for each in own), _account([each.account for each in own])
    sent_until, version = min(each.sent_until for each in all_), max(each.table_version for each in all_)
    return OutputFigures(account, sent_until, discarded, size, version, waited_ns, latency if latencies else None, None)


def _account(of: Sequence[Account]) -> Account:
    rows, size, batches = sum(each.rows for each in of), sum(each.bytes for each in of), sum(each.batches for each in of)
    return Account(rows, size, batches, sum(each.busy_ns for each in of), sum(each.cpu_ns for each in of))
