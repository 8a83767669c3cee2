"""Metering decorates what an instance does: reading, taking, what operators do, and emitting.

A wrapper stands around each of these, chosen once when the instance is built, and nothing inside knows of it. With a meter that measures
nothing there is no wrapper. A wrapper has clock and account at hand and charges in place, so it costs no more than a call of `Meter.charge`
beside the work would (docs/decisions.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from cep.dataflow.channel import Inbox
from cep.dataflow.intake import Read, Taking, read_of, take_of
from cep.dataflow.meter import Account, Meter
from cep.dataflow.nodes import Node
from cep.dataflow.operators.operator import NOTHING, StatelessOperator
from cep.dataflow.outputs.output import EdgeOutput
from cep.dataflow.outputs.outputs import Emitting
from cep.dataflow.sources.source import Source
from cep.elements import Batch, Element
from cep.service.mark import OPERATOR
from cep.world.stalls import SLOW_NS

# --- next ------------------------------------------------------------------------------------------------------------


def taking(meter: Meter, account: Account) -> Taking:
    """Elements are taken on `account`; what sources read is on those of their nodes."""
    return Taking(_of_reading(meter), _of_taking(meter, account)) if meter.measures else Taking()


def _of_reading(meter: Meter) -> Callable[[Source, Node], Read | None]:
    """What is read goes on to the node, which charges the time with its own. Where nothing is, it goes with the next piece of work."""
    words = meter.words

    def metered(source: Source, node: Node) -> Read | None:
        words[OPERATOR] = node.number
        read = read_of(source, node)
        if read is not None and read[2] is None:
            meter.charge(node.account)
        return read

    return metered


def _of_taking(meter: Meter, account: Account) -> Callable[[Inbox, int], tuple[Element, int]]:
    clock = meter.clock

    def metered(inbox: Inbox, enough_rows: int) -> tuple[Element, int]:
        taken = take_of(inbox, enough_rows)
        now = clock()
        spent = now - meter.mark
        account.busy_ns += spent
        meter.mark = now
        if spent > SLOW_NS:
            meter.slow(account, spent)
        return taken

    return metered


# --- push ------------------------------------------------------------------------------------------------------------


def measure(node: Node, meter: Meter) -> None:
    """What the operator of `node` does is on the node's account. Its number is known by then."""
    if not meter.measures:
        return
    wrap = _OfOperator(meter, node.account, node.number)
    node.on_batch = wrap.of_batch(node.on_batch)
    if node.apply is not None:
        node.apply = wrap.of_apply(node.apply)
    own: object = type(node.operator).on_watermark
    if own is not StatelessOperator.on_watermark:  # which does nothing
        node.on_watermark = wrap.of_watermark(node.on_watermark)
    if node.on_barrier is not None:
        node.on_barrier = wrap.of_barrier(node.on_barrier)


@dataclass(frozen=True, slots=True)
class _OfOperator:
    """Wraps what operator `number` of an instance does (`cep.service.mark` shows the number while it does)."""

    meter: Meter
    account: Account
    number: int

    def of_apply(self, apply: Callable[[Batch], Batch]) -> Callable[[Batch], Batch]:
        meter, account, number = self.meter, self.account, self.number
        clock, words = meter.clock, meter.words

        def metered(batch: Batch) -> Batch:
            words[OPERATOR] = number
            made = apply(batch)
            now = clock()
            spent = now - meter.mark
            account.busy_ns += spent
            meter.mark = now
            if spent > SLOW_NS:
                meter.slow(account, spent)
            return made

        return metered

    def of_batch(self, on_batch: Callable[[Batch, int], Iterable[Batch]]) -> Callable[[Batch, int], Iterable[Batch]]:
        meter, account, number, each = self.meter, self.account, self.number, self.each
        words = meter.words

        def metered(batch: Batch, port: int) -> Iterable[Batch]:
            words[OPERATOR] = number
            made = on_batch(batch, port)
            if made is not NOTHING:
                return each(made)
            meter.charge(account)
            return NOTHING

        return metered

    def of_watermark(self, on_watermark: Callable[[int], Iterable[Batch]]) -> Callable[[int], Iterable[Batch]]:
        """Where nothing comes out the time goes with the next piece of work."""
        number, each, words = self.number, self.each, self.meter.words

        def metered(watermark: int) -> Iterable[Batch]:
            words[OPERATOR] = number
            passed = on_watermark(watermark)
            return NOTHING if passed is NOTHING else each(passed)

        return metered

    def of_barrier(self, on_barrier: Callable[[], Iterable[Batch]]) -> Callable[[], Iterable[Batch]]:
        return lambda: self.each(on_barrier())

    def each(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """The making of each of them, and of none behind the last; not what others do with it in between."""
        meter, account, number = self.meter, self.account, self.number
        clock, words = meter.clock, meter.words
        words[OPERATOR] = number
        for batch in batches:
            now = clock()
            spent = now - meter.mark
            account.busy_ns += spent
            meter.mark = now
            if spent > SLOW_NS:
                meter.slow(account, spent)
            yield batch
            words[OPERATOR] = number
        meter.charge(account)


# --- emit ------------------------------------------------------------------------------------------------------------


def emitting(meter: Meter) -> Emitting:
    if not meter.measures:
        return Emitting()
    sending = (EdgeOutput.flush, EdgeOutput.flush_rows, EdgeOutput.pump, EdgeOutput.depart)
    return Emitting(_of_add(meter), _of_advance(meter), *(_of_sending(each, meter) for each in sending))


def _of_add(meter: Meter) -> Callable[[EdgeOutput, Batch], None]:
    clock, add = meter.clock, EdgeOutput.add

    def metered(output: EdgeOutput, batch: Batch) -> None:
        add(output, batch)
        now = clock()
        spent = now - meter.mark
        output.account.busy_ns += spent
        meter.mark = now
        if spent > SLOW_NS:
            meter.slow(output.account, spent)

    return metered


def _of_advance(meter: Meter) -> Callable[[EdgeOutput, int], bool]:
    """Where nothing leaves there is nothing to charge."""
    advance = EdgeOutput.advance

    def metered(output: EdgeOutput, watermark: int) -> bool:
        left = advance(output, watermark)
        if left:
            meter.charge(output.account)
        return left

    return metered


def _of_sending(send: Callable[[EdgeOutput], Any], meter: Meter) -> Callable[[EdgeOutput], Any]:
    clock = meter.clock

    def metered(output: EdgeOutput) -> Any:
        sent = send(output)
        now = clock()
        spent = now - meter.mark
        output.account.busy_ns += spent
        meter.mark = now
        if spent > SLOW_NS:
            meter.slow(output.account, spent)
        return sent

    return metered
