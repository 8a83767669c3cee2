"""The operators of a subquery instance in their places, and what a batch and a watermark mean from one of them on.

Work that may have to pause (an output without credit, a slice that is over) is a generator, which yields where it may. Where nothing
branches and nothing is held, it is done at once, without a generator for each operator: with small batches these cost as much as the
operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import cast

from cep.dataflow.channel import Inbox, WatermarkMerge
from cep.dataflow.meter import Account
from cep.dataflow.operators.operator import NOTHING, OneForOne, RunningOperator, StatefulOperator
from cep.dataflow.outputs.output import EdgeOutput
from cep.dataflow.outputs.outputs import Emitting
from cep.elements import MAX_TIME, Batch
from cep.errors import ProtocolError

#: Work that is done already, with and without a place where the instance may pause.
_PAUSE, _DONE = (None,), ()


@dataclass
class Node:
    """An operator in its place: its readers, and what each of its inputs has promised."""

    operator: RunningOperator
    consumers: list[tuple[Node, object]] = field(default_factory=list)  # (node, its port)
    outputs: list[EdgeOutput] = field(default_factory=list)
    late: list[EdgeOutput] = field(default_factory=list)  # of the reading of a stream: for rows that came too late
    merge: WatermarkMerge = field(default_factory=WatermarkMerge)
    ports: dict[object, int] = field(default_factory=dict)  # port -> which of the operator's inputs it is
    rows_out: int = 0
    number: int = 0  # of all that its instance has, from 1 on: what `cep.service.mark` shows
    account: Account = field(default_factory=Account)

    def __post_init__(self) -> None:
        """What is asked of the operator: as it does it, or metered (`cep.dataflow.metering`)."""
        operator = self.operator
        self.on_batch: Callable[[Batch, int], Iterable[Batch]] = operator.on_batch
        self.on_watermark: Callable[[int], Iterable[Batch]] = operator.on_watermark
        self.apply: Callable[[Batch], Batch] | None = operator.apply if isinstance(operator, OneForOne) else None
        self.on_barrier: Callable[[], Iterable[Batch]] | None = getattr(operator, "on_barrier", None)  # those with state have it

    def feed(self, port: object, index: int = 0) -> None:
        """One more input, known by `port`."""
        self.merge.add(port)
        self.ports[port] = index

    @property
    def rows_in(self) -> int:
        return self.account.rows

    @cached_property
    def stateful(self) -> StatefulOperator | None:
        """`isinstance` would read all that the protocol names, also what has to be added up."""
        return cast(StatefulOperator, self.operator) if self.on_barrier is not None else None


@dataclass
class Input:
    """An edge into the subquery: its channels, and the node and port they feed."""

    node: Node
    port: object
    inboxes: Sequence[Inbox]
    merge: WatermarkMerge = field(default_factory=WatermarkMerge)
    open: int = 0
    switches: dict[Inbox, Inbox] = field(default_factory=dict)  # of senders that move: the channel -> the one from their new place

    def __post_init__(self) -> None:
        self.open = len(self.inboxes)
        for inbox in self.inboxes:
            self.merge.add(inbox.name)
            inbox.merge = self.merge

    def switch(self, inbox: Inbox, watermark: int) -> None:
        """The sender has moved, having promised `watermark`: that holds for its channel from there, on which it goes on."""
        if inbox not in self.switches:
            raise ProtocolError(f"channel {inbox.name!r}: its sender has moved, and the channel from its new place is not open")
        new = self.switches.pop(inbox)
        self.merge.update(inbox.name, watermark)
        self.inboxes = [new if each is inbox else each for each in self.inboxes]
        self.merge.rename(inbox.name, new.name)
        new.merge = self.merge


class Walk:
    """Takes batches and watermarks from node to node."""

    __slots__ = ("add", "advance_output")

    def __init__(self, emitting: Emitting) -> None:
        self.add, self.advance_output = emitting.add, emitting.advance

    def push(self, node: Node, port: object, batch: Batch) -> Iterable[None]:
        while True:
            account = node.account
            account.rows += len(batch.time)
            account.batches += 1
            if node.apply is None:
                made = node.on_batch(batch, node.ports[port])
                return _DONE if made is NOTHING else self.emit_all(node, made)
            batch = node.apply(batch)
            rows = len(batch.time)
            if not rows or len(node.consumers) != 1 or node.outputs:
                return self.emit(node, batch) if rows else _DONE
            node.rows_out += rows
            ((node, port),) = node.consumers

    def emit_all(self, node: Node, batches: Iterable[Batch]) -> Iterator[None]:
        """Each of them goes on; between two of them the instance may pause, whatever becomes of them (`PAUSE`)."""
        for out in batches:
            if len(out.time):
                yield from self.emit(node, out)
            yield

    def let_out_partials(self, nodes: Sequence[Node]) -> Iterator[None]:
        """Partial results, which have to leave before a Barrier does."""
        for node in nodes:
            if node.on_barrier is not None:
                yield from self.emit_all(node, node.on_barrier())

    def emit(self, node: Node, batch: Batch) -> Iterable[None]:
        node.rows_out += len(batch.time)
        if len(node.consumers) == 1 and not node.outputs:
            return self.push(*node.consumers[0], batch)
        if node.consumers:
            return self._spread(node, batch)
        for output in node.outputs:
            self.add(output, batch)
        return _PAUSE

    def _spread(self, node: Node, batch: Batch) -> Iterator[None]:
        for consumer, port in node.consumers:
            yield from self.push(consumer, port, batch)
        for output in node.outputs:
            self.add(output, batch)
        yield

    def advance(self, node: Node, port: object, watermark: int) -> Iterable[None]:
        while node.merge.update(port, watermark):
            combined = node.merge.combined
            passed = node.on_watermark(combined)
            if passed is not NOTHING:
                return self._fire(node, passed, combined)
            if len(node.consumers) != 1 or node.outputs:
                return self._promise(node, combined)
            watermark = node.operator.watermark_after(combined)
            ((node, port),) = node.consumers
        return _DONE

    def _fire(self, node: Node, passed: Iterable[Batch], combined: int) -> Iterator[None]:
        yield from self.emit_all(node, passed)
        yield from self._promise(node, combined)

    def _promise(self, node: Node, combined: int) -> Iterable[None]:
        """The watermark goes on, behind what it has let out."""
        combined = node.operator.watermark_after(combined)
        for output in node.outputs:
            if combined < MAX_TIME:
                self.advance_output(output, combined)
        if len(node.consumers) == 1:
            return self.advance(*node.consumers[0], combined)
        return self._promise_each(node, combined) if node.consumers else _DONE

    def _promise_each(self, node: Node, combined: int) -> Iterator[None]:
        for consumer, port in node.consumers:
            yield from self.advance(consumer, port, combined)
