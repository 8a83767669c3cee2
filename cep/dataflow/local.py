"""All instances of a plan in one process, one thread, in-memory channels: the same parts, driven by a schedule that a test chooses.

This is the shipped double of a cluster: deterministic, so that a failing schedule can be replayed from its seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from cep.dataflow.build import Wiring, build
from cep.dataflow.dead_letters import DeadLetters
from cep.dataflow.instance import SubqueryInstance
from cep.dataflow.layout import layout_of
from cep.dataflow.local_wires import LocalWires, Script
from cep.dataflow.meter import Account, Meter
from cep.dataflow.movement.checkpoint import Snapshot
from cep.dataflow.movement.movement import Movement
from cep.dataflow.movement.owners import keep_of
from cep.dataflow.operators.aggregate import partial_name
from cep.dataflow.operators.operator import AggregateOperator, Part
from cep.dataflow.operators.pre_aggregation import PROBE_ROWS
from cep.dataflow.reports import waits_for
from cep.dataflow.sources.published import PublishedSource
from cep.dataflow.sources.publishers import Published
from cep.dataflow.sources.source import ENOUGH_ROWS, Source
from cep.elements import Batch, Element, TableBarrier
from cep.kernels.jit import nothing_compiles
from cep.model.schema import Schema
from cep.plan.moving import moving_together
from cep.plan.physical import PhysicalPlan
from cep.plan.sources import source_of


@dataclass
class Outcome:
    """What came out: per output stream, the late one too, its batches; dead letters; the last element of every output."""

    batches: dict[str, list[Batch]] = field(default_factory=dict)
    schemas: dict[str, Schema] = field(default_factory=dict)
    last: list[Element] = field(default_factory=list)
    late_rows: int = 0  # of all streams
    dead_letters: list[DeadLetters] = field(default_factory=list)
    open_panes_max: int = 0  # of any instance of an aggregate, at the end of a turn
    steps: int = 0


#: The Barrier at which a run pauses that another one goes on with (`LocalRun.restore`).
BARRIER = 1


def is_through(instance: SubqueryInstance) -> bool:
    return instance.done and not any(output.blocked for output in instance.outputs)


class LocalRun:
    """Builds all instances of `plan`; `run` steps them, one at random at a time, until all are done.

    `published` gives, per stream, the scripts of its publishers by name. `credit_bytes` is the share of every channel.
    `upstream` are runs of the queries whose outputs this one reads, as far as they have come: from now on they go on here.
    `meter` measures what its instances do; it has a clock if the caller wants to know.
    """

    def __init__(
        self,
        plan: PhysicalPlan,
        published: Mapping[str, Mapping[str, Script]] | None = None,
        credit_bytes: int = 1 << 20,
        clock: Callable[[], int] = lambda: 0,
        read_bytes: int = 2 << 20,
        state_limit: int = 4 << 30,
        probe_rows: int = PROBE_ROWS,
        enough_rows: int = ENOUGH_ROWS,
        upstream: Sequence[LocalRun] = (),
        meter: Meter | None = None,
    ) -> None:
        self.plan, self.clock = plan, clock
        self.meter, self.account = meter or Meter(), Account()  # the account: the schedule and the channels
        self.layout = layout_of(plan)
        self.upstream = {run.plan.query.name: run for run in upstream}
        self._rerouting: list[tuple[SubqueryInstance, str, TableBarrier]] = []  # the instances that have not heard yet of a new table
        self.between: Callable[[random.Random], bool] | None = None  # is called behind every step; says whether it did something
        self.wires = wires = LocalWires(plan, published or {}, credit_bytes, enough_rows, self.upstream)
        self.wiring = Wiring(
            wires.connect, wires.listen, wires.subscribe, wires, clock, state_limit, probe_rows, read_bytes, meter=self.meter
        )
        self.instances: list[SubqueryInstance] = []
        self.movements: dict[tuple[str, int], Movement] = {}  # by subquery and index
        for each in plan.instances:
            instance, self.movements[each.subquery, each.index] = build(plan, plan.subquery(each.subquery), each.index, self.wiring)
            instance.run()
            instance.intake.enough_rows = enough_rows
            self.instances.append(instance)

    def run(self, seed: int = 0, steps_max: int = 1_000_000) -> Outcome:
        """Raises RuntimeError when nothing can move any more: a deadlock."""
        outcome = Outcome()
        self.drive(random.Random(seed), outcome, self.is_over, steps_max)
        return self.collect(outcome)

    def movement(self, instance: SubqueryInstance) -> Movement:
        return self.movements[instance.subquery, instance.index]

    def is_past(self, number: int) -> bool:
        """Has every instance that is not over taken checkpoint `number`?"""
        return all(i.done or number in self.movement(i).checkpoint.snapshots for i in self.instances)

    def snapshots(self, number: int) -> list[Snapshot]:
        """What they have taken at that checkpoint."""
        taken = [movement.checkpoint.snapshots for movement in self.movements.values()]
        return [each[number] for each in taken if number in each]

    def is_over(self, outcome: Outcome | None = None, steps: int = 0) -> bool:
        """Is everything through, or has `outcome` taken so many `steps`?"""
        return (outcome is not None and outcome.steps >= steps) or all(map(is_through, self._all_instances()))

    def drive(self, choose: random.Random, outcome: Outcome, until: Callable[[], bool], steps_max: int = 1_000_000) -> None:
        """Turns, until `until` is true. Raises RuntimeError: nothing can move any more, or these were too many."""
        while not until():
            outcome.steps += 1
            outcome.open_panes_max = max([outcome.open_panes_max, *self._open_panes()])
            with nothing_compiles():
                moved = self.turn(choose)
            if not moved or outcome.steps > steps_max:
                waits = {i.name: waits_for(i, self.clock()) for i in self._all_instances()}
                raise RuntimeError(f"nothing can move after {outcome.steps} turns: {waits}")

    def is_empty(self) -> bool:
        """Nothing is on its way between instances."""
        on_the_way = any(output.blocked for instance in self.instances for output in instance.outputs)
        return not on_the_way and not any(inbox.queue for inbox in self.wires.inboxes.values())

    def restore(self, before: LocalRun) -> None:
        """Takes over the state of a run that has paused, of the same query at any parallelism. Call it before `run`."""
        self.take_snapshots(before.snapshots(BARRIER))
        for instance in self.instances:
            for source, node in instance.sources:
                if source_of(self.plan, node.operator.name).is_paced:  # others are sent what was not taken, and begin anew
                    source.restore([there.position() for there in before.readers(node.operator.name)])

    def readers(self, stream: str) -> list[Source]:
        """All sources of it."""
        return [source for each in self.instances for source, node in each.sources if node.operator.name == stream]

    def take_snapshots(self, snapshots: Sequence[Snapshot]) -> None:
        """Those of all instances, in the order of the plan. Partial results of one go to one; where a plan makes none they are results."""
        there = {node.operator.name for instance in self.instances for node in instance.nodes}
        made_whole = {partial_name(name): name for name in self.layout.operators if partial_name(name) not in there}
        snapshots = [_renamed(each, made_whole) for each in snapshots]
        for instance in self.instances:
            subquery = self.plan.subquery(instance.subquery)
            keep = partial(keep_of, self.layout, subquery, index=instance.index)
            partials = {node.operator.name for node in instance.nodes if node.operator.name not in self.layout.operators}
            others = [i % subquery.parallelism != instance.index for i in range(len(snapshots))]
            mine = [_without(each, partials) if other else each for each, other in zip(snapshots, others, strict=True)]
            self.movement(instance).checkpoint.restore(mine, keep)

    def reroute(self, head: str, version: int, table: Sequence[int]) -> None:
        """Names a new table of the buckets of `head`. Each instance that sends there hears of it at some turn to come."""
        barrier = TableBarrier(version, tuple(table))
        self._rerouting += [(instance, head, barrier) for instance in self.instances if head in self.movement(instance).routes]

    def has_moved(self, head: str, version: int) -> bool:
        """Have all buckets the places of that table?"""
        together = moving_together(self.plan, head)
        buckets = [self.movement(i).buckets for i in self.instances if i.subquery in together and not i.done]
        return not self._rerouting and all(each.version >= version for each in buckets if each is not None)

    def unread(self, stream: str) -> dict[str, list[tuple[Published, int, int]]]:
        """What no reader has taken of each publisher of `stream`, in the order in which it was sent."""
        sources = [source for instance in self.instances for source, _ in instance.sources]
        readers = [source for source in sources if isinstance(source, PublishedSource) and source.stream == stream]
        left = [(name, each) for reader in readers for name, p in reader.publishers.items() for each in p.inbox.queue]
        batches = [(name, each) for name, each in left if isinstance(each[0], Published)]
        return {
            name: sorted((each for publisher, each in batches if publisher == name), key=lambda each: each[0].record)
            for name in self.wires.published.get(stream, {})
        }

    def _runs(self) -> dict[str, LocalRun]:
        """This one and those before it, each once."""
        before = {name: run for each in self.upstream.values() for name, run in each._runs().items()}
        return before | {self.plan.query.name: self}

    def _all_instances(self) -> list[SubqueryInstance]:
        return [instance for run in self._runs().values() for instance in run.instances]

    def turn(self, choose: random.Random) -> bool:
        """Every instance steps once, in an order and for as long as `choose` says. Did anything move?"""
        order, runs = self._all_instances(), self._runs().values()
        choose.shuffle(order)
        moved = bool(self._rerouting)
        for instance in order:
            self._tell_tables(instance, choose)
            self.meter.charge(self.account)
            worked = instance.step(lambda: choose.random() < 0.5)
            worked |= self.between is not None and self.between(choose)
            if worked:
                moved = True
                _settle(runs)
        moved |= _settle(runs)  # what there is without work, as the first credit
        if not moved:
            for instance in order:  # what a real instance manager does every 100 ms
                instance.tick()
            moved = any(inbox.queue for run in runs for inbox in run.wires.inboxes.values())
        return moved

    def _tell_tables(self, instance: SubqueryInstance, choose: random.Random) -> None:
        for each in [each for each in self._rerouting if each[0] is instance and choose.random() < 0.5]:
            self._rerouting.remove(each)
            self.movement(instance).reroute(*each[1:])

    def _open_panes(self) -> Iterator[int]:
        operators = (node.operator for instance in self.instances for node in instance.nodes)
        return (operator.state.open_panes for operator in operators if isinstance(operator, AggregateOperator))

    def collect(self, outcome: Outcome) -> Outcome:
        """What has come out of this query so far."""
        for output in self.plan.query.outputs:
            outcome.schemas[output.stream] = self.layout.columns(output.input)
            outcome.batches[output.stream] = []
        for edge in (edge for edge in self.plan.edges if edge.late):
            outcome.schemas[edge.consumer], outcome.batches[edge.consumer] = self.layout.late_format(edge).schema, []
        for (stream, _), sink in sorted(self.wires.sinks.items()):
            outcome.batches[stream] += sink.batches()
            outcome.last += sink.elements[-1:]
        for instance in self.instances:
            outcome.late_rows += sum(source.late_rows for source, _ in instance.sources)
            outcome.dead_letters.append(instance.dead_letters)
        return outcome


def _settle(runs: Iterable[LocalRun]) -> bool:
    """Every channel of theirs; was there news?"""
    return any([channel.settle() for run in runs for channel in run.wires.channels])


def _renamed(snapshot: Snapshot, names: Mapping[str, str]) -> Snapshot:
    """With the parts of operators that have another name there."""
    found: dict[str, list[Part]] = {}
    for name, parts in snapshot.items():
        found.setdefault(names.get(name, name), []).extend(parts)
    return found


def _without(snapshot: Snapshot, names: Collection[str]) -> Snapshot:
    return {name: parts for name, parts in snapshot.items() if name not in names}
