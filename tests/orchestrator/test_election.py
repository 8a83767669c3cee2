"""One leader among the orchestrators, at a simulated ZooKeeper: wherever connections go, in the end one leads."""

from __future__ import annotations

import json
import os

from hypothesis import given
from hypothesis import strategies as st

from cep.config import node
from cep.world.coordination import Connection, ConnectionLost, Znode
from orchestrator.election import Candidate, Election
from simulation.clock import ProcessClock
from simulation.coordination import SimulatedSession, SimulatedZooKeeper
from simulation.schedule import MS, SeededSchedule


class Bench:
    def __init__(self, seed: int = 0) -> None:
        self.schedule = SeededSchedule(seed)
        self.zookeeper = SimulatedZooKeeper(self.schedule)
        self.woken: list[str] = []

    def session(self, name: str) -> SimulatedSession:
        made = self.zookeeper.connect(name, ProcessClock(self.schedule))
        made.start(lambda connection: self.woken.append(name) if connection is Connection.CONNECTED else None)
        self.wait(lambda: name in self.woken)
        self.woken.clear()
        return made

    def stand(self, name: str, candidate: Candidate | None = None) -> tuple[SimulatedSession, Election]:
        session = self.session(name)
        return session, Election(session, candidate or here(name), lambda path: self.woken.append(name))

    def wait(self, condition: object) -> None:
        self.schedule.run(condition, 60_000 * MS)  # type: ignore[arg-type]


def here(name: str) -> Candidate:
    return Candidate.here(f"http://{name}")


def test_the_first_leads_and_the_second_is_woken_when_it_goes() -> None:
    bench = Bench()
    (first, one), (_, two), (_, three) = (bench.stand(name) for name in ("one", "two", "three"))
    assert one.leads() and not two.leads() and not three.leads()
    assert one.take_office() < one.take_office()  # a later term has a greater fence
    assert two.leader() == three.leader() == "http://one"
    first.close()
    bench.wait(lambda: bench.woken)
    bench.schedule.pause_until(bench.schedule.now_ns + 1_000 * MS)
    assert bench.woken == ["two"]  # the third watches the second
    assert two.leads() and not three.leads()


def test_asked_again_it_stands_once() -> None:
    bench = Bench()
    session, one = bench.stand("one")
    assert all(one.leads() for _ in range(3))
    assert len(session.children([node("election")])[0]) == 1  # type: ignore[arg-type]


def test_a_process_number_that_was_given_to_another_process_is_no_living_leader() -> None:
    alive = here("dead")
    dead = Candidate(alive.rest, alive.machine, os.getpid(), f"{int(alive.born) - 1}")
    assert dead.is_gone and not alive.is_gone
    bench = Bench()
    _, one = bench.stand("one", dead)
    _, two = bench.stand("two")
    assert one.leads() and two.leads()  # whose node was left by a process of this machine that is gone


def test_a_candidate_of_another_machine_is_waited_for() -> None:
    alive = here("one")
    bench = Bench()
    _, one = bench.stand("one", Candidate(alive.rest, "another machine", 2**22 + 1, "0"))
    _, two = bench.stand("two")
    assert one.leads() and not two.leads()


def test_what_no_orchestrator_has_made_is_no_candidate() -> None:
    bench = Bench()
    session, one = bench.stand("one")
    document = json.dumps(here("x").to_json()).encode()
    session.ensure([node("election")])
    for data, ephemeral in ((document, False), (b"?", True), (b"[]", True)):
        session.create(node("election", f"{7:016x}-"), data, ephemeral=ephemeral, sequence=True)
    session.create(node("election", "something"), document)
    assert one.leads()


def test_one_that_stood_while_a_session_followed_another_does_not_wait_for_itself() -> None:
    bench = Bench()
    session, one = bench.stand("one")
    session.ensure([node("election")])
    left = session.create(node("election", f"{99:016x}-"), json.dumps(here("one").to_json()).encode(), ephemeral=True, sequence=True)
    assert one.leads() and session.get([left]) == [None]


def test_what_stands_there_as_the_leader_may_be_anything() -> None:
    bench = Bench()
    session, one = bench.stand("one")
    assert one.leader() is None
    session.ensure([node("orchestrator")])
    for data in (b"", b"?", b"[1]"):
        session.set(node("orchestrator"), data)
        assert one.leader() is None


@given(
    st.integers(0, 1 << 32),
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["ask", "cut", "lose"]), st.integers(0, 90)), max_size=12),
)
def test_wherever_connections_go_in_the_end_one_leads(seed: int, acts: list[tuple[int, str, int]]) -> None:
    bench = Bench(seed)
    standing = [bench.stand(str(i)) for i in range(3)]
    for i, act, ms in acts:
        session, election = standing[i]
        if act != "ask":
            bench.schedule.at(bench.schedule.now_ns + ms * MS, lambda session=session, act=act: broken(session, act == "lose"))
        asked(election)
    bench.schedule.pause_until(bench.schedule.now_ns + 1_000 * MS)
    for _ in range(3):
        led = [asked(election) for _, election in standing]
    assert sum(led) == 1
    session, leader = standing[led.index(True)]
    leader.take_office()
    assert isinstance(session.get([node("orchestrator")])[0], Znode)
    names = session.children([node("election")])[0]
    assert isinstance(names, list) and len(names) == len(standing)


def asked(election: Election) -> bool:
    try:
        return election.leads()
    except ConnectionLost:
        return False


def broken(session: SimulatedSession, lost: bool) -> None:
    if lost:
        session.server.expire(session)
    else:
        session.cut()
        session.mend()
