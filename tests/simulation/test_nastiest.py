"""The nastiest tests that the design of recovery names: faults in the very moment in which they do the most harm.

A moment is the n-th call of a function of the engine; faults strike as soon as the process that calls it pauses, which is before what the
call has led to is known elsewhere. Of the twelve the second is in `tests/cep/dataflow/outputs/test_sink.py`, for files; what the fifth
asks for is refused here, for what is dealt to a reader stays with it, so the subquery behind the readers is scaled; the eighth is in
`tests/cluster/test_recovery.py`, with a program between two queries, for what reads another query does not recover itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from cep.errors import CepError, QueryError
from cep.world import segments
from cep.world.archive import Archive
from driver.streams.following import Following
from driver.streams.publisher import Publisher
from driver.streams.sent_log import SentLog
from instance_manager.clients.publishers import Publishers
from instance_manager.recovery import checkpoints as taking
from orchestrator.manifests import Manifests
from orchestrator.state.deployments import Deployments
from simulation.client import ClientProcess
from simulation.cluster import SimulatedCluster, simulated
from simulation.faults import EVERYTHING, FILL, Fault
from simulation.growth import Growth
from simulation.links import Hosts
from simulation.schedule import MS, S, ScheduleTrace
from simulation.seeds import SeedRun
from simulation.workload import QUERY, DrawnWorkload, workload

pytestmark = pytest.mark.long

KILL, FREEZE, LEADER, PROGRAM = "kill instance manager", "freeze instance manager", "kill orchestrator", "kill writer"
AWAY, CUT, READER = "stop ZooKeeper", "cut", "kill reader"
BEHIND_NS = 200 * MS  # the next one, while what the first has led to is under way
Moment = tuple[type, str, int]
CHAIN = 4013  # a seed whose query is a chain of counts over two publishers
Act = str | Callable[[SimulatedCluster], object]


class Nastiness:
    """Faults at moments of one run, each once."""

    def __init__(self, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster, self.monkeypatch, self.struck = cluster, monkeypatch, 0

    def at(self, moment: Moment, *faults: Act) -> None:
        """In that moment, and one behind the other."""
        owner, name, number = moment
        whole, calls = getattr(owner, name), iter(range(1, 1 << 30))

        def watched(*given: Any, **named: Any) -> Any:
            answer = whole(*given, **named)
            if next(calls) == number:
                self._strike(faults)
            return answer

        self.monkeypatch.setattr(owner, name, watched)

    def _strike(self, faults: Sequence[Act]) -> None:
        schedule, strike = self.cluster.schedule, self.cluster.faults.strike
        at_hand = next((each for each in self.cluster.managers if schedule.current in (each.loop_task, each.control_task)), None)
        self.struck += 1
        for i, fault in enumerate(faults):
            act = (lambda fault=fault: strike(fault)) if isinstance(fault, str) else (lambda fault=fault: fault(self.cluster))
            if fault == FREEZE and at_hand is not None:  # the one that it happens in
                act = lambda: self.cluster.faults._freeze_beyond_session(at_hand, 8 * S)  # noqa: E731
            schedule.at(schedule.now_ns + i * BEHIND_NS, act)


def ran(
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
    *moments: tuple[Moment, Sequence[Act]],
    drawn: Sequence[Fault] = (Fault("freeze briefly", MS),),
    user: Callable[[SimulatedCluster], None] | None = None,
    **ways: Any,
) -> SeedRun:
    """`user`: what is asked for while the query runs, in place of changes that would be drawn."""
    with simulated(seed, trace := ScheduleTrace(), drawn, **ways) as cluster:
        cluster.faults.hit |= {each.name for each in cluster.managers}  # whatever happens, it was to be
        if user is not None:
            monkeypatch.setattr(cluster, "_move", lambda: user(cluster))
        nasty = Nastiness(cluster, monkeypatch)
        for moment, faults in moments:
            nasty.at(moment, *faults)
        wrong = cluster.run()
    assert nasty.struck == len(moments), "the moment did not come"
    done = cluster.faults.done, cluster.recoveries, wrong, cluster.network.hosts.cuts
    return SeedRun(seed, trace.digest, trace.count, cluster.moved, *done)


FIRST, SECOND = 208, 244


def chained(recover: str = "on-commit", checkpoint_us: int = 1_000_000, managers: int = 3) -> DrawnWorkload:
    """Two publishers, two readers, and counts behind them; rows come slowly."""
    work = workload(CHAIN)
    (read,) = work.query.streams
    options = replace(work.query.options, recover=recover, checkpoint=checkpoint_us, parallelism=2)  # type: ignore[arg-type]
    growths = {read.name: tuple(Growth(read, read, 0) for _ in work.inputs[read.name])}
    asked = replace(work, query=replace(work.query, options=options), growths=growths, budget_bytes=64 << 20)
    return replace(asked, orchestrators=1, instance_managers=managers, changes=0, resumes=False, slowly=True)


def commit(number: int) -> Moment:
    """The leader has heard that it is written: it sweeps what is before it."""
    return Archive, "sweep", number


@pytest.mark.parametrize("seed", (SECOND, 247))
def test_1_the_leader_dies_between_the_commit_and_what_it_leads_to_and_zookeeper_and_a_publisher_with_it(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ran(seed, monkeypatch, (commit(1), (KILL, LEADER, AWAY, PROGRAM)))
    assert found.wrong == [] and found.recoveries


@pytest.mark.parametrize("seed", (FIRST, SECOND))
def test_3_an_instance_that_freezes_before_it_has_stored_and_wakes_up_when_another_is_in_its_place(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ran(seed, monkeypatch, ((taking.Checkpoints, "_take", 2), (FREEZE,)))
    assert found.wrong == [] and found.recoveries


@pytest.mark.parametrize("seed", (FIRST, SECOND))
def test_4_a_commit_of_which_the_outcome_is_not_known_and_another_death_before_the_next_leader_looks(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ran(seed, monkeypatch, ((Manifests, "write", 2), (CUT, LEADER, KILL)))
    assert found.wrong == [] and found.recoveries


@pytest.mark.parametrize("seed", (4014, 4051))
def test_5_rows_that_were_dealt_by_credit_and_other_numbers_of_instances_at_each_recovery(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ran(seed, monkeypatch, (commit(2), (KILL,)), (commit(3), (KILL,)))
    assert found.wrong == [] and found.recoveries


class Scaling:
    """What a user asks for: numbers of instances of a subquery, one after the other; and its readers', in vain. At each an instance manager
    is killed. `seen`: the numbers with which the query ran; `refused`: what was said of the readers."""

    def __init__(self, *numbers: int, kills: bool = True) -> None:
        self.numbers, self.kills = numbers, kills
        self.seen, self.refused = list[int](), list[str]()

    def __call__(self, cluster: SimulatedCluster) -> None:
        for number in self.numbers:
            cluster.mover.pause(300 * MS)
            self._ask(cluster, "SQ1", 3)
            self._ask(cluster, "SQ2", number)
            while self._state(cluster) != "running" or cluster.current_plan().subquery("SQ2").parallelism != number:
                cluster.mover.pause(20 * MS)
            self.seen.append(number)
            if self.kills:
                cluster.faults.strike(KILL)

    def _ask(self, cluster: SimulatedCluster, subquery: str, number: int) -> None:
        """Until it is obeyed, or refused for good: while the query recovers it is not heard."""
        while True:
            try:
                cluster.mover.rest.post("/queries/q/scale", {"subquery": subquery, "instances": number})
                return
            except QueryError as error:
                self.refused.append(str(error))
                return
            except CepError:
                cluster.mover.pause(100 * MS)

    def _state(self, cluster: SimulatedCluster) -> str:
        return str(cluster._asked(lambda state: state.query(QUERY).state))


@pytest.mark.parametrize("recover", ("on-commit", "at-once"))
@pytest.mark.parametrize("seed", (0, 2))
def test_5_two_publishers_two_readers_and_a_recovery_at_three_and_one_at_one(
    seed: int, recover: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers keep their number, for what was dealt to one stays with it; that is said, and changes nothing."""
    monkeypatch.setattr("simulation.cluster.LONG_PACES_NS", (2 * S,))  # so that it lasts
    scaling = Scaling(3, 1)
    found = ran(seed, monkeypatch, work=replace(chained(recover, 200_000), changes=1), user=scaling)
    assert found.wrong == [] and found.recoveries >= 3
    assert scaling.seen == [3, 1]
    assert len(scaling.refused) == 2 and all("cannot be scaled from 2 to 3 instances: it reads stream" in each for each in scaling.refused)


def test_6_a_publisher_that_dies_while_it_appends_and_another_of_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ran(SECOND, monkeypatch, ((SentLog, "add", 3), (PROGRAM, KILL)))
    assert found.wrong == [] and found.recoveries


FREEZING = [(2, 3, "at-once"), (2, 9, "on-commit"), (3, 6, "on-commit"), (9, 6, "at-once")]


class PausingWords:
    """The words of a segment; its writer pauses in front of the one by which an element counts, or of the look whether it does."""

    def __init__(self, words: Any, before: bool, pause: Callable[[], None]) -> None:
        self.words, self.before, self.pause = words, before, pause

    def __getitem__(self, at: int) -> int:
        if at == segments._SEALED and not self.before:
            self._once()
        return int(self.words[at])

    def __setitem__(self, at: int, value: int) -> None:
        if at == segments._LENGTH and self.before:
            self._once()
        self.words[at] = value

    def _once(self) -> None:
        pause, self.pause = self.pause, lambda: None
        pause()


class FrozenInAppend:
    """A program that freezes within its append number `number`; another one is started in its place, with other batches. When it thaws it
    hears that it was replaced: it gives up, or `reopens` its publishers, and then the other one is replaced, and gives up."""

    def __init__(self, seed: int, number: int, before: bool, reopens: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seed, self.number, self.before, self.reopens, self.monkeypatch = seed, number, before, reopens, monkeypatch
        self.froze, self.told = 0, list[tuple[str, str]]()

    def run(self, work: DrawnWorkload, ns: int, *acts: tuple[int, Act]) -> tuple[list[str], int]:
        """`acts`: what happens, and when since it froze, for so long. What was wrong, and the attempts."""
        with simulated(self.seed, ScheduleTrace(), [Fault("freeze briefly", MS)], work=work) as cluster:
            cluster.faults.hit |= {each.name for each in cluster.managers}
            self.monkeypatch.setattr(SentLog, "add", self._watched(cluster, cluster.writer, ns, acts))
            self.monkeypatch.setattr(cluster, "cannot_send", self._refused(cluster, cluster.writer))
            wrong = cluster.run()
        assert self.froze == 1, "the moment did not come"
        return wrong, cluster.recoveries

    def _watched(self, cluster: SimulatedCluster, program: ClientProcess, ns: int, acts: Sequence[tuple[int, Act]]) -> Any:
        whole, numbers = SentLog.add, iter(range(1, 1 << 30))

        def add(log: SentLog, header: Any, body: Any) -> None:
            if body is not None and next(numbers) == self.number:
                assert log.ring is not None
                segment = log.ring.segments[-1]
                segment._words = PausingWords(segment._words, self.before, lambda: self._freeze(cluster, program, ns, acts))  # type: ignore[assignment]
            whole(log, header, body)

        return add

    def _freeze(self, cluster: SimulatedCluster, program: ClientProcess, ns: int, acts: Sequence[tuple[int, Act]]) -> None:
        schedule = cluster.schedule
        self.froze += 1
        program.clock.frozen_until_ns = cluster.faults._lasts(ns)
        for after_ns, act in acts:
            happens = (lambda act=act: cluster.faults.strike(act)) if isinstance(act, str) else (lambda act=act: act(cluster))
            schedule.at(schedule.now_ns + after_ns, happens)
        schedule.pause_until(schedule.now_ns)

    def _refused(self, cluster: SimulatedCluster, first: ClientProcess) -> Any:
        def refused(writer: ClientProcess, following: Following, publisher: Publisher, error: CepError) -> None:
            self.told.append((writer.name, publisher.name))
            if writer is not first or not self.reopens:
                return
            with suppress(CepError):
                writer.finish(following.closes([publisher], keep_open=True))
            for each in (writer, cluster.writer):
                cluster.numbers.died(each.plane.endpoint)
            cluster.publish_from(writer, [publisher.name])

        return refused


def another_program(cluster: SimulatedCluster) -> None:
    cluster.work = replace(cluster.work, batch_rows=(3, 1))
    cluster.restart_writer()


@pytest.mark.parametrize("before", (True, False), ids=("before-it-counts", "behind"))
@pytest.mark.parametrize(("seed", "number", "recover"), FREEZING)
def test_6_a_publisher_that_freezes_within_an_append_is_sealed_and_thaws(
    seed: int, number: int, recover: str, before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its readers die meanwhile, and again when it has made what counts no more count after all."""
    program = FrozenInAppend(seed, number, before, False, monkeypatch)
    kills = [(at, KILL) for at in (0, 0, 2200 * MS, 2300 * MS)]
    wrong, _ = program.run(chained(recover, checkpoint_us=60_000_000), 2 * S, (300 * MS, another_program), *kills)
    assert wrong == [] and program.told


@pytest.mark.parametrize("before", (True, False), ids=("before-it-counts", "behind"))
@pytest.mark.parametrize(("seed", "number", "recover"), FREEZING)
def test_6_one_that_thaws_and_opens_its_name_again_which_another_program_has_by_then(
    seed: int, number: int, recover: str, before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both go on from the rows that were accepted, and the last that has opened the name has it."""
    program = FrozenInAppend(seed, number, before, True, monkeypatch)
    kills = [(at, KILL) for at in (0, 0, 2200 * MS, 2300 * MS)]
    wrong, _ = program.run(chained(recover, checkpoint_us=60_000_000), 2 * S, (300 * MS, another_program), *kills)
    assert wrong == [] and {writer for writer, _ in program.told} >= {"writer"}


@pytest.mark.parametrize("seed", (FIRST, SECOND))
def test_7_a_death_before_the_first_commit(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = ran(seed, monkeypatch, ((taking.Checkpoints, "_take", 1), (KILL, KILL)))
    assert found.wrong == []


@pytest.mark.parametrize("seed", (FIRST, SECOND))
def test_9_the_last_publisher_closes_during_alignment_and_a_death_before_the_last_commit(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ran(seed, monkeypatch, ((Publishers, "close", 1), (KILL, LEADER, KILL)))
    assert found.wrong == []


@pytest.mark.parametrize("seed", (FIRST, SECOND))
def test_10_the_disk_is_full_for_one_of_several_pieces_and_the_next_checkpoint_needs_what_that_had(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ran(seed, monkeypatch, (commit(1), (FILL, KILL)))
    assert found.wrong == [] and found.recoveries and found.faults[FILL]


WHILE_IT_IS_SCALED = {
    "checkpoint": (Deployments, "_await_commit", 1),
    "plan": (Deployments, "_become", 1),
    "piece": (taking.Checkpoints, "_take", 9),
}


@pytest.mark.parametrize("way", ((0, 1), (1, 0)), ids=("out", "in"))
@pytest.mark.parametrize("recover", ("on-commit", "at-once"))
@pytest.mark.parametrize("moment", WHILE_IT_IS_SCALED)
def test_11_a_cut_of_14_s_one_way_between_two_hosts_while_it_is_scaled_from_2_to_4(
    moment: str, recover: str, way: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both sides see ZooKeeper all the time. What was under way is lost with its connection in part, and arrives later in part."""

    def cut(cluster: SimulatedCluster) -> None:
        cluster.network.hosts.cut({way}, 14 * S)

    monkeypatch.setattr(Hosts, "begin_cuts", lambda hosts: None)
    scaling = Scaling(4, kills=False)
    work = replace(chained(recover, managers=4), hosts=2, changes=1)
    found = ran(1, monkeypatch, (WHILE_IT_IS_SCALED[moment], (cut,)), drawn=(), work=work, user=scaling)
    assert found.wrong == [] and found.recoveries == 1 and found.cuts == 1 and scaling.seen == [4]


@pytest.mark.parametrize("seed", (4007, 4048))
def test_12_everything_dies_between_the_checkpoint_of_a_change_and_its_new_plan(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = ran(seed, monkeypatch, ((Deployments, "_become", 1), (EVERYTHING,)))
    assert found.wrong == [] and found.recoveries


@pytest.mark.parametrize("seed", (SECOND, 247))
def test_12_a_client_dies_between_saving_its_token_and_acknowledging(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = ran(seed, monkeypatch, (commit(1), (READER, KILL)), resumes=True)
    assert found.wrong == [] and found.recoveries
