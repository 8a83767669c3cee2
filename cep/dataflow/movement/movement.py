"""What may be asked of an instance beside its tuples: a checkpoint, other buckets, another place. The instance knows none of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cep.dataflow.channel import Channel, Inbox
from cep.dataflow.instance import SubqueryInstance
from cep.dataflow.movement.bucket_move import BucketMove, InstanceBuckets
from cep.dataflow.movement.checkpoint import Checkpoint
from cep.dataflow.movement.instance_move import InstanceMove
from cep.dataflow.outputs.output import EdgeOutput
from cep.elements import Barrier, CheckpointBarrier, MoveBarrier, TableBarrier


class Movement:
    """The moves of one instance. `routes`: subquery that has a table of buckets -> the outputs that lead there; `buckets`: its own, where
    they can move; `keeping`: the outputs to subqueries that keep its partitioning."""

    def __init__(
        self,
        instance: SubqueryInstance,
        routes: Mapping[str, Sequence[EdgeOutput]] | None = None,
        buckets: InstanceBuckets | None = None,
        keeping: Sequence[EdgeOutput] = (),
    ) -> None:
        self.instance, self.routes, self.buckets = instance, routes or {}, buckets
        self.checkpoint = Checkpoint(instance.life, instance.walk, instance.nodes, instance.outputs)
        self.place = InstanceMove(instance.life, instance.walk, instance.nodes, instance.outputs)
        handlers = instance.alignment.handlers
        handlers[CheckpointBarrier], handlers[MoveBarrier] = self.checkpoint, self.place
        if buckets is not None:
            moving = BucketMove(buckets, instance.walk, instance.nodes, keeping, instance.meter, instance.account)
            handlers[TableBarrier] = moving
            instance.beside.append(moving.pump)

    def begin(self, barrier: Barrier) -> None:
        """Its sources are told of a Barrier, which has its place behind what they have read; or, of a move, behind all that they will."""
        self.instance.alignment.begin(barrier)

    def reroute(self, head: str, barrier: TableBarrier) -> None:
        """From now on it sends to the instances of `head` by the table of `barrier`, which goes before."""
        for output in self.routes.get(head, ()) if not self.instance.done else ():
            output.reroute(barrier)

    def redirect(self, barrier: MoveBarrier, new: Mapping[Channel, Channel]) -> None:
        """The instance at the other end of these channels moves: behind the Barrier it is sent to on the new ones."""
        for output in self.instance.outputs if not self.instance.done else ():
            output.redirect(barrier, new)

    def listen(self, before: Inbox, after: Inbox) -> None:
        """The sender of a channel moves: what follows comes on the one from its new place. That it moved before may still have to be heard:
        then `before` is the channel from where it went first."""
        for input_ in self.instance.inputs:
            if before in input_.inboxes or before in input_.switches.values():
                input_.switches[before] = after

    def listen_no_more(self, after: Inbox) -> None:
        """It does not move after all."""
        for input_ in self.instance.inputs:
            input_.switches = {before: new for before, new in input_.switches.items() if new is not after}

    @property
    def rests(self) -> bool:
        """Is nothing of it under way?"""
        switching = any(input_.switches for input_ in self.instance.inputs)
        return self.buckets is None and not switching and not self.instance.alignment.queue
