"""Deaths of instance managers: what the queries that failed with one are told, and which is refused at last."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cep.config import node
from cep.errors import Conflict, NotFound
from cep.model.query import Options
from cep.service.mark import Work
from orchestrator.records import Process
from orchestrator.state.blame import BlamedDeath, Deaths, blamed, check_blame, deaths_in
from orchestrator.state.cluster_state import ClusterState
from orchestrator.state.events import ForgetQuery, ManagersSeen
from tests.orchestrator.state.test_cluster_state import Cluster, manager, query

HOW = "was killed by SIGSEGV, at operator 'window' (SQ2/1 of query 'per-ip')"
CRASH = BlamedDeath(HOW, Work("per-ip", "SQ2", 1, "window"))


def die(made: Cluster, im: str, death: BlamedDeath) -> None:
    """Its next process registers."""
    pid = made.managers[im].process.pid
    made.managers[im] = manager(im, pid=pid + 1)
    made.do(ManagersSeen(dict(made.managers), {(im, Process(pid, 0)): death}))


def crash_and_delete(made: Cluster, times: int) -> None:
    for _ in range(times):
        made.running()
        die(made, "im-0", CRASH)
        assert made.state_of() == "failed"
        made.do(ForgetQuery("per-ip"))
        assert node("queries", "per-ip") not in made.nodes


def test_the_cause_names_what_it_was_at() -> None:
    made = Cluster().running()
    made.submit(query("other", "other"))
    made.all_say("running", "other")
    pid = made.managers["im-0"].process.pid
    die(made, "im-0", CRASH)
    cause = made.nodes[node("queries", "per-ip")]["cause"]
    assert cause == {"subquery": "SQ2", "instance": 1, "cause": f"instance manager 'im-0' (process {pid}) {HOW}"}
    other = made.nodes[node("queries", "other")]["cause"]
    assert other["cause"] == cause["cause"] and other["subquery"] == "SQ1"


def test_one_that_is_gone_and_not_yet_back_is_told_of_as_well() -> None:
    made = Cluster().running()
    process = made.managers.pop("im-0").process
    made.pass_time(100.0)
    made.do(ManagersSeen(dict(made.managers), {("im-0", process): CRASH}))
    assert HOW in made.nodes[node("queries", "per-ip")]["cause"]["cause"]


def test_nobody_waits_for_one_that_was_started_anew() -> None:
    """Not even an orchestrator that has just come: it will not be again what it was."""
    made = Cluster().running()
    made.state = ClusterState(6.0)
    made.obey(made.state.restore(dict(made.nodes), made.now))
    die(made, "im-0", CRASH)
    assert made.state_of() == "failed"


def test_three_deaths_are_enough() -> None:
    made = Cluster()
    crash_and_delete(made, 2)
    made.running()
    die(made, "im-1", CRASH)
    made.do(ForgetQuery("per-ip"))
    with pytest.raises(Conflict, match=r"refused: it has ended 3 instance managers \('im-0' was killed by SIGSEGV, at .*'im-1' was killed"):
        made.submit(query())
    made.submit(query("other", "other"))


def test_another_leader_knows() -> None:
    made = Cluster()
    crash_and_delete(made, 3)
    made.state = ClusterState(6.0)
    made.obey(made.state.restore(dict(made.nodes), made.now))
    made.see()
    with pytest.raises(Conflict, match="refused"):
        made.submit(query())


def test_deleted_once_more_it_is_forgiven() -> None:
    made = Cluster()
    crash_and_delete(made, 3)
    made.do(ForgetQuery("per-ip"))
    assert node("blames", "per-ip") not in made.nodes
    made.running()
    with pytest.raises(NotFound):
        made.do(ForgetQuery("nobody"))


def test_changed_it_is_another() -> None:
    made = Cluster()
    crash_and_delete(made, 3)
    made.submit(replace(query(), options=Options(parallelism=1)))
    assert node("blames", "per-ip") not in made.nodes


def test_what_another_document_did_is_not_its_own() -> None:
    one, other = {"name": "per-ip"}, {"name": "per-ip", "options": {}}
    known = blamed(None, "per-ip", one, {"a": "1", "b": "2"})
    assert known is not None and known.deaths == {"a": "1", "b": "2"}
    assert blamed(known, "per-ip", other, {}) is None
    again, anew = blamed(known, "per-ip", one, {"b": "2", "c": "3"}), blamed(known, "per-ip", other, {"c": "3"})
    assert again is not None and again.deaths == {"a": "1", "b": "2", "c": "3"}
    assert anew is not None and anew.deaths == {"c": "3"}
    with pytest.raises(Conflict, match="refused"):
        check_blame(again, "per-ip", one)
    check_blame(again, "per-ip", other)
    check_blame(anew, "per-ip", other)


def test_a_death_counts_once_and_for_who_was_at_work() -> None:
    made = Cluster().running()
    died = made.managers["im-0"].process
    for _ in range(2):
        die(made, "im-0", CRASH)
        made.do(ManagersSeen(dict(made.managers), {("im-0", died): CRASH}))
    assert len(made.nodes[node("blames", "per-ip")]["deaths"]) == 1
    made.do(ForgetQuery("per-ip"))
    made.submit(query("other", "other"))
    made.all_say("running", "other")
    die(made, "im-0", CRASH)
    assert node("blames", "other") not in made.nodes and len(made.nodes[node("blames", "per-ip")]["deaths"]) == 1


def test_reports_are_read_as_far_as_they_make_sense() -> None:
    died: dict[str, Any] = {
        "pid": 7,
        "at": 1.0,
        "how": HOW,
        "log": "",
        "started": 5,
        "blamed": CRASH.blamed._asdict() if CRASH.blamed else None,
    }
    fine = {"children": [{"name": "im-0", "last_deaths": [died, died | {"pid": 8, "blamed": None}]}]}
    expected: Deaths = {("im-0", Process(7, 5)): CRASH, ("im-0", Process(8, 5)): BlamedDeath(HOW)}
    assert deaths_in([fine, {}, {"children": 7}, {"children": [{"name": "im-1"}]}]) == expected
