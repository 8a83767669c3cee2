"""No content of ZooKeeper stops a leader, nor an instance manager: what makes no sense is set aside with its reason, the rest goes on."""

from __future__ import annotations

import contextlib
import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.config import ROOT, instance_node, node
from cep.errors import CepError, Conflict, NotFound, ProtocolError, QueryError
from cep.model.query import Output
from cep.model.query import Query as CepQuery
from cep.model.schema import Schema
from cep.model.sinks import TextSink
from cep.model.streams import Stream, TextFiles
from instance_manager.control.assignment_checks import assigned_plan, assignment_of, check_paths, tables_of
from orchestrator.records import InstanceManager, PublisherRecord, Status, SubscriptionRecord
from orchestrator.rest import views
from orchestrator.state.checkpoints import Checkpoints
from orchestrator.state.cluster_state import ClusterState
from orchestrator.state.events import (
    DiscardNode,
    ForgetQuery,
    ManagersSeen,
    MoveBuckets,
    MoveInstance,
    OpenPublisher,
    StatusesSeen,
    StopQuery,
    SubmitQuery,
    Subscribe,
)
from orchestrator.state.quarantine import Quarantine, decode
from tests.orchestrator.state.test_cluster_state import Cluster, manager
from tests.orchestrator.test_service import deploy, query, state_is
from tests.support.control_plane import Keeper, cluster, reached
from tests.support.plans import planned
from tests.support.waiting import HANG_S, until

GARBAGE = (
    b"",
    b"\xff\xfe\x00",
    b"{",
    b"null",
    b"[]",
    b"7",
    b'"text"',
    b"NaN",
    b"[" * 3000,
    b'{"epoch": 1e400}',
    b"9" * 5000,
    b"{}",
    b"[[[]]]",
)
KINDS = ("streams", "queries", "plans", "tables", "assignments", "publishers", "subscriptions", "ims", "status", "election", "unheard-of")


def full() -> Cluster:
    """A cluster that has used every kind of node."""
    made = Cluster().running()
    made.do(Subscribe(SubscriptionRecord("per_ip", "s1", "ipc:///s1", keep_s=90)))
    made.do(OpenPublisher(PublisherRecord("visits", "p1", "ipc:///p1")))
    plan = made.plan(query("other"))
    made.do(SubmitQuery(plan))
    made.all_say("running", "other")
    made.do(MoveBuckets("per-ip", "SQ2", tuple(1 - at for at in made.state.table("per-ip", "SQ2").table)))
    return made


FULL = full()


def take_over(nodes: dict[str, Any]) -> Cluster:
    """Another orchestrator finds `nodes`, and goes on; nothing is raised."""
    made = Cluster.__new__(Cluster)
    made.state, made.nodes, made.now = ClusterState(6.0), nodes, FULL.now
    made.managers = {im: manager(im) for im in ("im-0", "im-1")}
    made.state.restore(nodes, made.now)
    made.state.handle(ManagersSeen(dict(made.managers)), made.now)
    return made


def shows(state: ClusterState) -> None:
    """All that REST tells can be told, and is JSON."""
    for record in list(state.queries.values()):
        json.dumps(views.detail(state, record))
    json.dumps([views.streams(state), views.managers(state), state.quarantine.to_json()])


WRONG = st.sampled_from(
    (None, True, -1, 0, 2**31, 2**63, 10**30, 1e308, float("nan"), "", "x", "\udc80", [], [1], ["x", None], {}, {"a": 1}, [[]], "9" * 300)
)


def _replaced(value: Any, path: list[Any], wrong: Any) -> Any:
    if not path:
        return wrong
    value = copy.copy(value)
    value[path[0]] = _replaced(value[path[0]], path[1:], wrong)
    return value


def _places(value: Any) -> list[list[Any]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [[], *([key, *place] for key, each in inner if not isinstance(each, list) or len(each) < 50 for place in _places(each))]


@given(st.data())
def test_whatever_is_changed_in_one_node_a_leader_takes_over_and_goes_on(data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(sorted(path for path, value in FULL.nodes.items() if value is not None)))
    place = data.draw(st.sampled_from(_places(FULL.nodes[path])))
    nodes = FULL.nodes | {path: _replaced(FULL.nodes[path], place, data.draw(WRONG))}
    made = take_over(nodes)
    shows(made.state)
    for name in list(made.state.queries):
        for instance in made.state.plans[name].instances:
            key = instance_node(name, instance.subquery, instance.index)
            made.state.handle(StatusesSeen(instance.im, {key: Status(made.state.queries[name].epoch, "running")}), made.now)
    shows(made.state)
    for name in {"per-ip", "other"} & made.state.queries.keys():
        for event in (MoveInstance(name, "SQ2", 0, "im-1"), StopQuery(name), ForgetQuery(name)):
            with contextlib.suppress(CepError):  # refused as it should be
                made.state.handle(event, made.now)
    shows(made.state)


@given(st.data())
def test_an_instance_manager_reads_mutants_or_refuses_them(data: st.DataObject) -> None:
    kinds = {
        "assignments": assignment_of,
        "plans": lambda _, document: assigned_plan(document),
        "tables": lambda _, document: tables_of(document),
    }
    kind = data.draw(st.sampled_from(sorted(kinds)))
    path = data.draw(st.sampled_from(sorted(path for path in FULL.nodes if path.startswith(node(kind) + "/"))))
    document = _replaced(FULL.nodes[path], data.draw(st.sampled_from(_places(FULL.nodes[path]))), data.draw(WRONG))
    with contextlib.suppress(CepError):
        kinds[kind](path.rpartition("/")[2], document)


def test_an_assignment_asks_only_for_what_an_instance_can_be() -> None:
    """Other commands of the loop have names, too."""
    path = next(path for path in FULL.nodes if path.startswith(node("assignments") + "/") and "~" in path)
    key, document = path.rpartition("/")[2], FULL.nodes[path]
    assignment_of(key, document)
    with pytest.raises(ProtocolError, match="desired: expected one of ready, run, drain, stop, fail, got 'remove'"):
        assignment_of(key, document | {"desired": "remove"})


@given(st.data())
def test_statuses_and_registrations_are_read_or_refused(data: st.DataObject) -> None:
    good = {
        "epoch": 1,
        "state": "failed",
        "cause": "c",
        "rows": {"a": 1},
        "operators": [{"name": "n", "step": "operator", "rows_in": 1, "cpu_ns": 2, "ns_per_row": 2.0}],
        "failed_at": ["SQ1", 0],
    }
    facts = {"id": "im-0", "endpoint": "ipc:///im-0", "pid": 1, "node": 0, "core": 0}
    read, document = data.draw(st.sampled_from(((Status.from_json, good), (InstanceManager.from_json, facts))))
    mutant = _replaced(document, data.draw(st.sampled_from(_places(document))), data.draw(WRONG))
    with contextlib.suppress(CepError):
        read(mutant)


def test_publishers_hear_that_a_query_is_set_aside_in_the_middle_of_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug in a step of it; it reads nothing any more."""
    cluster = Cluster().running()
    (name,) = cluster.state.plans["per-ip"].streams
    cluster.do(OpenPublisher(PublisherRecord(name, "p", "ipc:///p")))
    since = cluster.state.changes
    monkeypatch.setattr(Checkpoints, "advance", lambda self, record, now: 1 // 0)
    (instance, *_) = cluster.state.plans["per-ip"].instances
    cluster.says(instance.im, instance_node("per-ip", instance.subquery, instance.index), "running", rows=1)
    assert "per-ip" in cluster.state.quarantine.queries
    assert cluster.state.read_anew("ipc:///p", since) == [name]


class TestOneQuery:
    def broken(self) -> Cluster:
        return take_over(FULL.nodes | {node("plans", "per-ip"): {"query": {}}})

    def test_its_reason_is_told_and_the_other_goes_on(self) -> None:
        state = self.broken().state
        assert state.queries.keys() == {"other"}
        (found,) = state.quarantine.to_json()
        assert found["node"] == node("queries", "per-ip") and "not a plan of this version" in found["reason"]

    def test_what_stands_there_for_it_stays(self) -> None:
        state = ClusterState(6.0)
        commands = state.restore(FULL.nodes | {node("plans", "per-ip"): 7}, FULL.now)
        assert not [command for command in commands if "per-ip" in command.path]

    def test_one_of_its_name_is_refused_until_it_is_deleted(self) -> None:
        made = self.broken()
        with pytest.raises(Conflict, match=r"set aside: .*; delete it"):
            made.state.check_new(query("per-ip"))
        with pytest.raises(Conflict, match="set aside"):
            made.state.handle(StopQuery("per-ip"), made.now)
        removed = {command.path for command in made.state.handle(ForgetQuery("per-ip"), made.now)}
        assert removed == {path for path in FULL.nodes if path.endswith("/per-ip") or "/per-ip~" in path}
        made.state.check_new(query("per-ip"))
        assert not made.state.quarantine.to_json()

    def test_a_query_that_raises_later_is_set_aside_alone(self) -> None:
        made = take_over(dict(FULL.nodes))
        made.state.plans["per-ip"].__dict__["_workers"] = {}  # as a bug would have it
        made.state.handle(ManagersSeen({"im-0": manager("im-0"), "im-1": manager("im-1", pid=2)}), made.now)
        made.state.plans.pop("per-ip", None)
        assert "other" in made.state.queries


def test_a_node_that_is_set_aside_can_be_removed() -> None:
    path = node("subscriptions", "per_ip", "bad")
    made = take_over(FULL.nodes | {path: {"keep_s": 1e10}})
    assert [each["node"] for each in made.state.quarantine.to_json()] == [path]
    assert [command.path for command in made.state.handle(DiscardNode(path), made.now)] == [path]
    with pytest.raises(NotFound, match="not set aside"):
        made.state.handle(DiscardNode(path), made.now)


def test_a_subscription_that_was_to_be_kept_for_ages_is_set_aside() -> None:
    """It overflowed a time-out, in every orchestrator that was ever to lead."""
    nodes = copy.deepcopy(FULL.nodes)
    nodes[node("subscriptions", "per_ip", "s1")]["keep_s"] = 1e10
    assert "keep_s: expected a number from" in take_over(nodes).state.quarantine.nodes[node("subscriptions", "per_ip", "s1")]


def test_the_count_of_deployments_survives_a_node_that_says_nothing() -> None:
    for wrong in ({"epoch": "x"}, [], {"epoch": 2**40}, decode(b"{")):
        made = take_over(FULL.nodes | {node("queries"): wrong})
        greatest = max(record.epoch for record in made.state.queries.values())
        assert made.state.epoch == greatest > 0


def test_a_leader_leads_whatever_stands_in_zookeeper(zookeeper: Keeper, tmp_path: Path) -> None:
    """Garbage at every kind of node, before an orchestrator comes and while it leads."""
    with cluster(zookeeper.fresh(), tmp_path) as made:
        deploy(made.services[0], "good")
        state_is(made.services[0], "running", "good")
        tree = "/" + made.config.zookeeper.partition("/")[2]
        stuff(zookeeper, tree)
        zookeeper.client.set(f"{tree}{ROOT}/orchestrator", b"{")  # where the leader names itself
        made.services.pop(0).close()
        leader = made.add_service()
        reached(leader, lambda state: state.queries.keys() == {"good"} and state.managers.keys() == {"im-0", "im-1"})
        stuff(zookeeper, tree, "late")
        deploy(leader, "better")
        state_is(leader, "running", "better")
        made.stand_ins["im-0"].say("good~SQ1~0", "failed", "c" * 100_000)
        state_is(leader, "failed", "good")
        leader.do(ForgetQuery("good"), ForgetQuery("better")).result(HANG_S)
        reached(leader, lambda state: not state.queries)
        shown = {each["node"] for each in leader.quarantine.to_json()}
        assert {node("ims", "garbage-7"), node("streams", "garbage-7"), node("queries", "garbage-7")} <= shown
        assert node("status", "im-0", "x~SQ1~0") in shown
        until(lambda: leader.leads)


def stuff(zookeeper: Keeper, tree: str, suffix: str = "") -> None:
    client = zookeeper.client
    for kind in KINDS:
        for i, data in enumerate(GARBAGE):
            client.create(f"{tree}{ROOT}/{kind}/garbage{suffix}-{i}", data, makepath=True)
            client.create(f"{tree}{ROOT}/{kind}/folder{suffix}-{i}/below/deeper/deepest", data, makepath=True)
    client.create(f"{tree}{ROOT}/election/{'0' * 32}-", b"[]", sequence=True)
    client.set(f"{tree}{ROOT}/queries", b'{"epoch": [1]}')
    client.create(f"{tree}{ROOT}/status/im-0/x{suffix}~SQ1~0", b'{"epoch": "one"}', makepath=True)
    client.create(f"{tree}{ROOT}/assignments/im-0/good~SQ2~0/child{suffix}", b"in the way", makepath=True)


class TestPathsOfAPlan:
    """Whatever stands in ZooKeeper, an instance manager reads and writes below the cluster's folders alone."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        (tmp_path / "data").mkdir()
        (tmp_path / "secret").mkdir()
        (tmp_path / "secret" / "file").write_text("a\n")
        (tmp_path / "data" / "file").write_text("a\n")
        (tmp_path / "data" / "link").symlink_to(tmp_path / "secret")
        (tmp_path / "data" / "out-00000.csv").symlink_to(tmp_path / "secret" / "written")
        return tmp_path

    def check(self, folder: Path, source: str, target: str) -> None:
        stream = Stream("s", Schema.from_json([{"name": "a", "type": "string"}], ""), files=TextFiles((source,)))
        asked = CepQuery("q", (stream,), (), (Output("out", "s", TextSink(target)),))
        made = planned(asked, files={"s": ((source, 2),)})
        check_paths(made, made.subqueries[0], 0, [str(folder / "data")])

    def test_what_is_inside_is_fine(self, folder: Path) -> None:
        self.check(folder, f"{folder}/data/file", f"{folder}/data/new/deeper")

    @pytest.mark.parametrize(
        ("source", "target"),
        [
            ("secret/file", "data/new"),
            ("data/link/file", "data/new"),
            ("data/../secret/file", "data/new"),
            ("data/file", "secret"),
            ("data/file", "data/link"),
            ("data/file", "data"),
        ],
    )
    def test_what_is_outside_behind_all_links_is_refused(self, folder: Path, source: str, target: str) -> None:
        with pytest.raises(QueryError, match="is not under a folder of this cluster"):
            self.check(folder, f"{folder}/{source}", f"{folder}/{target}")


def test_what_is_gone_is_that_right_below_the_folder() -> None:
    found = Quarantine()
    for path in ("/status/im-1/a", "/status/im-1/b", "/status/im-10/a", "/status/im-1/b/c", "/status"):
        found.set_aside(path, "nonsense")
    found.release_below("/status/im-1", ["/status/im-1/b"])
    assert list(found.nodes) == ["/status/im-1/b", "/status/im-10/a", "/status/im-1/b/c", "/status"]
