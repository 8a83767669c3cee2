"""What an instance has come to, beside the state of its operators: one value, for whatever makes an instance again from what it was.

Inputs and outputs by position: the same plan makes the same ones in the same order. Nodes by name: of a query that was upgraded some may
be new, or gone. What merges how, where several instances become
others, is told by its part: accounts and counts add up, `since` is the greatest, promises are the least, what has ended is so if all have.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from cep.dataflow.channel import Inbox
from cep.dataflow.dead_letters import DeadLetters, Letter
from cep.dataflow.instance import SubqueryInstance
from cep.dataflow.meter import Account, Latency
from cep.dataflow.movement.bucket_move import InstanceBuckets
from cep.dataflow.nodes import Input, Node
from cep.dataflow.outputs.balancer import RouteKey
from cep.dataflow.outputs.output import EdgeOutput
from cep.dataflow.sources.source import Source
from cep.model import shapes
from cep.model.packed import packed, unpacked


@dataclass(frozen=True, slots=True)
class NodeFigures:
    name: str
    account: Account
    rows_out: int
    incomplete: int  # windows, of an operator with state


@dataclass(frozen=True, slots=True)
class Promise:
    """Of one channel."""

    time: int
    idle: bool
    ended: bool


@dataclass(frozen=True, slots=True)
class SourceFigures:
    """`position`: as the source says it, which can be merged (`Source.restore`)."""

    position: Mapping[str, Any]
    late_rows: int
    odd_times: int
    before_since: int


@dataclass(frozen=True, slots=True)
class Routes:
    """By bucket, packed."""

    table: str
    counts: str


@dataclass(frozen=True, slots=True)
class LatencyFigures:
    sum_us: int
    counts: Sequence[int]


@dataclass(frozen=True, slots=True)
class OutputFigures:
    account: Account
    sent_until: int
    discarded: int
    bytes: int
    table_version: int
    waited_ns: int
    latency: LatencyFigures | None
    routes: Routes | None


@dataclass(frozen=True, slots=True)
class LetterFigures:
    counts: Mapping[str, int]
    waiting: Sequence[Letter]


@dataclass(frozen=True, slots=True)
class BucketFigures:
    version: int
    moves: int
    rows_moved: int
    bytes_moved: int
    paused_us: int
    table: str  # packed


@dataclass(frozen=True, slots=True)
class Figures:
    since: int
    barriers: Mapping[str, int]  # by kind: the greatest number that it has heard of
    account: Account
    nodes: Sequence[NodeFigures]
    inputs: Sequence[Sequence[Promise]]
    sources: Mapping[str, SourceFigures]
    outputs: Sequence[OutputFigures]
    letters: LetterFigures
    buckets: BucketFigures | None

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Figures:
        """Raises ProtocolError."""
        return shapes.read_shape(Figures, json.loads(text))


def figures_of(instance: SubqueryInstance, buckets: InstanceBuckets | None) -> Figures:
    return Figures(
        instance.since,
        dict(instance.alignment.last),
        replace(instance.account),
        [_of_node(node) for node in instance.nodes],
        [[_of_channel(input_, inbox) for inbox in input_.inboxes] for input_ in instance.inputs],
        {node.operator.name: _of_source(source) for source, node in instance.sources},
        [_of_output(output) for output in instance.outputs],
        LetterFigures(dict(instance.dead_letters.counts), list(instance.dead_letters.letters)),
        None if buckets is None else _of_buckets(buckets),
    )


def take_figures(instance: SubqueryInstance, buckets: InstanceBuckets | None, figures: Figures) -> None:
    """`instance` is new, and goes on from there."""
    instance.learn_since(figures.since)
    instance.alignment.take_last(figures.barriers)
    _charge(instance.account, figures.account)
    of_nodes = {each.name: each for each in figures.nodes}
    for node in instance.nodes:
        if node.operator.name in of_nodes:
            _take_node(node, of_nodes[node.operator.name])
    for input_, promises in zip(instance.inputs, figures.inputs, strict=True):
        _take_promises(input_, promises)
    for source, node in instance.sources:  # in turn, so in any order
        _take_source(source, figures.sources[node.operator.name])
    for output, of_output in zip(instance.outputs, figures.outputs, strict=True):
        _take_output(output, of_output)
    _take_letters(instance.dead_letters, figures.letters)
    if buckets is not None and figures.buckets is not None:
        _take_buckets(buckets, figures.buckets)


def _charge(account: Account, figures: Account) -> None:
    account.rows, account.bytes, account.batches = figures.rows, figures.bytes, figures.batches
    account.busy_ns, account.cpu_ns = figures.busy_ns, figures.cpu_ns


# --- nodes and inputs ------------------------------------------------------------------------------------------------


def _of_node(node: Node) -> NodeFigures:
    return NodeFigures(node.operator.name, replace(node.account), node.rows_out, 0 if node.stateful is None else node.stateful.incomplete)


def _take_node(node: Node, figures: NodeFigures) -> None:
    _charge(node.account, figures.account)
    node.rows_out = figures.rows_out
    if node.stateful is not None:
        node.stateful.incomplete = figures.incomplete


def _of_channel(input_: Input, inbox: Inbox) -> Promise:
    """The new channel in its place begins anew."""
    return Promise(input_.merge.times[inbox.name], inbox.name in input_.merge.idle, inbox.ended)


def _take_promises(input_: Input, promises: Sequence[Promise]) -> None:
    for inbox, promise in zip(input_.inboxes, promises, strict=True):
        input_.merge.times[inbox.name] = promise.time
        if promise.idle:
            input_.merge.idle.add(inbox.name)  # it is asked anew
        inbox.ended = promise.ended
        input_.open -= promise.ended
    input_.merge.recombine()


# --- sources ---------------------------------------------------------------------------------------------------------


def _of_source(source: Source) -> SourceFigures:
    return SourceFigures(source.position(), source.late_rows, source.odd_times, source.before_since)


def _take_source(source: Source, figures: SourceFigures) -> None:
    source.restore([dict(figures.position)])
    source.late_rows, source.odd_times, source.before_since = figures.late_rows, figures.odd_times, figures.before_since


# --- outputs, letters, buckets ---------------------------------------------------------------------------------------


def _of_output(output: EdgeOutput) -> OutputFigures:
    latency, balancer = output.latency, output.balancer
    return OutputFigures(
        replace(output.account),
        output.sent_until,
        output.discarded,
        output.bytes,
        output.table_version,
        output.stall.waited_ns,
        None if latency is None else LatencyFigures(latency.sum_us, list(latency.counts)),
        Routes(_packed(balancer.table), _packed(balancer.counts)) if isinstance(balancer, RouteKey) else None,
    )


def _take_output(output: EdgeOutput, figures: OutputFigures) -> None:
    _charge(output.account, figures.account)
    output.sent_until, output.discarded, output.table_version = figures.sent_until, figures.discarded, figures.table_version
    output.sent_before(figures.bytes)
    output.stall.waited_ns = figures.waited_ns
    if figures.latency is not None:
        _take_latency(output.latency, figures.latency)
    if isinstance(output.balancer, RouteKey) and figures.routes is not None:
        output.balancer.table = np.array(unpacked(figures.routes.table), np.int32)
        output.balancer.counts = np.array(unpacked(figures.routes.counts), np.int64)


def _take_latency(latency: Latency | None, figures: LatencyFigures) -> None:
    if latency is not None:
        latency.sum_us, latency.counts = figures.sum_us, list(figures.counts)


def _take_letters(letters: DeadLetters, figures: LetterFigures) -> None:
    letters.counts = Counter(figures.counts)
    letters.letters.extend(figures.waiting)


def _of_buckets(buckets: InstanceBuckets) -> BucketFigures:
    moved = buckets.moves, buckets.rows_moved, buckets.bytes_moved, buckets.paused_us
    return BucketFigures(buckets.version, *moved, _packed(buckets.table))


def _take_buckets(buckets: InstanceBuckets, figures: BucketFigures) -> None:
    buckets.version, buckets.moves, buckets.rows_moved = figures.version, figures.moves, figures.rows_moved
    buckets.bytes_moved, buckets.paused_us = figures.bytes_moved, figures.paused_us
    buckets.table = np.array(unpacked(figures.table), np.int32)


def _packed(counts: np.ndarray) -> str:
    return packed(np.ascontiguousarray(counts, np.int64))
