"""A checkpoint: the state of an instance as it is behind a Barrier."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from cep.dataflow.life import Life
from cep.dataflow.movement.alignment import Work
from cep.dataflow.nodes import Node, Walk
from cep.dataflow.operators.operator import Keep, Part
from cep.dataflow.outputs.output import EdgeOutput
from cep.dataflow.sources.source import Source
from cep.elements import CheckpointBarrier

#: The state of every stateful operator of an instance, by the operator's name.
Snapshot = dict[str, list[Part]]


class Checkpoint:
    """Partial results leave, the state is taken, and the Barrier goes on. `pause_at`: the number of one behind which nothing more is
    taken."""

    waits_for = ""

    def __init__(self, life: Life, walk: Walk, nodes: Sequence[Node], outputs: Sequence[EdgeOutput]) -> None:
        self.life, self.walk, self.nodes, self.outputs = life, walk, nodes, outputs
        self.snapshots: dict[int, Snapshot] = {}  # by number
        self.pause_at: int | None = None

    def begin(self) -> None:
        """Nothing is prepared."""

    def is_past(self, source: Source) -> bool:
        """A source's Barrier has its place behind what it has read so far."""
        return True

    def run(self, barrier: CheckpointBarrier) -> Iterator[Work | None]:
        yield self.walk.let_out_partials(self.nodes)
        self.snapshots[barrier.number] = {node.operator.name: node.stateful.snapshot() for node in self.nodes if node.stateful is not None}
        for output in self.outputs:
            output.barrier(barrier)
        if barrier.number == self.pause_at:
            self.life.enter("pause")

    def restore(self, snapshots: Sequence[Snapshot], keep: Callable[[str], Keep]) -> None:
        """Takes of what all instances of this subquery had what is this one's: by operator, the rows that `keep` names."""
        for node in self.nodes:
            if node.stateful is not None:
                parts = [part for snapshot in snapshots for part in snapshot.get(node.operator.name, ())]
                node.stateful.restore(parts, keep(node.operator.name))
