"""A whole simulated cluster, a query that it runs, and what is seen of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from cep.compile.user.functions import allowed
from cep.config import ClusterConfig
from cep.dataflow.reports import waits_for
from cep.errors import CepError
from cep.kernels.jit import interpreted
from cep.model.streams import Stream
from cep.model.topology import Topology
from cep.plan.moving import heads, why_it_stays
from cep.plan.physical import PhysicalPlan
from cep.transport.wire import Header
from driver.rest import path
from driver.streams.following import Following
from driver.streams.publisher import Publisher
from driver.streams.subscription_core import SubscriptionOptions
from instance_manager.hosting import InstanceHost
from orchestrator.service import Service
from orchestrator.state.cluster_state import ClusterState
from simulation.checkers import AnswersAgree, Checker, CountsAgree, Numbers, Promises, complaints
from simulation.client import ClientProcess, HeardSubscription
from simulation.coordination import SimulatedZooKeeper
from simulation.growth import batches_of
from simulation.processes import InstanceManagerProcess, OrchestratorProcess, SimulatedProcess
from simulation.schedule import MS, S, SeededSchedule, Task, Trace
from simulation.sockets import SimulatedNetwork
from simulation.workload import QUERY, DrawnWorkload, publisher_name, workload
from tests.support.running import values_of_array

MODULES = ("tests.support.user_functions", "tests.support.functions_of_users")
SENDING_PACES_NS = (0, 10 * MS, 100 * MS)  # between two batches of a publisher, at most
LONG_PACES_NS = (100 * MS, 400 * MS, 1000 * MS)  # while something moves
BETWEEN_MOVES_NS = (20 * MS, 100 * MS, 400 * MS)
PATIENCE_NS = 300 * S  # of virtual time, in which a seed has to come to its end


class MovesMade(NamedTuple):
    """How often buckets moved, and how often an instance."""

    buckets: int
    instances: int


class SimulatedCluster:
    """`seed` decides what is asked of it and all that happens; `moves` are made by a user at moments of its choice."""

    def __init__(self, seed: int, trace: Trace) -> None:
        self.work, self.schedule = workload(seed), SeededSchedule(seed, trace)
        work, schedule = self.work, self.schedule
        expected = work.expected
        self.numbers, self.promises = Numbers(), Promises(work.query)
        self.answers, self.counts = AnswersAgree(work.query, expected), CountsAgree(expected)
        self.checkers: Sequence[Checker] = (self.numbers, self.promises, self.answers, self.counts)
        self.network, self.zookeeper = SimulatedNetwork(schedule, work.hosts), SimulatedZooKeeper(schedule)
        self.network.sniff = self.numbers.sent
        config = config_of(work)
        machine = Topology.one_node([0, 1])
        self.orchestrators = [OrchestratorProcess(schedule, self.zookeeper, config, machine, i) for i in range(work.orchestrators)]
        names = [f"im-{i}" for i in range(work.instance_managers)]
        self.managers = [InstanceManagerProcess(schedule, self.network, self.zookeeper, config, name, self._over) for name in names]
        doors = [orchestrator.door for orchestrator in self.orchestrators]
        self.reader, self.writer, self.mover = (
            ClientProcess(schedule, self.network, doors, name) for name in ("reader", "writer", "mover")
        )
        self.moved = MovesMade(0, 0)
        self.processes: Sequence[SimulatedProcess] = (*self.orchestrators, *self.managers, self.reader, self.writer, self.mover)

    def run(self) -> list[str]:
        """Lets the query run to its end; what the checkers complain of. Raises Stuck, and whatever goes wrong in a turn."""
        for process in self.processes:
            process.start()
        main = self.reader.run(self._main)
        self.schedule.run(lambda: main.ended, PATIENCE_NS)
        return complaints(self.checkers)

    def close(self) -> None:
        for process in self.processes:
            process.close()

    def _over(self, hosted: InstanceHost) -> None:
        instance = hosted.instance
        late = sum(source.late_rows for source, _ in instance.sources)
        self.counts.ended(instance.subquery, instance.index, late, instance.dead_letters.counts)

    # What the query's user does

    def _main(self) -> None:
        reader = self.reader
        service = self._leader(reader)
        while reader.result(service.ask(lambda state: len(state.managers))) < len(self.managers):
            reader.pause(10 * MS)
        reader.result(service.deploy(self.work.query, {}, start=False))
        self._await_state("ready")
        options = SubscriptionOptions(event_time=True, budget_bytes=self.work.budget_bytes)
        self.network.hosts.begin_cuts()
        reading = [self._subscribe(stream, options) for stream in self.answers.expected]
        reader.rest.post(path("queries", QUERY, "start"))
        self.writer.run(self._publish)
        if self.work.moves:
            self.mover.run(self._move)
        reader.plane.current.wait(lambda: all(each.ended for each in reading))
        self._await_state("ended")
        self.moved = reader.result(service.ask(_moves_made))

    def _leader(self, client: ClientProcess) -> Service:
        """As soon as one of the orchestrators leads."""
        while (service := next((each.service for each in self.orchestrators if each.service.leads), None)) is None:
            client.pause(10 * MS)
        return service

    def _await_state(self, wanted: str) -> None:
        reader = self.reader
        service = self._leader(reader)
        reader.result(service.wait(lambda state: True if state.query(QUERY).state in (wanted, "failed") else None))
        failed = reader.result(service.ask(lambda state: state.query(QUERY).cause))
        assert failed is None, failed

    def _subscribe(self, stream: str, options: SubscriptionOptions) -> Task:
        """It is attached when this returns; the task reads to the end."""

        def heard(header: Header, batch: pa.RecordBatch) -> None:
            *columns, times = (values_of_array(column) for column in batch.columns)
            rows = list(zip(times, zip(*columns, strict=True), strict=True))
            self.answers.took(stream, rows)
            self.promises.took(stream, batch.schema.names[:-1], header, rows)

        def read() -> None:
            while subscription.next_batch() is not None:
                if self.schedule.choose.random() < 0.1:
                    self.reader.pause(self.schedule.choose.randrange(50 * MS))

        subscription = HeardSubscription(self.reader, stream, options, heard).attach(QUERY)
        return self.reader.run(read)

    def _publish(self) -> None:
        """All publishers are open before the first row is sent, since one that opens later begins where the others have come to."""
        writer = self.writer
        following = Following(writer.rest, writer.plane)
        opened = []
        for stream in self.work.query.streams:
            for part, growth in zip(self.work.inputs[stream.name], self.work.growths[stream.name], strict=True):
                publisher = Publisher(writer.plane, growth.known(0), publisher_name(part), False, following.close)
                opened.append((publisher, batches_of(growth, stream, part, self.work.batch_rows)))
        writer.finish(following.opens([publisher for publisher, _ in opened]))
        writer.run(lambda: self._follow(following))
        for publisher, batches in opened:
            writer.run(partial(self._send, following, publisher, batches))

    def _follow(self, following: Following) -> None:
        while following.core.publishers:
            self.writer.finish(following.turn(1.0))

    def _send(self, following: Following, publisher: Publisher, batches: Iterator[tuple[Stream, pa.RecordBatch]]) -> None:
        choose = self.schedule.choose
        pace_ns = choose.choice(LONG_PACES_NS if self.work.moves else SENDING_PACES_NS)
        for known, batch in batches:
            if known is not publisher.stream:
                publisher.grow(known)
            self.writer.finish(publisher.sends(batch))
            self.writer.pause(choose.randint(0, pace_ns))
        self.writer.finish(following.closes([publisher]))

    def _move(self) -> None:
        """Moves of buckets and of instances, one after the other or one while the other is under way; what cannot be is refused."""
        choose, service = self.schedule.choose, self._leader(self.mover)
        between_ns = choose.choice(BETWEEN_MOVES_NS)
        for _ in range(self.work.moves):
            self.mover.pause(choose.randrange(between_ns))
            plan = self.mover.result(service.ask(lambda state: state.plans[QUERY]))
            for verb, document in self._drawn_move(plan):
                self._ask_for(verb, document)

    def _ask_for(self, verb: str, document: dict[str, Any]) -> None:
        try:
            self.mover.rest.post(path("queries", QUERY, verb), document)
            self.schedule.note("mover", f"has asked for a {verb}")
        except CepError as error:
            self.schedule.note("mover", f"is refused a {verb}: {error}")

    def _drawn_move(self, plan: PhysicalPlan) -> Iterator[tuple[str, dict[str, Any]]]:
        """None where nothing of the query can move."""
        choose, names = self.schedule.choose, heads(plan)
        movable = [each for each in plan.instances if why_it_stays(plan, each.subquery) is None]
        if names and choose.random() < 0.5:
            head = choose.choice(names)
            n = plan.subquery(head).parallelism
            period = [choose.randrange(n) for _ in range(choose.randint(1, 8))]
            yield "rebalance", {"subquery": head, "table": [period[bucket % len(period)] for bucket in range(plan.buckets)]}
        elif movable:
            instance = choose.choice(movable)
            yield "move", {"subquery": instance.subquery, "instance": instance.index, "im": choose.choice(self.managers).name}

    def described(self) -> str:
        """What each instance waits for, where nothing goes on."""
        hosted = [(manager, each) for manager in self.managers for each in manager.loop.hosted.values()]
        said = [f"{m.name} {h.key}: {h.instance.state}, waits for {waits_for(h.instance, m.clock.wall_ns() // 1000)}" for m, h in hosted]
        return "\n".join(said)


def _moves_made(state: ClusterState) -> MovesMade:
    record, plan = state.query(QUERY), state.plans[QUERY]
    return MovesMade(sum(state.table(record.name, head).version for head in heads(plan)), record.moves)


def config_of(work: DrawnWorkload) -> ClusterConfig:
    return ClusterConfig(
        home="/simulated",
        zookeeper="simulated",
        rest_host="127.0.0.1",
        rest_port=1,
        metrics_in="ipc:///simulated/metrics",
        metrics_out="ipc:///simulated/figures",
        modules=MODULES,
        budget_bytes=work.budget_bytes,
        numa=False,
    )


@contextmanager
def simulated(seed: int, trace: Trace) -> Iterator[SimulatedCluster]:
    """With what is one for the whole process as a simulated process needs it: the kernels and the modules of users' functions."""
    with interpreted(), allowed(*MODULES):
        cluster = SimulatedCluster(seed, trace)
        try:
            yield cluster
        finally:
            cluster.close()
