"""The operators of a subquery instance in their places, and what a batch and a watermark mean from one of them on.

Work that may have to pause (an output without credit, a slice that is over) is a generator, which yields where it may. Where nothing
branches and nothing is held, it is done at once, without a generator for each operator: with small batches these cost as much as the
operators.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from cep.dataflow.channel import Inbox, WatermarkMerge
from cep.dataflow.meter import Account, Meter
from cep.dataflow.operators import NOTHING, OneForOne, Operator, StatefulOperator
from cep.dataflow.output import Output
from cep.elements import MAX_TIME, Batch
from cep.mark import OPERATOR

#: Work that is done already, with and without a place where the instance may pause.
_PAUSE, _DONE = (None,), ()


@dataclass
class Node:
    """An operator in its place: who reads it, and what each of its inputs has promised."""

    operator: Operator
    consumers: list[tuple[Node, object]] = field(default_factory=list)  # (node, its port)
    outputs: list[Output] = field(default_factory=list)
    late: list[Output] = field(default_factory=list)  # of the reading of a stream: for rows that came too late
    merge: WatermarkMerge = field(default_factory=WatermarkMerge)
    ports: dict[object, int] = field(default_factory=dict)  # port -> which of the operator's inputs it is
    rows_out: int = 0
    number: int = 0  # of all that its instance has, from 1 on: what `cep.mark` shows
    account: Account = field(default_factory=Account)

    def feed(self, port: object, index: int = 0) -> None:
        """One more input, known by `port`."""
        self.merge.add(port)
        self.ports[port] = index

    @property
    def rows_in(self) -> int:
        return self.account.rows

    @cached_property
    def stateful(self) -> StatefulOperator | None:
        return self.operator if isinstance(self.operator, StatefulOperator) else None

    @cached_property
    def one_for_one(self) -> OneForOne | None:
        return self.operator if isinstance(self.operator, OneForOne) else None


@dataclass
class Input:
    """An edge into the subquery: its channels, and the node and port they feed."""

    node: Node
    port: object
    inboxes: Sequence[Inbox]
    merge: WatermarkMerge = field(default_factory=WatermarkMerge)
    open: int = 0

    def __post_init__(self) -> None:
        self.open = len(self.inboxes)
        for inbox in self.inboxes:
            self.merge.add(inbox.name)
            inbox.merge = self.merge

    def follow(self, inbox: Inbox, new: Inbox) -> None:
        """The sender has moved: what it has promised holds for its new channel."""
        self.inboxes = [new if each is inbox else each for each in self.inboxes]
        self.merge.rename(inbox.name, new.name)
        new.merge = self.merge


class Walk:
    """Takes batches and watermarks from node to node, and charges each for what it does."""

    __slots__ = ("meter", "words")

    def __init__(self, meter: Meter) -> None:
        self.meter, self.words = meter, meter.words

    def push(self, node: Node, port: object, batch: Batch) -> Iterable[None]:
        words = self.words
        while True:
            words[OPERATOR] = node.number
            account = node.account
            account.rows += len(batch.time)
            account.batches += 1
            if node.one_for_one is None:
                made = node.operator.on_batch(batch, node.ports[port])
                if made is not NOTHING:
                    return self.emit_all(node, made)
                self.meter.charge(account)
                return _DONE
            batch = node.one_for_one.apply(batch)
            self.meter.charge(account)
            rows = len(batch.time)
            if not rows or len(node.consumers) != 1 or node.outputs:
                return self.emit(node, batch) if rows else _DONE
            node.rows_out += rows
            ((node, port),) = node.consumers

    def emit_all(self, node: Node, batches: Iterable[Batch]) -> Iterator[None]:
        """Each of them goes on; between two of them the instance may pause, whatever becomes of them (`PAUSE`)."""
        self.words[OPERATOR] = node.number
        for out in batches:
            self.meter.charge(node.account)
            if len(out.time):
                yield from self.emit(node, out)
            yield
            self.words[OPERATOR] = node.number
        self.meter.charge(node.account)

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

    def add(self, output: Output, batch: Batch) -> None:
        output.add(batch)
        self.meter.charge(output.account)

    def advance(self, node: Node, port: object, watermark: int) -> Iterable[None]:
        while node.merge.update(port, watermark):
            combined = node.merge.combined
            if node.stateful is not None:  # others do nothing then
                self.words[OPERATOR] = node.number
            passed = node.operator.on_watermark(combined)
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
            if combined < MAX_TIME and output.advance(combined):
                self.meter.charge(output.account)
        if len(node.consumers) == 1:
            return self.advance(*node.consumers[0], combined)
        return self._promise_each(node, combined) if node.consumers else _DONE

    def _promise_each(self, node: Node, combined: int) -> Iterator[None]:
        for consumer, port in node.consumers:
            yield from self.advance(consumer, port, combined)
