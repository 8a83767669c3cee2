"""A checkpoint: the state of an instance as it is behind a Barrier.

Partial results are taken like any other state, not let out: flushed each second they would spare nothing. Restored, those of an instance
go to one instance, whichever, for it is only on its way to their owners.
"""

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
    """What was gathered leaves, the state is taken, and the Barrier goes on. Behind one that `pauses` nothing more is taken, unless its
    number is not greater than `passed`: it was heard meanwhile that all go on. `on_taken` is called with the number when the state stands
    still; without it snapshots are kept here. `lets_out`: partial results leave before."""

    def __init__(self, life: Life, walk: Walk, nodes: Sequence[Node], outputs: Sequence[EdgeOutput]) -> None:
        self.life, self.walk, self.nodes, self.outputs = life, walk, nodes, outputs
        self.snapshots: dict[int, Snapshot] = {}  # by number
        self.passed = self.paused_at = -1
        self.on_taken: Callable[[int], None] | None = None
        self.lets_out = False

    @property
    def waits_for(self) -> str:
        return "what its query is to become" if self.life.state == "paused" else ""

    def begin(self) -> None:
        """Nothing is prepared."""

    def is_past(self, source: Source) -> bool:
        """A source's Barrier has its place behind what it has read so far."""
        return True

    def run(self, barrier: CheckpointBarrier) -> Iterator[Work | None]:
        if self.lets_out:
            yield self.walk.let_out_partials(self.nodes)
        for output in self.outputs:
            output.flush_rows()
        yield iter(())  # whatever has no credit leaves before it goes on
        if self.on_taken is None:
            self.snapshots[barrier.number] = self.snapshot()
        else:
            self.on_taken(barrier.number)
        for output in self.outputs:
            output.barrier(barrier)
        if barrier.pauses and barrier.number > self.passed:
            self.paused_at = barrier.number
            self.life.enter("pause")

    def go_on(self, passed: int) -> None:
        """No Barrier up to that number holds it up any more."""
        self.passed = max(self.passed, passed)
        if self.life.state == "paused" and self.paused_at <= self.passed:
            self.life.enter("go on")

    def snapshot(self) -> Snapshot:
        return {node.operator.name: node.stateful.snapshot() for node in self.nodes if node.stateful is not None}

    def restore(self, snapshots: Sequence[Snapshot], keep: Callable[[str], Keep]) -> None:
        """Takes of what all instances of this subquery had what is this one's: by operator, the rows that `keep` names."""
        for node in self.nodes:
            if node.stateful is not None:
                parts = [part for snapshot in snapshots for part in snapshot.get(node.operator.name, ())]
                node.stateful.restore(parts, keep(node.operator.name))
