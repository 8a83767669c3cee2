"""Metering stands around what is done, or does not stand there at all."""

from __future__ import annotations

from cep.dataflow import metering
from cep.dataflow.intake import Taking
from cep.dataflow.meter import Account, Meter
from cep.dataflow.nodes import Node
from cep.dataflow.operators.operator import PassOperator
from cep.dataflow.outputs.outputs import Emitting
from cep.service.mark import OPERATOR
from tests.cep.dataflow.test_instance import Pass, Windows, batch


def asked(node: Node) -> tuple[object, ...]:
    return node.on_batch, node.on_watermark, node.apply, node.on_barrier


def test_without_a_clock_nothing_is_wrapped() -> None:
    for operator in (Pass(), Windows(), PassOperator("p")):
        node = Node(operator)
        before = asked(node)
        metering.measure(node, Meter())
        assert asked(node) == before
    assert metering.emitting(Meter()) == Emitting()
    assert metering.taking(Meter(), Account()) == Taking()


def test_what_does_nothing_about_time_is_not_wrapped_there() -> None:
    meter, passes, windows = Meter(lambda: 1), Node(Pass()), Node(Windows())
    for node in (passes, windows):
        before = node.on_watermark
        metering.measure(node, meter)
        assert (node.on_watermark == before) == (node is passes)


def test_what_is_under_way_is_marked_also_after_others_have_been() -> None:
    """
    read by `cep.service.mark`: which operator has been at work last
    """
    meter = Meter(lambda: 1)
    first, second = Node(Pass(), number=1), Node(PassOperator("p"), number=2)
    for node in (first, second):
        metering.measure(node, meter)
        node.feed("in")
    assert second.apply is not None
    made, seen = iter(first.on_batch(batch(1), 0)), []
    seen.append(meter.words[OPERATOR])
    for each in made:
        seen.append(meter.words[OPERATOR])
        second.apply(each)
        seen.append(meter.words[OPERATOR])
    seen.append(meter.words[OPERATOR])
    assert seen == [1, 1, 2, 1]


def test_a_wrapper_answers_what_is_wrapped() -> None:
    ticks = iter(range(0, 1000, 10))
    meter, node = Meter(lambda: next(ticks)), Node(PassOperator("p"))
    metering.measure(node, meter)
    assert node.apply is not None
    given = batch(1, 2)
    assert node.apply(given) is given
    assert node.account.busy_ns == 10
