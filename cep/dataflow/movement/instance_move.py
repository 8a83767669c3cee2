"""What an instance takes along when it moves to another instance manager (paper 4.1.1), and how it settles in there.

1. All that send to the instance put a MoveBarrier behind what they have sent, and go on with a channel to the new place
   (`EdgeOutput.redirect`). So when the Barrier has come from all of them, nothing is on its way to the old place any more.
2. Partial results leave, and behind them a Switch on every channel to another instance: that goes on with the channel from the new place
   (`Input.switch`). So what comes from there cannot overtake what came from here, and no receiver holds back any other channel.
3. The old instance is over. `belongings` has what the new one, built from the same plan, needs to be the same: the state of its
   operators, and its `Figures`.
4. The new one takes it (`Arrival`), comes as far in event time as the old one had (`SubqueryInstance.resume`), and runs.

Every channel of the moved instance is a new one at both ends, named after the move (`ChannelId.at`): numbers and credit begin anew,
and what is late on an old way cannot be taken for the new. A channel to where its instance is still being made takes what its credit
allows and waits, as any channel does whose receiver is busy.

Publishers send to an instance, too, and do as in 1: but a publisher has one channel to a reader wherever that is, whose numbers and
credit go on. They are what both places say: what was sent to the old one is taken when the new one runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from cep.dataflow.instance import SubqueryInstance
from cep.dataflow.life import Life
from cep.dataflow.movement.alignment import Work
from cep.dataflow.movement.bucket_move import InstanceBuckets, merged_pieces, pieces
from cep.dataflow.movement.figures import Figures, figures_of, take_figures
from cep.dataflow.movement.owners import everything
from cep.dataflow.nodes import Node, Walk
from cep.dataflow.operators.operator import AggregateOperator
from cep.dataflow.outputs.outputs import Outputs
from cep.dataflow.sources.source import Source
from cep.elements import MoveBarrier, State
from cep.kernels.arrays import bytes_array

FIGURES = "figures"

# --- at the old place ------------------------------------------------------------------------------------------------


class InstanceMove:
    """Handles the MoveBarriers of an instance. `left`: one behind which nothing more comes or goes, so that what it has may be taken."""

    waits_for = ""

    def __init__(self, life: Life, walk: Walk, nodes: Sequence[Node], outputs: Outputs) -> None:
        self.life, self.walk, self.nodes, self.outputs = life, walk, nodes, outputs
        self.left: MoveBarrier | None = None

    def begin(self) -> None:
        """Nothing is prepared."""

    def is_past(self, source: Source) -> bool:
        """It is read until all publishers have gone on to the new place."""
        return source.left

    def run(self, barrier: MoveBarrier) -> Iterator[Work | None]:
        yield self._leave()
        self.left = barrier
        while True:
            yield None

    def depart(self) -> None:
        """What it has is on its way."""
        self.life.enter("depart")

    def _leave(self) -> Work:
        yield from self.walk.let_out_partials(self.nodes)
        self.outputs.depart()


def belongings(instance: SubqueryInstance, buckets: InstanceBuckets | None) -> Iterator[State]:
    """Everything that it takes along, in pieces."""
    for node in instance.nodes:
        for part in node.stateful.snapshot() if node.stateful is not None else ():
            yield from (State(node.operator.name, part.name, part.port, rows) for rows in pieces(part.batch))
    yield _text(FIGURES, figures_of(instance, buckets).to_json())


def move_document(part: str, value: Any) -> State:
    """A JSON value as a piece that belongs to no operator."""
    return _text(part, json.dumps(value))


def _text(part: str, text: str) -> State:
    return State("", part, 0, pa.record_batch({"json": bytes_array([text.encode()], pa.large_string())}))


def value_of(piece: State) -> Any:
    return json.loads(_text_of(piece))


def _text_of(piece: State) -> str:
    text: str = piece.rows.column("json")[0].as_py()
    return text


# --- at the new one --------------------------------------------------------------------------------------------------


class Arrival:
    """A new instance that waits for what its predecessor had; `others` takes pieces that are not the engine's own."""

    def __init__(self, instance: SubqueryInstance, buckets: InstanceBuckets | None, others: Callable[[State], None]) -> None:
        self.instance, self.buckets, self.others = instance, buckets, others
        self._pieces: list[State] = []
        for node in instance.nodes:
            if isinstance(node.operator, AggregateOperator):
                node.operator.spec.warm(restored=True)

    def take(self, element: State | MoveBarrier) -> bool:
        """Is it complete? It runs then."""
        if isinstance(element, State):
            if element.operator or element.part == FIGURES:
                self._pieces.append(element)
            else:
                self.others(element)
            return False
        self._settle()
        return True

    def _settle(self) -> None:
        for node in self.instance.nodes:
            parts = merged_pieces(self._pieces, node.operator.name) if node.stateful is not None else []
            if parts and node.stateful is not None:
                node.stateful.restore(parts, everything)
        figures = next(piece for piece in self._pieces if piece.part == FIGURES and not piece.operator)
        take_figures(self.instance, self.buckets, Figures.from_json(_text_of(figures)))
        self.instance.resume()
