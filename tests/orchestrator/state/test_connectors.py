"""Connectors as they are declared, and which process has each.

Tests `orchestrator/rest/connecting/board.py`, `orchestrator/rest/connecting/routes.py`, `orchestrator/sinks.py`.
"""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from cep.config import GRACE_S, node
from cep.errors import NotFound, QueryError
from driver import LocalCluster, Query, Running, col, stream
from orchestrator.records import Now
from orchestrator.rest.connecting.board import LEASE_S, ConnectorBoard
from orchestrator.state.connectors import ConnectorRecord
from orchestrator.state.events import DeclareConnector, ForgetConnector, HoldConnectors
from tests.orchestrator.state.test_keys import Cluster

FIRST: dict[str, Any] = {"name": "c", "stream": "s", "from": {"connector": "files", "path": "/a"}}


def declared(*names: str) -> Cluster:
    made = Cluster(members=None)
    for name in names:
        made.do(DeclareConnector(name, FIRST | {"name": name}))
    return made


def test_what_is_declared_is_written_and_comes_back() -> None:
    made = declared("b", "a")
    made.do(HoldConnectors(("a", "gone"), "here", "1"))
    records = made.state.connectors.records
    held = {name: (each.epoch, each.place, each.incarnation) for name, each in records.items()}
    first = records["b"].epoch
    assert held == {"b": (first, "", ""), "a": (first + 2, "here", "1")}
    again = Cluster(made.nodes, members=None)
    assert again.state.connectors.records == records and again.state.quarantine.nodes == {}
    assert [each.name for each in again.state.connectors.held_by("here", "1")] == ["a"]


def test_an_epoch_is_never_given_twice() -> None:
    """Not to one that is declared again under the name either, for what it writes to knows the epoch of the one before."""
    made = declared("c")
    made.do(DeclareConnector("c", FIRST))
    first = made.state.connectors.get("c").epoch
    made.do(DeclareConnector("c", FIRST | {"stream": "t"}))
    made.do(ForgetConnector("c"))
    assert node("connectors", "c") not in made.nodes
    again = Cluster(made.nodes, members=None)
    again.do(DeclareConnector("c", FIRST))
    assert again.state.connectors.get("c").epoch == first + 2


def test_a_cluster_that_is_made_anew_is_later_than_the_one_before() -> None:
    """A database has seen that one's epochs."""
    before, anew = declared("a", "b", "c"), Cluster(members=None)
    last = before.state.connectors.epoch
    anew.state.handle(DeclareConnector("c", FIRST), Now(0.0, (last + 1) / 1000))
    assert anew.state.connectors.get("c").epoch > last


def test_what_is_not_there_is_said() -> None:
    made = declared("orders")
    with pytest.raises(NotFound, match=r"there is no connector 'order' \(did you mean 'orders'\?\)"):
        made.do(ForgetConnector("order"))


def test_what_makes_no_sense_is_set_aside() -> None:
    nodes = {node("connectors"): {"epoch": -1.5}, node("connectors", "x"): {"name": "y", "document": {}}}
    assert Cluster(nodes, members=None).state.quarantine.nodes.keys() == nodes.keys()


# Who gets which


def test_the_next_process_of_a_place_takes_over_at_once_and_another_after_the_lease() -> None:
    board, records = ConnectorBoard(), [ConnectorRecord("a", FIRST, 1, "here", "1"), ConnectorRecord("b", FIRST, 2)]
    board.hear(5, "here", "1", [], 100.0)
    assert board.free(records, "here", "1", 100.0) == ["b"]
    board.hear(5, "there", "9", [], 101.0)
    assert board.free(records, "here", "1", 101.0) == []  # its share is one
    assert board.free(records, "there", "9", 101.0) == ["b"]
    board.hear(5, "here", "2", [], 102.0)
    assert board.free(records, "here", "2", 102.0) == ["a"]
    assert 2 * LEASE_S <= GRACE_S  # windows still wait for its publishers
    late = 102.0 + LEASE_S + 1
    board.hear(5, "there", "9", [], late)
    assert board.free(records, "there", "9", late) == ["a", "b"]


def test_a_new_leader_waits_for_those_that_have_some() -> None:
    board, records = ConnectorBoard(), [ConnectorRecord("a", FIRST, 1, "here", "1")]
    board.hear(1, "here", "1", [], 100.0)
    board.hear(2, "there", "9", [], 1000.0)
    assert board.free(records, "there", "9", 1000.0 + LEASE_S - 1) == []
    assert board.free(records, "there", "9", 1000.0 + LEASE_S + 1) == ["a"]


def test_what_is_told_counts_while_its_process_lives() -> None:
    board, record = ConnectorBoard(), ConnectorRecord("a", FIRST, 7, "here", "1")
    assert board.figures(record, 0.0)["state"] == "starting"
    assert "no process runs it" in board.figures(ConnectorRecord("a", FIRST), 0.0)["error"]
    board.hear(1, "here", "1", [{"name": "a", "epoch": 7, "state": "running", "error": ""}], 100.0)
    assert board.figures(record, 101.0)["state"] == "running"
    assert board.figures(record, 101.0 + LEASE_S)["state"] == "lost"
    assert board.figures(ConnectorRecord("a", FIRST, 8, "here", "1"), 101.0)["state"] == "starting"


# By REST


@pytest.mark.parametrize(
    ("change", "pointer", "said"),
    [
        ({"from": {"connector": "file", "path": "/x"}}, "/from/connector", "there is no connector 'file' (did you mean 'files'?)"),
        ({"from": {"connector": "files"}}, "/from/path", "path is missing: The folder"),
        (
            {"from": {"connector": "files", "path": "/x", "folow": True}},
            "/from/folow",
            "no option 'folow' (did you mean 'follow'?); there are path, store, pattern, follow",
        ),
        ({"from": {"connector": "files", "path": "/x", "format": "xml"}}, "/from/format", "expected one of json, csv, raw"),
        (
            {"from": {"connector": "files", "path": "/x", "format": {"name": "csv", "separator": "ab"}}},
            "/from/format/separator",
            "at most 1",
        ),
        ({"from": {"connector": "files", "path": "/etc"}}, "/from/path", "'/etc' is under none of the cluster's folders"),
        ({"to": {"connector": "files", "path": "/x"}}, "", 'expected one of "from" and "to"'),
        ({"strem": "s"}, "/strem", "unknown key 'strem'"),
        ({"stream": 7}, "/stream", "stream: expected a text, got 7"),
        ({"name": "other"}, "/name", "the name is 'other' in the document and 'c' in the address"),
    ],
)
def test_a_wrong_document_is_refused_with_its_place(cluster: LocalCluster, change: dict[str, Any], pointer: str, said: str) -> None:
    with pytest.raises(QueryError) as refused:
        cluster.rest.put("/connectors/c", FIRST | change)
    assert refused.value.pointer == pointer and said in str(refused.value)


def test_columns_that_a_stream_has_not_are_refused_as_soon_as_it_is_known(cluster: LocalCluster) -> None:
    """When the sink is declared, or else when its query is deployed, upgraded or explained."""

    def sink(key: str, name: str = "keyed") -> dict[str, Any]:
        return {"name": name, "stream": "keyed", "to": {"connector": "kafka", "servers": "127.0.0.1:1", "topic": "t", "key": key}}

    query = Query("keyed").source(stream("to.key", card=str, n=int)).map("m", card=col("card"), n=col("n"))
    cluster.connect(sink("crad"))
    for refuse in (cluster.explain, cluster.deploy):
        with pytest.raises(QueryError, match=r"connector 'keyed': key: stream 'keyed' has no column 'crad' \(did you mean 'card'\?\)"):
            refuse(query.output("keyed"))
    other = Query("other").source(stream("to.other", card=str)).map("m", card=col("card")).output("other")
    bad, good = cluster.deploy_all([query.output("keyed"), other], start=False)
    assert isinstance(bad, QueryError) and "connector 'keyed': key: " in str(bad) and isinstance(good, Running)
    good.delete()
    cluster.connect(sink("card"))
    running = cluster.deploy(query.output("keyed"), start=False)
    with pytest.raises(QueryError, match="has no column 'm'; it has card, n") as refused:
        cluster.connect(sink("m", "another"))
    assert refused.value.pointer == "/to/key"
    with pytest.raises(QueryError, match="connector 'keyed': key: "):
        running.upgrade(query.map("m2", n=col("n")).output("keyed"), dry_run=True)
    running.delete()
    cluster.disconnect("keyed")


def test_a_format_that_cannot_hold_a_stream_is_refused_as_soon_as_that_is_known(cluster: LocalCluster) -> None:
    """Else what it has no place for would be left out."""

    def sink(format_: str) -> dict[str, Any]:
        end = {"connector": "kafka", "servers": "127.0.0.1:1", "topic": "t", "format": format_}
        return {"name": "told", "stream": "told", "to": end}

    query = Query("told").source(stream("to.tell", card=str, n=int)).map("m", card=col("card"), n=col("n")).output("told")
    cluster.connect(sink("raw"))
    with pytest.raises(QueryError, match="connector 'told': format: stream 'told': raw values are of one column"):
        cluster.explain(query)
    cluster.connect(sink("csv"))
    cluster.explain(query)
    cluster.disconnect("told")
    cluster.rest.put("/streams/told", {"name": "told", "schema": [{"name": "n", "type": "list<int64>"}]})
    with pytest.raises(QueryError, match="format: stream 'told': CSV has no lists, and column 'n' is one") as refused:
        cluster.connect(sink("csv"))
    assert refused.value.pointer == "/to/format"
    cluster.rest.delete("/streams/told")


def test_kinds_tell_their_options(cluster: LocalCluster) -> None:
    (files,) = (each for each in cluster.rest.get("/connectors:kinds") if each["connector"] == "files")
    assert files["from"]["properties"].keys() == {"path", "store", "pattern", "follow"}
    assert files["formats"].keys() >= {"json", "csv", "raw"}


def test_work_is_asked_for_by_processes_alone(cluster: LocalCluster) -> None:
    answer = httpx.post(f"{cluster.rest.url}/connectors:work", json={"place": "x", "incarnation": "1", "wait": 0}, verify=False)
    assert (answer.status_code, answer.json()) == (200, {"connectors": []})
