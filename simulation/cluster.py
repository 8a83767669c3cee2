"""A whole simulated cluster, a query that it runs, and what is seen of it."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from cep.compile.user.functions import allowed
from cep.config import GRACE_S, ClusterConfig
from cep.dataflow.reports import waits_for
from cep.errors import CepError, Conflict, QueryError
from cep.kernels.jit import interpreted
from cep.kernels.tables.changes import BlockSizes, block_sizes
from cep.model import query as queries
from cep.model.expr import Expr, lit
from cep.model.operators import Filter
from cep.model.query import Query
from cep.model.streams import Stream, TextFiles
from cep.model.topology import Topology
from cep.plan.moving import heads, why_it_stays
from cep.plan.physical import FilesByStream, PhysicalPlan, Subquery
from cep.plan.scaling import scaled
from cep.transport.wire import Header
from cep.world.store import MemoryStore, append_all
from driver.rest import Unreachable, path
from driver.streams.following import Following
from driver.streams.producers import SubscriptionOptions
from driver.streams.publisher import Publisher
from orchestrator.records import Process, Unused
from orchestrator.service import NotLeading, Service
from orchestrator.state.cluster_state import ClusterState
from simulation.checkers import AnswersAgree, Checker, CountsAgree, Numbers, Promises, QueryOutcome, complaints
from simulation.client import ClientProcess, HeardSubscription, LostAnswer, SimulatedRings
from simulation.clock import PACES_NS, SLOW_PACES_NS
from simulation.coordination import SimulatedZooKeeper
from simulation.faults import LOOKED_AT_FROM, Fault, Faults, drawn_faults
from simulation.growth import batches_of
from simulation.leaving import Evacuations, endpoint_on, host_name
from simulation.processes import InstanceManagerProcess, OrchestratorProcess, SimulatedProcess
from simulation.resuming import ResumingReader
from simulation.schedule import MS, S, ScheduleTrace, SeededSchedule, Task
from simulation.sockets import SimulatedNetwork
from simulation.workload import QUERY, TAIL, DrawnWorkload, publisher_name, workload
from tests.support.running import values_of_array

MODULES = ("tests.support.user_functions", "tests.support.functions_of_users")
SENDING_PACES_NS = (0, 10 * MS, 100 * MS)  # between two batches of a publisher, at most
PICKED_SENDING_PACES_NS = (5 * MS, 20 * MS, 50 * MS)
SLOW_SENDING_PACES_NS = (300 * MS, 500 * MS)
LONG_PACES_NS = (100 * MS, 400 * MS, 1000 * MS)  # while something moves
LONGEST_PACES_NS = (1 * S, 4 * S)  # while a host is left
BETWEEN_MOVES_NS = (20 * MS, 100 * MS, 400 * MS)
ALWAYS = (lit(True), lit(1) < lit(2), lit(2) > lit(1))  # what filters ask that keep everything
BETWEEN_CHANGES_NS = (100 * MS, 400 * MS, 1000 * MS)
CALM = 0.6  # of the seeds in which hosts are left: nothing else happens
DEALS = 0.5  # of the seeds in which a query that recovers is moved or changed: buckets of it move, too
PATIENCE_NS = 300 * S  # of virtual time, in which a seed has to come to its end
PUBLISHED_GRACE_S = 100.0  # in which a program that was killed has come again, whatever else happens
DAWDLE_NS = 4 * S
KEEP_S = 20.0  # so long a subscriber may be silent
BLOCKS = BlockSizes(shift=0, round=12, whole_bytes=0)  # so that checkpoints of a few groups have what has changed only
OVER = ("ended", "failed", "stopped")
T = TypeVar("T")


class MovesMade(NamedTuple):
    """How often buckets moved, and how often an instance."""

    buckets: int
    instances: int


class SimulatedCluster:
    """`seed` decides what is asked of it and all that happens; `moves` are made by a user at moments of its choice, and `faults` happen.
    `resumes`: do its readers go on from tokens? `at_once`: are answers told as they are made? `moves`: so many. `work`: what is asked of
    it. None: as the seed says."""

    def __init__(
        self,
        seed: int,
        trace: ScheduleTrace,
        folder: str,
        faults: Sequence[Fault] | None = None,
        resumes: bool | None = None,
        at_once: bool | None = None,
        moves: int | None = None,
        work: DrawnWorkload | None = None,
    ) -> None:
        drawn_work = work or workload(seed)
        drawn_work = drawn_work if at_once is None else drawn_work.telling(at_once)
        drawn_work = drawn_work if moves is None else replace(drawn_work, moves=moves)
        self.work = drawn_work if resumes is None else replace(drawn_work, resumes=resumes and drawn_work.recovers)
        self.schedule = SeededSchedule(seed, trace)
        work, schedule = self.work, self.schedule
        expected = work.expected
        self.numbers, self.promises = Numbers(), Promises(work.query)
        self.answers, self.counts = AnswersAgree(work.query, expected), CountsAgree(work.query, expected)
        self.outcome = QueryOutcome()
        self.checkers: Sequence[Checker] = (self.numbers, self.promises, self.answers, self.counts, self.outcome)
        self.store, self.folder = MemoryStore(), folder
        calm = bool(work.evacuations) and random.Random(f"calm {seed}").random() < CALM
        self.drawn = tuple(faults) if faults is not None else () if calm else drawn_faults(seed)
        self.network, self.zookeeper = SimulatedNetwork(schedule, 1 if self.drawn else work.hosts), SimulatedZooKeeper(schedule)
        self.network.sniff = self.numbers.sent
        self.rings = SimulatedRings(Path(folder) / "sent", self.network)
        self.rings.folder.mkdir()
        self.config, self.machine = config_of(work), Topology.one_node([0, 1])
        self.faults = Faults(self, self.drawn)
        self.looks = seed >= LOOKED_AT_FROM
        self.deals = work.recovers and random.Random(f"deals {seed}").random() < DEALS
        self.at_hosts = [random.Random(f"host of {number} {seed}").randrange(work.hosts) for number in range(work.instance_managers)]
        self.orchestrators = [self._orchestrator(number) for number in range(work.orchestrators)]
        self.managers = [self._manager(number, 1) for number in range(work.instance_managers)]
        self.doors = [orchestrator.door for orchestrator in self.orchestrators]
        self.user, self.writer, self.mover, *self.readers = (
            ClientProcess(schedule, self.network, self.doors, name, self.rings)
            for name in ("user", "writer", "mover", "reader-0", "reader-1")
        )
        self.leaving = Evacuations(self, work.hosts, work.evacuations, ends=not self.drawn, calm=calm and not self.drawn)
        self.checkers = (*self.checkers, self.leaving)
        self.moved, self.recoveries = MovesMade(0, 0), 0
        self.writers, self.publishes = 0, False
        self.published: set[str] = set()  # the names that have been closed, as their program knows
        self.is_over = False
        self.deployed = work.query  # and where its files are

    @property
    def writer_comes_again(self) -> bool:
        return self.work.recovers and not self.work.files

    @property
    def processes(self) -> Sequence[SimulatedProcess]:
        clients = (*self.readers, self.user, self.writer, self.mover)
        return (*self.orchestrators, *self.managers, *clients, *self.leaving.agents)

    def _orchestrator(self, number: int) -> OrchestratorProcess:
        own = self.schedule, self.zookeeper, self.config, self.machine, number, self.faults.known_deaths, self.store
        sees = self._lives if self.looks else None
        return OrchestratorProcess(*own, SimulatedRings(self.rings.folder, self.network), sees)

    def _lives(self, im: str, process: Process) -> bool:
        return any((each.name, each.pid, each.started) == (im, *process) and not each.clock.is_dead for each in self.managers)

    def _manager(self, number: int, pid: int) -> InstanceManagerProcess:
        own = self.schedule, self.network, self.zookeeper, self.config, f"im-{number}", pid, self.store
        paces_ns = SLOW_PACES_NS if self.work.recovers else PACES_NS
        endpoint = endpoint_on(self.at_hosts[number], f"im-{number}") if self.work.evacuations else None
        rings = SimulatedRings(self.rings.folder, self.network)
        return InstanceManagerProcess(*own, paces_ns, self.work.read_bytes, endpoint, rings, self.work.picks)

    def restart_orchestrator(self, number: int) -> None:
        self.orchestrators[number] = process = self._orchestrator(number)
        self.doors[number] = process.door
        process.start()

    def restart_manager(self, number: int) -> None:
        self.managers[number] = process = self._manager(number, self.managers[number].pid + 1)
        process.start()

    def restart_writer(self) -> None:
        """A program that was killed comes again, and goes on from the rows that count."""
        self.writers += 1
        self.numbers.died(self.writer.plane.endpoint)
        self.writer = ClientProcess(self.schedule, self.network, self.doors, f"writer-{self.writers}", self.rings)
        self.writer.start()
        if self.publishes:
            self.writer.run(self._publish)

    def run(self) -> list[str]:
        """Lets the query run to its end; what the checkers complain of. Raises Stuck, and whatever goes wrong in a turn."""
        for process in self.processes:
            process.start()
        self.faults.begin()
        main = self.user.run(self._main)
        self.schedule.run(lambda: main.ended, PATIENCE_NS)
        return complaints(self.checkers)

    def close(self) -> None:
        for process in self.processes:
            process.close()

    # What the query's user does

    def _main(self) -> None:
        self._deploy()
        if self._await_state("ready") == "ready":
            reading = {stream: self._subscribe(number, stream) for number, stream in enumerate(self.answers.expected)}
            self._await(lambda: all(task.ended or self.outcome.knows(stream) for stream, task in reading.items()))
            self._insist(lambda: self.user.rest.post(path("queries", QUERY, "start")))
            if not self.leaving.calm:
                self.network.hosts.begin_cuts()
            if not self.work.files:
                self.publishes = True
                self.writer.run(self._publish)
            if self.work.moves or self.work.changes:
                self.mover.run(self._move)
            self.leaving.begin()
            self._await_over()
            self._await(lambda: all(each.ended for each in reading.values()))
        self.is_over = True
        self._judge()

    def _judge(self) -> None:
        found = self._detail()
        hit, lost = self.faults.hit, self.faults.lost
        if self.work.recovers:
            self.outcome.judge_recovering(found["state"], found["cause"])
        elif not self._has_failed_for_a_host(found):
            self.outcome.judge(found["state"], found["cause"], hit, self.writer in lost)
        failing = self.outcome.publishing_failed
        self.answers.partial = {stream for stream in self.answers.expected if failing or not self.outcome.is_whole(stream)}
        if found["state"] == "ended" and (self.work.recovers or not (failing or hit)):
            record = self._asked(lambda state: state.query(QUERY))
            unused = record.unused or Unused(-1)  # it has to be known
            self.counts.ended(unused.late, unused.dead_letters, record.rows)
        self.recoveries = found["attempt"]
        self.moved = self._asked(_moves_made)

    def _has_failed_for_a_host(self, found: dict[str, Any]) -> bool:
        cause = found["cause"] or {}
        said = found["state"] == "failed" and bool(self.leaving.agents)
        return said and self.leaving.judge(cause["cause"], cause["subquery"], self.current_plan())

    def current_plan(self) -> PhysicalPlan:
        return self._asked(lambda state: state.plans[QUERY])

    def is_query_over(self) -> bool:
        return self._asked(lambda state: state.query(QUERY).state in OVER)

    def _deploy(self) -> None:
        """As soon as there are instance managers."""
        query, files = self._in_folder()
        self.deployed = query
        while len(self._asked(lambda state: state.managers)) < (1 if self.faults.done else len(self.managers)):
            self.user.pause(10 * MS)
        while True:
            try:
                self._result(lambda service: service.deploy(query, files, start=False))
                return
            except Conflict:
                return  # it was obeyed, though the answer was lost
            except CepError as error:  # no instance manager is there any more, say
                self.schedule.note("user", f"cannot deploy: {error}")
                self.user.pause(100 * MS)

    def _in_folder(self) -> tuple[Query, FilesByStream]:
        """The query with its files where they are in the store, and their sizes."""
        found = sorted((os.path.join(self.folder, name), data) for name, data in self.work.files.items())
        self.store.make_folder(self.folder)
        for where, data in found:
            append_all(self.store.create(where, overwrite=True), data)
        query = self.work.query
        paths = tuple(where for where, _ in found)
        streams = [replace(each, files=replace(each.files, paths=paths)) for each in query.streams if isinstance(each.files, TextFiles)]
        sizes = {stream.name: tuple((where, len(data)) for where, data in found) for stream in query.streams if found}
        return (replace(query, streams=tuple(streams)) if found else query), sizes

    def _asked(self, question: Callable[[ClusterState], T]) -> T:
        return self._result(lambda service: service.ask(question))

    def _result(self, ask: Callable[[Service], Future[T]]) -> T:
        """What an orchestrator's service answers to a program; asked again while none does."""
        client = self._current_client()
        while True:
            leader = next((each for each in self.orchestrators if each.service.leads and not each.task.ended), None)
            if leader is None:
                client.pause(10 * MS)
                continue
            try:
                return client.result(ask(leader.service), leader.is_dead)
            except (NotLeading, LostAnswer):
                client.pause(50 * MS)

    def _current_client(self) -> ClientProcess:
        return next(client for client in (self.user, self.mover) if self.schedule.current in client.programs)

    def _insist(self, ask: Callable[[], Any]) -> Any:
        """Asks until an orchestrator has answered; what it refuses is refused."""
        while True:
            try:
                return ask()
            except Unreachable:
                self.user.pause(100 * MS)
            except CepError as error:
                self.schedule.note("user", f"is refused: {error}")
                return None

    def _detail(self) -> dict[str, Any]:
        while True:
            found: dict[str, Any] | None = self._insist(lambda: self.user.rest.get(path("queries", QUERY)))
            if found is not None:
                return found
            self.user.pause(100 * MS)

    def _await_state(self, wanted: str) -> str:
        while (state := str(self._detail()["state"])) not in (wanted, *OVER):
            self.user.pause(20 * MS)
        return state

    def _await_over(self) -> None:
        """A query whose publisher is lost has no end: it is stopped."""
        stopped = False
        while self._detail()["state"] not in OVER:
            self.user.pause(200 * MS)
            lost = self.writer in self.faults.lost or self.outcome.publishing_failed
            if lost and not stopped and not self.work.recovers and self.faults.are_over:
                stopped = True
                self._insist(lambda: self.user.rest.post(path("queries", QUERY, "stop")))

    def _await(self, condition: Callable[[], bool]) -> None:
        """Looked at again and again: what dies wakes nothing."""
        while not condition():
            self.user.pause(20 * MS)

    def _subscribe(self, number: int, stream: str) -> Task:
        """The task reads to the end."""

        def heard(header: Header, batch: pa.RecordBatch) -> None:
            *columns, times = (values_of_array(column) for column in batch.columns)
            rows = list(zip(times, zip(*columns, strict=True), strict=True))
            self.answers.took(stream, rows)
            self.promises.took(stream, batch.schema.names[:-1], header, rows)

        if self.work.resumes:
            return self.user.run(ResumingReader(self, stream, self.work.budget_bytes, heard).supervise)
        reader = self.readers[number % 2]

        def read() -> None:
            options = SubscriptionOptions(event_time=True, budget_bytes=self.work.budget_bytes, keep_s=KEEP_S)
            subscription = HeardSubscription(reader, stream, options, heard)
            try:
                subscription.attach(QUERY)
                self.outcome.attached(stream)
                if self.work.dawdles:
                    reader.pause(self.schedule.choose.randrange(DAWDLE_NS))
                while subscription.next_batch() is not None:
                    if self.work.dawdles and self.schedule.choose.random() < 0.1:
                        reader.pause(self.schedule.choose.randrange(DAWDLE_NS))
                    if self.schedule.choose.random() < 0.1:
                        reader.pause(self.schedule.choose.randrange(50 * MS))
                self.outcome.ended(stream)
            except CepError as error:
                self.schedule.note(reader.name, f"{stream}: {type(error).__name__}: {error}")
                self.outcome.failed(stream, error)

        return reader.run(read)

    def new_reader(self, name: str) -> ClientProcess:
        """Another process that reads."""
        process = ClientProcess(self.schedule, self.network, self.doors, name, self.rings)
        self.readers.append(process)
        process.start()
        return process

    def _publish(self) -> None:
        try:
            self._open_and_send()
        except CepError as error:
            self._cannot_publish(error)

    def _cannot_publish(self, error: CepError) -> None:
        self.schedule.note("writer", f"cannot publish: {type(error).__name__}: {error}")
        self.outcome.publishing_failed = True

    def _open_and_send(self) -> None:
        """All publishers are open before the first row is sent, since one that opens later begins where the others have come to."""
        self.publish_from(self.writer)

    def publish_from(self, writer: ClientProcess, only: Collection[str] = ()) -> None:
        """`only`: by publishers of these names; empty: by all that have not closed."""
        following = Following(writer.rest, writer.plane)
        opened = []
        for stream in self.work.query.streams:
            for part, growth in zip(self.work.inputs[stream.name], self.work.growths[stream.name], strict=True):
                name = publisher_name(part)
                if f"{stream.name}/{name}" in self.published or (only and name not in only):
                    continue
                publisher = Publisher(writer.plane, growth.known(0), name, False, following.close)
                opened.append((publisher, batches_of(growth, stream, part, self.work.batch_rows)))
        writer.finish(following.opens([publisher for publisher, _ in opened]))
        writer.run(lambda: self._follow(writer, following))
        for publisher, batches in opened:
            writer.run(partial(self._send, writer, following, publisher, batches))

    def _follow(self, writer: ClientProcess, following: Following) -> None:
        while following.core.publishers:
            try:
                writer.finish(following.turn(1.0))
            except CepError:  # the orchestrator is away, or has been, and what flows, flows
                writer.pause(200 * MS)

    def _send(
        self, writer: ClientProcess, following: Following, publisher: Publisher, batches: Iterator[tuple[Stream, pa.RecordBatch]]
    ) -> None:
        choose, work = self.schedule.choose, self.work
        short = SLOW_SENDING_PACES_NS if work.slowly else SENDING_PACES_NS
        paces = LONGEST_PACES_NS if work.evacuations else LONG_PACES_NS if work.moves or work.changes else short
        pace_ns = choose.choice(PICKED_SENDING_PACES_NS if work.picks else paces)
        try:
            accepted = writer.finish(publisher.accepts()) if self.writers else 0
            for known, batch in _from(accepted, batches):
                if known is not publisher.stream:
                    publisher.grow(known)
                writer.finish(publisher.sends(batch))
                writer.pause(choose.randint(0, pace_ns))
            self._close(writer, following, publisher)
            self.published.add(f"{publisher.stream.name}/{publisher.name}")
        except CepError as error:
            self.cannot_send(writer, following, publisher, error)

    def cannot_send(self, writer: ClientProcess, following: Following, publisher: Publisher, error: CepError) -> None:
        """What a program does that is told so."""
        self._cannot_publish(error)

    def _close(self, writer: ClientProcess, following: Following, publisher: Publisher) -> None:
        while True:
            try:
                writer.finish(following.closes([publisher]))
                return
            except Unreachable:  # it goes on, and can be closed later
                writer.pause(100 * MS)

    def _move(self) -> None:
        """Moves of buckets and of instances, or other sizes and other queries, one after the other or one while the other is under way;
        what cannot be is refused."""
        choose = self.schedule.choose
        between_ns = choose.choice(BETWEEN_CHANGES_NS if self.work.changes else BETWEEN_MOVES_NS)
        while self.work.changes and self._asked(lambda state: state.query(QUERY).state) not in ("running", *OVER):
            self.mover.pause(20 * MS)
        for _ in range(self.work.changes or self.work.moves):
            self.mover.pause(choose.randrange(between_ns))
            plan = self.current_plan()
            for verb, document in self._drawn_change(plan) if self.work.changes else self._drawn_move(plan):
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
        movable = [each for each in plan.instances if self.work.recovers or why_it_stays(plan, each.subquery) is None]
        if names and (self.deals if self.work.recovers else choose.random() < 0.5):
            yield "rebalance", self._drawn_table(plan, choose.choice(names))
        elif movable:
            instance = choose.choice(movable)
            yield "move", {"subquery": instance.subquery, "instance": instance.index, "im": choose.choice(self.managers).name}

    def _drawn_table(self, plan: PhysicalPlan, head: str) -> dict[str, Any]:
        choose, n = self.schedule.choose, plan.subquery(head).parallelism
        period = [choose.randrange(n) for _ in range(choose.randint(1, 8))]
        return {"subquery": head, "table": [period[bucket % len(period)] for bucket in range(plan.buckets)]}

    def _drawn_change(self, plan: PhysicalPlan) -> Iterator[tuple[str, dict[str, Any]]]:
        """Another number of instances of a subquery, or another table of its buckets; or another query that answers as this one does."""
        choose = self.schedule.choose
        if self.deals and (names := heads(plan)):
            self.deals = False  # once
            yield "rebalance", self._drawn_table(plan, choose.choice(names))
            return
        possible = [(each.name, size) for each in plan.subqueries for size in range(1, 5) if _may_have(plan, each, size)]
        if possible and choose.random() < 0.8:
            subquery, instances = choose.choice(possible)
            yield "scale", {"subquery": subquery, "instances": instances}
        else:
            yield "upgrade", queries.to_json(_with_tails(self.deployed, choose.choice(ALWAYS)))

    def described(self) -> str:
        """What each instance waits for, where nothing goes on."""
        hosted = [(manager, each) for manager in self.managers for each in manager.loop.hosted.values()]
        said = [f"{m.name} {h.key}: {h.instance.state}, waits for {waits_for(h.instance, m.clock.wall_ns() // 1000)}" for m, h in hosted]
        return "\n".join(said)


def _from(row: int, batches: Iterator[tuple[Stream, pa.RecordBatch]]) -> Iterator[tuple[Stream, pa.RecordBatch]]:
    """What comes from that row on."""
    for known, batch in batches:
        if row < batch.num_rows:
            yield known, batch.slice(row)
        row = max(0, row - batch.num_rows)


def _may_have(plan: PhysicalPlan, subquery: Subquery, instances: int) -> bool:
    if instances == subquery.parallelism:
        return False
    try:
        scaled(plan, subquery.name, instances)
    except QueryError:
        return False
    return True


def _with_tails(query: Query, condition: Expr) -> Query:
    """The same, whose filters before its outputs ask something else that is always so."""
    changed = (
        replace(each, condition=condition) if isinstance(each, Filter) and each.name.startswith(TAIL) else each for each in query.operators
    )
    return replace(query, operators=tuple(changed))


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
        host=host_name(0) if work.evacuations else "",
        numa=False,
        data=("/",),
        grace_s=PUBLISHED_GRACE_S if work.recovers else GRACE_S,
    )


@contextmanager
def simulated(
    seed: int,
    trace: ScheduleTrace,
    faults: Sequence[Fault] | None = None,
    resumes: bool | None = None,
    at_once: bool | None = None,
    moves: int | None = None,
    work: DrawnWorkload | None = None,
) -> Iterator[SimulatedCluster]:
    """With what is one for the whole process as a simulated process needs it: the kernels and the modules of users' functions. `faults`:
    those that happen, `resumes`, `at_once`, `moves` and `work` as of `SimulatedCluster`; None: those of the seed."""
    few = block_sizes(BLOCKS)
    with interpreted(), allowed(*MODULES), few, TemporaryDirectory(prefix="cep-simulated-") as folder:
        cluster = SimulatedCluster(seed, trace, folder, faults, resumes, at_once, moves, work)
        try:
            yield cluster
        finally:
            cluster.close()
