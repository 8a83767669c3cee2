"""Instances that only pick and rename columns, between one channel in and one out: what the fast path through them is made of.

`line_of` says which these are; `form_of` writes down, for the kernel, what a message has to be that may take it and what leaves instead.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cep.compile.chain.chain import CompiledLoop
from cep.dataflow.channel import Credit, Inbox, WatermarkMerge
from cep.dataflow.instance import SubqueryInstance
from cep.dataflow.meter import LATENCY_BOUNDS_US, Account
from cep.dataflow.nodes import Node
from cep.dataflow.operators.operator import ChainOperator, PassOperator
from cep.dataflow.outputs.balancer import RouteKey
from cep.dataflow.outputs.output import Target
from cep.dataflow.sources.lateness import PARTITION_BITS
from cep.dataflow.sources.published import PublishedSource
from cep.dataflow.sources.publishers import PublisherPartition
from cep.kernels import relay
from cep.kernels.jit import warm
from cep.kernels.relay import pass_on
from cep.transport import wire
from cep.transport.wire import Format, Header
from instance_manager.clients.subscriptions import SubscriptionChannel
from instance_manager.hosting import InstanceHost
from instance_manager.ports import RemoteChannel
from instance_manager.recovery.kept import KeptChannel

OUT_BYTES = 512 << 10  # written for what is taken at once

#: Name of a column -> the column of the input that it is.
Renamed = dict[str, str]


@dataclass(frozen=True)
class Line:
    """Operators in a straight line, and what the columns are that come out of the last."""

    nodes: tuple[Node, ...]
    renamed: Renamed


def prepare(hosted: InstanceHost) -> None:
    """Makes the fast path's machine code, if the instance may have one."""
    if line_of(hosted) is not None:
        warm(pass_on)


def line_of(hosted: InstanceHost) -> Line | None:
    """The operators of an instance that only picks and renames columns of eight bytes, from one port in to one port out; None: it is
    none such."""
    instance, wire_format = hosted.instance, _format_in(hosted)
    if wire_format is None or lines_of(wire_format) is None or len(instance.outputs) != 1:
        return None
    node = instance.sources[0][1] if instance.sources else instance.inputs[0].node
    nodes, renamed = [node], _renamed(node, {name: name for name in wire_format.schema.names})
    while renamed is not None and len(node.consumers) == 1 and not node.outputs:
        ((node, _),) = node.consumers
        nodes.append(node)
        renamed = _renamed(node, renamed)
    return Line(tuple(nodes), renamed) if renamed is not None and _ends(instance, nodes) else None


def _format_in(hosted: InstanceHost) -> Format | None:
    """Of the one channel that comes in; None: there are several, or one of another kind, or one whose sender waits for our watermark."""
    instance = hosted.instance
    inboxes = [inbox for input_ in instance.inputs for inbox in input_.inboxes]
    if len(instance.sources) + len(inboxes) != 1 or hosted.attachments or any(port.paced for port in hosted.ports.incoming.values()):
        return None
    found = [hosted.ports.port_of(inbox).format for inbox in inboxes] + [entry.format for entry in hosted.entries.values()]
    return found[0] if found else None


def _ends(instance: SubqueryInstance, nodes: list[Node]) -> bool:
    """Is the last of `nodes` the one that gives out, and are they all there are?"""
    last, (output,) = nodes[-1], instance.outputs
    return (
        last.outputs == [output] and not last.consumers and len(nodes) == len(instance.nodes) and not isinstance(output.balancer, RouteKey)
    )


def _renamed(node: Node, renamed: Renamed) -> Renamed | None:
    """The columns after `node`; None: it does more than to pick and rename."""
    if type(node.operator) is PassOperator:
        return renamed
    if type(node.operator) is not ChainOperator:
        return None
    for part in node.operator.chain.parts:
        if not isinstance(part, CompiledLoop) or part.kernel is not None:
            return None
        renamed = {name: renamed[source] for name, source in part.source.passed.items() if source in renamed}
    return renamed


@dataclass(slots=True)
class Entrance:
    """The one channel that messages come by: of another instance, or of a publisher."""

    id: int
    named: int  # what else a message about it may bear
    inbox: Inbox
    format: Format
    account: Account
    merge: WatermarkMerge
    source: PublishedSource | None = None
    publisher: PublisherPartition | None = None

    @property
    def open(self) -> bool:
        """Does nothing wait there, and is no credit due?"""
        inbox = self.inbox
        return not inbox.queue and not inbox.credit_due and inbox.granted > 0

    @property
    def head(self) -> Header:
        return Header(wire.BATCH, self.id, 0, 0, self.format.fingerprint, since=self.inbox.since)


@dataclass(slots=True)
class Exit:
    """The one target that tuples leave for, and what is known of its channel; `keeps`: it is that, which keeps what leaves."""

    target: Target
    channel: RemoteChannel | SubscriptionChannel
    endpoint: str
    credit: Credit
    head: Header
    keeps: KeptChannel | None = None

    @property
    def row_bytes(self) -> int:
        """As `cep.dataflow.channel.batch_bytes` counts a tuple, which has its event time whether it travels or not."""
        return 8 * (len(self.channel.format.schema.names) + 1 + self.channel.format.origin)

    @property
    def weight(self) -> tuple[int, int]:
        """Bytes of a message, and of each of its tuples, where it is asked whether credit allows it: a client's counts what travels."""
        wire_format = self.channel.format
        if isinstance(self.channel, RemoteChannel) or wire_format.layout is None:
            return 0, self.row_bytes
        return wire_format.layout.metadata_bytes, 8 * len(wire_format.arrow)


def form_of(renamed: Renamed, entrance: Entrance, exit_: Exit, timed: bool) -> np.ndarray | None:
    """What `cep.kernels.relay` calls so; None: a column is not eight bytes wide, or does not come, or origins change."""
    come, leave = entrance.format, exit_.channel.format
    coming, leaving = lines_of(come), lines_of(leave)
    origin = _origin(entrance, leave.origin) if exit_.target.origin == bool(leave.origin) else None
    if coming is None or leaving is None or origin is None:
        return None
    (at, taken), (_, given) = coming, leaving
    names = come.schema.names
    if any(renamed[name] not in names for name in leave.schema.names):
        return None
    time = len(names) if come.hides_time else names.index(come.time)
    picked = [*[names.index(renamed[name]) for name in leave.schema.names], *[time] * leave.hides_time, *origin]
    first = [*_judged(entrance), *exit_.weight, timed, time, len(come.arrow), len(picked), len(taken), len(given), at]
    form = np.concatenate([first, _words(entrance.head), _words(exit_.head), LATENCY_BOUNDS_US, picked, taken.ravel(), given.ravel()])
    longest = relay.HEAD_WORDS + len(given) + relay.ROWS_MAX * len(picked)
    return form.astype(np.int64) if 8 * longest <= OUT_BYTES else None


def lines_of(wire_format: Format) -> tuple[int, np.ndarray] | None:
    """As `cep.transport.ipc.MessageLayout.lines`."""
    return None if wire_format.layout is None else wire_format.layout.lines


def _origin(entrance: Entrance, words: int) -> list[int] | None:
    """Where the `words` of the origins that leave are, in the words of `cep.kernels.relay`; None: they are not those that come."""
    if entrance.source is None:
        behind = len(entrance.format.arrow) - entrance.format.origin
        return list(range(behind, behind + words)) if words in (0, entrance.format.origin) else None
    if entrance.format.origin or (words and not entrance.source.origin):
        return None
    return {0: [], 2: [relay.OF_PARTITION, relay.OF_RECORD]}.get(words)


def _judged(entrance: Entrance) -> list[int]:
    source, publisher = entrance.source, entrance.publisher
    if source is None or publisher is None:
        return [0, 0, 0, 0, 0]
    how = relay.BY_WATERMARK if source.is_restored else relay.BY_STAMP
    return [how, source.disorder, *source.times, source.source_index << PARTITION_BITS | publisher.partition]


def _words(header: Header) -> np.ndarray:
    """int64[HEAD_WORDS]: the size of the body, left open, and the header."""
    return np.frombuffer(bytes(8) + header.pack(), np.int64)
