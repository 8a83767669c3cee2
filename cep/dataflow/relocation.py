"""What an instance takes along when it moves to another instance manager (DESIGN 6; paper 4.1.1), and how it settles in there.

1. Everybody who sends to the instance puts a Barrier that names the move behind what it has sent, and goes on with a channel to the
   new place (`Output.redirect`). So when the Barrier has come from all of them, nothing is on its way to the old place any more.
2. Partial results leave, and behind them the Barrier; the receivers then go on with the channels from the new place
   (`SubqueryInstance._follow`). So what comes from there cannot overtake what came from here.
3. The old instance is over. `belongings` has what the new one, built from the same plan, needs to be the same: the state of its
   operators, what its inputs have promised or that they have ended, since when it has rows, where its outputs have come to, and its counts.
4. The new one takes it (`Arrival`), comes as far in event time as the old one had (`SubqueryInstance.resume`), and runs.

Every channel of the moved instance is a new one at both ends, named after the move (`channel_at`): numbers and credit begin anew,
and what is late on an old way cannot be taken for the new. A channel to where its instance is still being made takes what its credit
allows and waits, as any channel does whose receiver is busy.

Publishers send to an instance, too, and do as in 1: but a publisher has one channel to a reader wherever that is, whose numbers and
credit go on. They are what both places say: what was sent to the old one is taken when the new one runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa

from cep.dataflow.balancer import RouteKey
from cep.dataflow.channel import Inbox
from cep.dataflow.checkpoint import everything
from cep.dataflow.dead_letters import Letter
from cep.dataflow.instance import SubqueryInstance
from cep.dataflow.meter import Account
from cep.dataflow.nodes import Input
from cep.dataflow.operators import AggregateOperator
from cep.dataflow.output import Output
from cep.dataflow.reroute import pieces, whole
from cep.dataflow.source import PublishedSource, Vanished
from cep.elements import Barrier, State

FIGURES = "figures"
_NUMBER = re.compile(r"#\d+$")


def channel_at(name: str, move: int) -> str:
    """The channel that takes the place of `name` when one of its ends moves."""
    return f"{base_of(name)}#{move}"


def base_of(name: str) -> str:
    """The name by which the plan knows a channel, wherever its ends have moved."""
    return _NUMBER.sub("", name)


def transfer_name(query: str, subquery: str, index: int, move: int) -> str:
    """The channel from the old place to the new one; an instance has none to itself otherwise."""
    return f"{query}/{subquery}/{index}>{index}#{move}"


def belongings(instance: SubqueryInstance) -> Iterator[State]:
    """Everything that it takes along, in pieces."""
    for node in instance.nodes:
        for part in node.stateful.snapshot() if node.stateful is not None else ():
            yield from (State(node.operator.name, part.name, part.port, rows) for rows in pieces(part.batch))
    yield document(FIGURES, _figures(instance))


def document(part: str, value: Any) -> State:
    """A JSON value as a piece that belongs to no operator."""
    return State("", part, 0, pa.record_batch({"json": pa.array([json.dumps(value)], pa.large_string())}))


def value_of(piece: State) -> Any:
    return json.loads(piece.rows.column("json")[0].as_py())


class Arrival:
    """A new instance that waits for what its predecessor had; `others` takes pieces that are not the engine's own."""

    def __init__(self, instance: SubqueryInstance, others: Callable[[State], None]) -> None:
        self.instance, self.others = instance, others
        self._pieces: list[State] = []
        instance.arriving = True
        for node in instance.nodes:
            if isinstance(node.operator, AggregateOperator):
                node.operator.spec.warm(restored=True)

    def take(self, element: State | Barrier) -> bool:
        """Is it complete? It runs then."""
        if isinstance(element, Barrier):
            _settle_in(self.instance, self._pieces)
            return True
        if element.operator or element.part == FIGURES:
            self._pieces.append(element)
        else:
            self.others(element)
        return False


def _settle_in(instance: SubqueryInstance, found: Iterable[State]) -> None:
    kept = list(found)
    for node in instance.nodes:
        parts = whole(kept, node.operator.name) if node.stateful is not None else []
        if parts and node.stateful is not None:
            node.stateful.restore(parts, everything)
    _take_figures(instance, value_of(next(piece for piece in kept if piece.part == FIGURES and not piece.operator)))
    instance.resume()


# --- what is no operator's state -------------------------------------------------------------------------------------


def _figures(instance: SubqueryInstance) -> dict[str, Any]:
    """The same plan makes the same nodes, inputs and outputs in the same order."""
    letters, moving = instance.dead_letters, instance.moving
    return {
        "since": instance.since,
        "account": _account(instance.account),
        "nodes": [{"account": _account(node.account), "rows_out": node.rows_out} for node in instance.nodes],
        "incomplete": [node.stateful.incomplete for node in instance.nodes if node.stateful is not None],
        "inputs": [[_promised(input_, inbox) for inbox in input_.inboxes] for input_ in instance.inputs],
        "sources": {source.stream: _source(source) for source in _published(instance)},
        "outputs": [_output(output) for output in instance.outputs],
        "letters": {"counts": letters.counts, "waiting": [letter.to_json() for letter in letters.letters]},
        "moving": None if moving is None else {name: getattr(moving, name) for name in _MOVED} | {"table": moving.table.tolist()},
    }


_MOVED = ("version", "moves", "rows_moved", "bytes_moved", "paused_us")


def _account(account: Account) -> list[int]:
    return [account.rows, account.bytes, account.batches, account.busy_ns, account.cpu_ns]


def _promised(input_: Input, inbox: Inbox) -> dict[str, Any]:
    """By a channel, of which the new one begins anew."""
    return {"time": input_.merge.times[inbox.name], "idle": inbox.name in input_.merge.idle, "ended": inbox.ended}


def _published(instance: SubqueryInstance) -> list[PublishedSource]:
    return [source for source, _ in instance.sources if isinstance(source, PublishedSource)]


_OF_SOURCE = ("origin", "ending", "ended", "had_any", "records", "watermark", "since", "late_rows", "odd_times", "before_since")


def _source(source: PublishedSource) -> dict[str, Any]:
    own = {name: getattr(source, name) for name in _OF_SOURCE}
    vanished = {name: asdict(each) for name, each in source.vanished.items()}
    idle = [name for name, publisher in source.publishers.items() if publisher.idle]
    return own | {"times": source.merge.times, "combined": source.merge.combined, "vanished": vanished, "idle": idle}


def _output(output: Output) -> dict[str, Any]:
    latency, balancer = output.latency, output.balancer
    routes = {"table": balancer.table.tolist(), "counts": balancer.counts.tolist()} if isinstance(balancer, RouteKey) else None
    return {
        "account": _account(output.account),
        "sent_until": output.sent_until,
        "discarded": output.discarded,
        "bytes": output.bytes,
        "table_version": output.table_version,
        "waited_ns": output.stall.waited_ns,
        "latency": None if latency is None else [latency.sum_us, latency.counts],
        "routes": routes,
    }


def _take_figures(instance: SubqueryInstance, figures: Mapping[str, Any]) -> None:
    instance.learn_since(figures["since"])
    _charge(instance.account, figures["account"])
    for node, each in zip(instance.nodes, figures["nodes"], strict=True):
        _charge(node.account, each["account"])
        node.rows_out = each["rows_out"]
    stateful = [node.stateful for node in instance.nodes if node.stateful is not None]
    for operator, incomplete in zip(stateful, figures["incomplete"], strict=True):
        operator.incomplete = incomplete
    for input_, each in zip(instance.inputs, figures["inputs"], strict=True):
        _take_promises(input_, each)
    for source in _published(instance):
        _take_source(source, figures["sources"][source.stream])
    for output, each in zip(instance.outputs, figures["outputs"], strict=True):
        _take_output(output, each)
    instance.dead_letters.counts.update(figures["letters"]["counts"])
    instance.dead_letters.letters.extend(Letter(**letter) for letter in figures["letters"]["waiting"])
    if instance.moving is not None:
        for name in _MOVED:
            setattr(instance.moving, name, figures["moving"][name])
        instance.moving.table = np.array(figures["moving"]["table"], np.int32)


def _charge(account: Account, figures: Iterable[int]) -> None:
    account.rows, account.bytes, account.batches, account.busy_ns, account.cpu_ns = figures


def _take_promises(input_: Input, promised: Iterable[Mapping[str, Any]]) -> None:
    for inbox, each in zip(input_.inboxes, promised, strict=True):
        input_.merge.times[inbox.name] = each["time"]
        if each["idle"]:
            input_.merge.idle.add(inbox.name)  # it is asked anew
        inbox.ended = each["ended"]
        input_.open -= each["ended"]
    input_.merge.recombine()


def _take_source(source: PublishedSource, figures: Mapping[str, Any]) -> None:
    """Publishers may have opened at it before."""
    for name in _OF_SOURCE:
        setattr(source, name, figures[name])
    source.vanished = {name: Vanished(**each) for name, each in figures["vanished"].items()} | source.vanished
    source.merge.combined = figures["combined"]
    source.merge.times |= {name: time for name, time in figures["times"].items() if name in source.publishers}
    source.fall_asleep(figures["idle"])


def _take_output(output: Output, figures: Mapping[str, Any]) -> None:
    _charge(output.account, figures["account"])
    output.sent_until, output.discarded, output.table_version = figures["sent_until"], figures["discarded"], figures["table_version"]
    output.sent_before(figures["bytes"])
    output.stall.waited_ns = figures["waited_ns"]
    if output.latency is not None:
        output.latency.sum_us, output.latency.counts = figures["latency"]
    if isinstance(output.balancer, RouteKey):
        output.balancer.table = np.array(figures["routes"]["table"], np.int32)
        output.balancer.counts = np.array(figures["routes"]["counts"], np.int64)
