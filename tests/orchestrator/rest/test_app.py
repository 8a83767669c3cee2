"""REST as its clients see it: real HTTP, real ZooKeeper, a real metric server; stand-in instance managers.

Tests `app.py`, `api.py`, `cluster_routes.py`, `models.py`, `query_routes.py`, `stream_routes.py`, `orchestrator/deploying.py`,
`orchestrator/file_sources.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
import uvicorn
import yaml

import driver
from cep.config import ClusterConfig, argument
from cep.errors import ClusterError, QueryError, QueryFailed
from cep.model.expr import NESTED_MAX
from cep.model.streams import TextFiles
from cep.service.serving import Patient
from cep.transport import wire
from cep.transport.sockets import open_sockets
from cep.transport.wire import Header
from orchestrator.file_sources import resolve_paths
from orchestrator.metrics.client import MetricClient
from orchestrator.metrics.server import LETTERS_MAX, SILENT_S_MAX, Metrics
from orchestrator.records import Now, PublisherRecord
from orchestrator.rest.api import VANISHED_S, Api
from orchestrator.rest.app import make_rest_app
from orchestrator.rest.gateway_proxy import GatewayProxy
from orchestrator.rest.models import QUERY_EXAMPLE, SQL_EXAMPLE, STREAM_EXAMPLE
from orchestrator.rest_process import listen
from orchestrator.service import Service
from tests.support.control_plane import Cluster, Keeper, cluster, reached
from tests.support.paths import ROOT
from tests.support.waiting import HANG_S, until


class Server:
    """REST of a service, in a thread."""

    def __init__(self, service: Service, config: ClusterConfig, protocol: type[Patient] = Patient) -> None:
        listener = listen(config)
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self.metrics = MetricClient(config.metrics_out)
        self.api = Api(service, self.metrics, GatewayProxy(None), config)
        settings = uvicorn.Config(make_rest_app(self.api), http=protocol, log_level="warning", lifespan="off", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(settings)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [listener]})
        self._thread.start()

    def client(self, **settings: Any) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=HANG_S, trust_env=False, verify=False, **settings)

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(HANG_S)
        self.metrics.close()


@pytest.fixture
def two(zookeeper: Keeper, tmp_path: Path) -> Iterator[Cluster]:
    (tmp_path / "data").mkdir()
    with cluster(zookeeper.fresh(), tmp_path, rest_port=0, data=(str(tmp_path / "data"),)) as made:
        yield made


@pytest.fixture
def server(two: Cluster) -> Iterator[Server]:
    made = Server(two.services[0], two.config)
    yield made
    made.close()


@pytest.fixture
def client(server: Server) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


def named(name: str, output: str = "") -> dict[str, Any]:
    return QUERY_EXAMPLE | {"name": name, "outputs": [{"stream": output or f"out-{name}", "input": "window"}]}


def is_problem(answer: httpx.Response, status: int, error: str, detail: str, pointer: str | None = None) -> None:
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert (answer.status_code, body["status"], body["error"], body.get("pointer")) == (status, status, error, pointer), body
    assert detail in body["detail"]


class TestQueries:
    def test_deploy_waits_until_it_runs(self, client: httpx.Client) -> None:
        answer = client.post("/queries?wait=true", json=QUERY_EXAMPLE)
        body = answer.json()
        assert (answer.status_code, body["state"]) == (201, "running")
        assert {placed["state"] for placed in body["placed"]} == {"running"}
        assert [p["endpoint"] for p in body["outputs"]["per_ip"]] == ["ipc:///im-0", "ipc:///im-1"]
        assert body["schemas"]["per_ip"][0] == {"name": "ip", "type": "string"}
        assert [query["name"] for query in client.get("/queries").json()] == ["per-ip"]

    def test_yaml_is_as_good(self, client: httpx.Client) -> None:
        headers = {"Content-Type": "application/yaml"}
        answer = client.post("/queries?wait=true&start=false", content=yaml.safe_dump(QUERY_EXAMPLE), headers=headers)
        assert answer.json()["state"] == "ready"
        assert client.post("/queries/per-ip/start?wait=true").json()["state"] == "running"
        assert client.get("/queries/per-ip").json()["document"]["name"] == "per-ip"

    def test_sql_is_as_good(self, client: httpx.Client) -> None:
        headers = {"Content-Type": "text/sql; charset=utf-8"}
        assert "aggregate" in client.post("/explain", content=SQL_EXAMPLE, headers=headers).json()["text"]
        answer = client.post("/queries?name=per-ip&wait=true", content=SQL_EXAMPLE, headers=headers)
        assert (answer.status_code, answer.json()["state"]) == (201, "running")
        document = client.get("/queries/per-ip").json()["document"]
        assert [(each["name"], each["schema"]) for each in document["streams"]] == [("visits", STREAM_EXAMPLE["schema"])]
        assert [each["stream"] for each in document["outputs"]] == ["per-ip"]
        # over what the cluster has by now: a declared stream, and the output of a query
        text = (
            "SELECT a.ip, b.visits FROM visits a JOIN \"per-ip\" b ON a.ip = b.ip AND b.rowtime BETWEEN a.ts AND a.ts + INTERVAL '1' MINUTE"
        )
        answer = client.post("/queries?name=joined&start=false&wait=true", content=text, headers=headers)
        assert answer.json()["state"] == "ready"
        assert client.get("/queries/joined").json()["document"]["streams"] == []

    def test_wrong_sql_says_where(self, client: httpx.Client) -> None:
        headers = {"Content-Type": "text/sql"}
        client.put("/streams/visits", json=STREAM_EXAMPLE)
        answer = client.post("/queries?name=q", content="SELECT ip\nFROM visit", headers=headers)
        is_problem(answer, 422, "QueryError", "SQL-NAME at 2:6: there is no 'visit' (did you mean 'visits'?)", "")
        is_problem(
            client.post("/queries", content="SELECT ip FROM visits", headers=headers), 422, "QueryError", "does not name its query", "/name"
        )
        is_problem(client.put("/streams/s", content="CREATE STREAM s (a INT)", headers=headers), 415, "HTTPException", "POST /queries")
        is_problem(client.post("/queries?name=q", content=b"SELECT \xff", headers=headers), 400, "ProtocolError", "not UTF-8")
        is_problem(client.post("/queries?name=q", content="-" * 300_000, headers=headers), 413, "HTTPException", "of SQL")
        assert client.get("/queries").json() == []

    def test_explain_before_and_after(self, client: httpx.Client) -> None:
        before = client.post("/explain", json=QUERY_EXAMPLE).json()["text"]
        assert client.get("/queries").json() == []
        client.post("/queries?wait=true", json=QUERY_EXAMPLE)
        assert client.get("/queries/per-ip/explain").json()["text"] == before
        assert client.get("/queries/per-ip/plan").json()["query"]["name"] == "per-ip"

    def test_stop_and_delete(self, client: httpx.Client) -> None:
        client.post("/queries?wait=true", json=QUERY_EXAMPLE)
        assert client.post("/queries/per-ip/stop?drain=true&wait=true").json()["state"] == "stopped"
        released = client.post("/queries/per-ip/stop").json()
        assert released["outputs"] == {"per_ip": []} and released["rows"] == {"per_ip": 28}  # every stand-in says 7
        assert client.delete("/queries/per-ip?wait=true").status_code == 204
        is_problem(client.get("/queries/per-ip"), 404, "NotFound", "there is no query 'per-ip'")

    def test_a_failure_is_told_with_its_cause(self, two: Cluster, client: httpx.Client) -> None:
        two.stand_ins["im-1"].mute = True
        with ThreadPoolExecutor() as pool:
            answer = pool.submit(client.post, "/queries?wait=true", json=QUERY_EXAMPLE)
            until(lambda: "per-ip~SQ2~1" in two.stand_ins["im-1"].assignments)
            two.stand_ins["im-1"].say("per-ip~SQ2~1", "failed", "no kernel")
            is_problem(answer.result(HANG_S), 409, "QueryFailed", "query 'per-ip' failed in subquery 'SQ2' instance 1: no kernel")
        body = client.get("/queries/per-ip").json()
        assert (body["state"], body["cause"]) == ("failed", {"subquery": "SQ2", "instance": 1, "cause": "no kernel"})

    def test_a_query_that_is_stopped_before_it_runs_is_a_conflict(self, two: Cluster, client: httpx.Client) -> None:
        two.stand_ins["im-1"].mute = True
        with ThreadPoolExecutor() as pool:
            answer = pool.submit(client.post, "/queries?wait=true", json=QUERY_EXAMPLE)
            until(lambda: "per-ip~SQ2~1" in two.stand_ins["im-1"].assignments)
            two.stand_ins["im-1"].mute = False
            client.post("/queries/per-ip/stop")
            for name in ("per-ip~SQ1~1", "per-ip~SQ2~1"):
                two.stand_ins["im-1"].say(name, "stopped")
            is_problem(answer.result(HANG_S), 409, "Conflict", "query 'per-ip' was stopped before it ran")

    def test_a_wait_that_is_over_says_202(self, two: Cluster, client: httpx.Client) -> None:
        two.stand_ins["im-1"].mute = True
        answer = client.post("/queries?wait=true&timeout=0.2", json=QUERY_EXAMPLE)
        assert (answer.status_code, answer.json()["state"]) == (202, "deploying")

    def test_a_state_is_waited_for_until_the_query_is_over(self, two: Cluster, client: httpx.Client) -> None:
        two.stand_ins["im-1"].mute = True
        client.post("/queries", json=QUERY_EXAMPLE)
        assert client.get("/queries/per-ip?until=running&timeout=0.2").json()["state"] == "deploying"
        with ThreadPoolExecutor() as pool:
            answer = pool.submit(client.get, "/queries/per-ip?until=running")
            until(lambda: "per-ip~SQ2~1" in two.stand_ins["im-1"].assignments)
            two.stand_ins["im-1"].say("per-ip~SQ2~1", "failed", "no kernel")
            assert answer.result(HANG_S).json()["state"] == "failed"
        is_problem(client.get("/queries/other?until=running"), 404, "NotFound", "there is no query 'other'")

    def test_a_driver_waits_longer_than_one_request(self, two: Cluster, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("driver.cluster.POLL_S", 0.05)
        two.stand_ins["im-1"].mute = True
        asked: list[httpx.Request] = []
        with driver.Cluster(server.url) as deploying, ThreadPoolExecutor() as pool:
            deploying.rest.client.event_hooks = {"request": [asked.append]}
            deployed = pool.submit(deploying.deploy, QUERY_EXAMPLE)
            until(lambda: len(asked) > 3 and "per-ip~SQ2~1" in two.stand_ins["im-1"].assignments)
            two.stand_ins["im-1"].say("per-ip~SQ2~1", "failed", "no kernel")
            with pytest.raises(QueryFailed, match="no kernel"):
                deployed.result(HANG_S)
        assert [each.method for each in asked].count("POST") == 1

    def test_the_examples_of_the_openapi_document_can_be_deployed_side_by_side(self, tmp_path: Path, client: httpx.Client) -> None:
        (tmp_path / "data" / "owners.csv").write_text("ip,owner\n")
        (tmp_path / "data" / "owner_history.csv").write_text("ip,owner,since\n")
        (tmp_path / "data" / "views-1.jsonl").write_text("")
        content = client.get("/openapi.json").json()["paths"]["/queries"]["post"]["requestBody"]["content"]
        for name, example in content["application/json"]["examples"].items():
            document = json.loads(json.dumps(example["value"]).replace("/data/", f"{tmp_path}/data/"))
            answer = client.post("/queries", json=document)
            assert answer.status_code == (422 if name == "apply" else 201), (name, answer.text)  # its module is not there


class TestProblems:
    def test_options_beyond_all_bounds(self, client: httpx.Client) -> None:
        answer = client.post("/explain", json=QUERY_EXAMPLE | {"options": {"parallelism": 10**9}})
        is_problem(answer, 422, "QueryError", "expected at most 4096", "/options/parallelism")

    def test_unknown_keys_of_a_window(self, client: httpx.Client) -> None:
        operator = QUERY_EXAMPLE["operators"][0] | {"window": {"type": "time", "size": "1s", "slide": "1s"}}
        answer = client.post("/explain", json=QUERY_EXAMPLE | {"operators": [operator]})
        is_problem(answer, 422, "QueryError", "unknown key 'slide'", "/operators/0/window/slide")

    def test_a_document_too_deep_to_read(self, client: httpx.Client) -> None:
        deep = b'{"a":' * 50_000 + b"1" + b"}" * 50_000
        for content, type_ in ((deep, "application/json"), (b"[" * 200_000, "application/yaml"), (b"- " * 100_000, "application/yaml")):
            answer = client.post("/explain", content=content, headers={"Content-Type": type_})
            is_problem(answer, 400, "ProtocolError", "are in each other")

    def test_operations_inside_each_other(self, client: httpx.Client) -> None:
        """As many as there may be are answered as they came; one query with more harms no other."""
        for operations in (NESTED_MAX, NESTED_MAX + 1):
            expression = '{"op": "is_null", "args": [' * operations + '{"column": "ip"}' + "]}" * operations
            operator = {"name": "deep", "type": "map", "input": "visits", "fields": {"x": json.loads(expression)}}
            document = {"name": "deep", "streams": [STREAM_EXAMPLE], "operators": [operator], "outputs": [{"stream": "o", "input": "deep"}]}
            answer = client.post("/queries", json=document)
            if operations > NESTED_MAX:
                is_problem(answer, 422, "QueryError", "more than 100 operations inside each other", "/operators/0")
            else:
                assert answer.status_code == 201 and client.get("/queries/deep").json()["document"]["operators"] == [operator]
                assert client.delete("/queries/deep").status_code < 300

    def test_what_is_no_query_is_pointed_at(self, client: httpx.Client) -> None:
        broken = json.loads(json.dumps(QUERY_EXAMPLE))
        broken["operators"][0]["input"] = "nothing"
        is_problem(client.post("/queries", json=broken), 422, "QueryError", "'nothing'", "/operators/0/input")
        is_problem(client.post("/queries", json=[]), 422, "QueryError", "expected a query", "")
        is_problem(
            client.post("/queries", content=b"{", headers={"Content-Type": "application/json"}), 400, "ProtocolError", "cannot be read"
        )
        is_problem(client.post("/queries", content=b"a: [", headers={"Content-Type": "text/yaml"}), 400, "ProtocolError", "")
        slash = client.post("/queries", json=named("a/b"))
        is_problem(slash, 422, "QueryError", "no '/'", "/name")

    def test_a_name_that_is_taken(self, client: httpx.Client) -> None:
        client.post("/queries", json=QUERY_EXAMPLE)
        is_problem(client.post("/queries", json=QUERY_EXAMPLE), 409, "Conflict", "there is a query 'per-ip' already")

    def test_explain_of_what_is_to_take_the_place_of_a_query(self, client: httpx.Client) -> None:
        """The plan is the one that it gets once that is deleted, of whatever state: the cores that it has count as free. An output that
        is another's is refused as before."""
        changed = QUERY_EXAMPLE | {"options": {"parallelism": 1}}
        fresh = client.post("/explain", json=changed).json()["text"]
        client.post("/queries?wait=true", json=QUERY_EXAMPLE)
        assert client.post("/explain", json=changed).json()["text"] == fresh
        client.post("/queries/per-ip/stop?wait=true")
        assert client.post("/explain", json=changed).json()["text"] == fresh
        client.post("/queries?wait=true", json=named("other"))
        taken = changed | {"outputs": [{"stream": "out-other", "input": "window"}]}
        is_problem(client.post("/explain", json=taken), 409, "Conflict", "stream 'out-other' is the output of query 'other'")

    def test_a_stream_that_is_declared_otherwise(self, client: httpx.Client) -> None:
        client.put("/streams/visits", json=STREAM_EXAMPLE)
        other = QUERY_EXAMPLE | {"streams": [STREAM_EXAMPLE | {"disorder": "9s"}]}
        for door in ("/queries", "/explain"):
            is_problem(client.post(door, json=other), 409, "Conflict", "'visits' exists already with another disorder: '2s', here '9s'")

    def test_without_instance_managers(self, two: Cluster, client: httpx.Client) -> None:
        for stand_in in two.stand_ins.values():
            stand_in.vanish()
        until(lambda: client.get("/health").json()["instance_managers"] == 0)
        for door in ("/queries", "/explain"):
            is_problem(client.post(door, json=QUERY_EXAMPLE), 409, "PlacementError", "instance manager")

    def test_parameters_bodies_and_addresses(self, client: httpx.Client) -> None:
        is_problem(client.post("/queries?start=perhaps", json=QUERY_EXAMPLE), 422, "QueryError", "query parameter 'start'")
        opening = client.post("/streams/visits/publishers", json={"name": "p"})
        is_problem(opening, 422, "QueryError", "", "/endpoint")
        is_problem(client.get("/nowhere"), 404, "HTTPException", "GET /nowhere")

    def test_one_that_does_not_lead_says_who_does(self, two: Cluster, client: httpx.Client) -> None:
        standby = two.add_service()
        until(lambda: standby.leader is not None)
        server = Server(standby, two.config)
        with server.client() as other:
            answer = other.get("/queries")
            is_problem(answer, 503, "NotLeading", "does")
            assert answer.json()["leader"] == two.config.rest
            assert other.get("/health").status_code == 503
        server.close()


class TestFiles:
    def files(self, *paths: str) -> dict[str, Any]:
        stream = {**STREAM_EXAMPLE, "files": {"paths": list(paths)}}
        return QUERY_EXAMPLE | {"streams": [stream]}

    def test_globs_are_resolved_sorted_and_measured(self, client: httpx.Client, tmp_path: Path) -> None:
        for name in ("b.csv", "a.csv"):
            (tmp_path / "data" / name).write_text("x\n")
        (tmp_path / "data" / "folder.csv").mkdir()
        assert client.post("/queries", json=self.files(f"{tmp_path}/data/*.csv")).status_code == 201
        found = client.get("/queries/per-ip/plan").json()["files"]["visits"]
        assert found == [[f"{tmp_path}/data/a.csv", 2], [f"{tmp_path}/data/b.csv", 2]]
        is_problem(client.get("/streams/visits/readers"), 409, "Conflict", "read from files")

    def test_an_output_is_not_published_to(self, client: httpx.Client) -> None:
        client.post("/queries?wait=true", json=QUERY_EXAMPLE)
        asked = client.get("/streams/per_ip/readers")
        is_problem(asked, 409, "Conflict", "stream 'per_ip' is an output of query 'per-ip'; it cannot be published to")

    @pytest.mark.parametrize(
        ("path", "detail"),
        [
            ("{data}/none.csv", "does not exist"),
            ("{data}/*.none", "no file matches"),
            ("{data}", "is not a file"),
            ("{data}/../secret", "is not under a folder"),
            ("{data}/../*", "is not under a folder"),
            ("{data}/link", "is not under a folder"),
            ("{data}/link*", "is not under a folder"),
            ("relative.csv", "expected an absolute path"),
        ],
    )
    def test_what_is_no_file_of_ours(self, tmp_path: Path, path: str, detail: str) -> None:
        data = tmp_path / "data"
        data.mkdir()
        (tmp_path / "secret").touch()
        (data / "link").symlink_to(tmp_path / "secret")
        (data / "a.csv").touch()
        with pytest.raises(QueryError, match=detail) as caught:
            resolve_paths(TextFiles((f"{data}/a.csv", path.format(data=data))), (str(data),), "/files/paths")
        assert caught.value.pointer == "/files/paths/1"

    @pytest.mark.parametrize(
        ("path", "detail"),
        [
            ("{tmp}/secret.csv", "is not under a folder"),
            ("{tmp}/data/none.csv", "does not exist"),
            ("{tmp}/data/other.csv", "other.csv': no column 'name'; there are ip, owner"),
            ("{tmp}/data/other.parquet", "other.parquet': no column 'name'; there are ip, owner"),
            ("{tmp}/data/other.arrow", "other.arrow': no column 'name'; there are ip, owner"),
            ("{tmp}/data/twice.csv", "twice.csv': 2 columns 'name'; there are ip, name, name"),
            ("{tmp}/data/bad.parquet", "bad.parquet': cannot be read as parquet"),
        ],
    )
    def test_tables_are_files_of_ours_too(self, client: httpx.Client, tmp_path: Path, path: str, detail: str) -> None:
        (tmp_path / "secret.csv").touch()
        (tmp_path / "data" / "names.csv").write_text("ip,name\n")
        (tmp_path / "data" / "other.csv").write_text("ip,owner\na,b\n")
        (tmp_path / "data" / "twice.csv").write_text("ip,name,name\na,b,c\n")
        other = pa.table({"ip": ["a"], "owner": ["b"]})
        pyarrow.parquet.write_table(other, tmp_path / "data" / "other.parquet")
        pyarrow.feather.write_feather(other, tmp_path / "data" / "other.arrow")
        (tmp_path / "data" / "bad.parquet").write_text("no such thing")
        table = {"schema": [{"name": "ip", "type": "string"}, {"name": "name", "type": "string"}]}
        lookup = {"name": "named", "type": "lookup", "input": "visits", "on": [["ip", "ip"]]}
        asked = {**QUERY_EXAMPLE, "outputs": [{"stream": "out", "input": "named"}]}
        good, bad = (
            {**asked, "operators": [{**lookup, "table": {**table, "path": given}}]}
            for given in (f"{tmp_path}/data/names.csv", path.format(tmp=tmp_path))
        )
        for door, status in (("/explain", 200), ("/queries", 201)):
            is_problem(client.post(door, json=bad), 422, "QueryError", detail, "/operators/0/table/path")
            answer = client.post(door, json=good)
            assert answer.status_code == status, answer.text


class TestStreams:
    def test_declare_list_and_inspect(self, client: httpx.Client) -> None:
        for _ in range(2):
            assert client.put("/streams/visits", json=STREAM_EXAMPLE).status_code == 200
        is_problem(client.put("/streams/visits", json=STREAM_EXAMPLE | {"disorder": "3s"}), 409, "Conflict", "visits@2")
        is_problem(client.put("/streams/other", json=STREAM_EXAMPLE), 422, "QueryError", "'visits' in the document", "/name")
        client.post("/queries?wait=true", json=QUERY_EXAMPLE)
        listed = {stream["name"]: stream for stream in client.get("/streams").json()}
        assert listed["visits"]["read_by"] == ["per-ip"] and listed["per_ip"]["fed_by"] == "per-ip"
        assert client.get("/streams/visits").json()["disorder"] == "2s"

    def test_a_stream_grows_and_says_what_is_no_growth(self, client: httpx.Client) -> None:
        columns = STREAM_EXAMPLE["schema"]
        client.post("/queries?wait=true", json=QUERY_EXAMPLE)
        more = STREAM_EXAMPLE | {"schema": [*columns, {"name": "price", "type": "float64?"}]}
        wide = QUERY_EXAMPLE | {"name": "wide", "streams": [more], "outputs": [{"stream": "wide", "input": "window"}]}
        assert "stream 'visits' gets price: float64?: NULL in rows" in client.post("/explain", json=wide).json()["text"]
        assert client.get("/streams/visits").json()["schema"] == columns
        assert client.put("/streams/visits", json=more).json()["schema"] == more["schema"]
        assert client.put("/streams/visits", json=STREAM_EXAMPLE).json()["schema"] == more["schema"]
        again = QUERY_EXAMPLE | {"name": "again", "outputs": [{"stream": "again", "input": "window"}]}
        assert "has more columns, which this query does not declare" in client.post("/explain", json=again).json()["text"]
        for query in (wide, again):
            assert client.post("/queries?wait=true", json=query).status_code == 201
        assert client.get("/streams/visits").json()["read_by"] == ["per-ip", "wide", "again"]
        bad = STREAM_EXAMPLE | {"schema": [*columns, {"name": "cost", "type": "float64?"}]}
        is_problem(client.put("/streams/visits", json=bad), 409, "Conflict", "declare price: float64?, and 'cost' behind all columns")

    def test_a_stream_is_deleted_when_nobody_reads_it(self, client: httpx.Client) -> None:
        is_problem(client.delete("/streams/visits"), 404, "NotFound", "there is no declared stream 'visits'")
        client.post("/queries?wait=true", json=QUERY_EXAMPLE)
        is_problem(client.delete("/streams/per_ip"), 404, "NotFound", "goes with its query")
        client.post("/streams/visits/publishers", json={"name": "p1", "endpoint": "ipc:///p1"})
        is_problem(client.delete("/streams/visits"), 409, "Conflict", "stream 'visits' is read by query 'per-ip', which is running")
        client.delete("/queries/per-ip?wait=true")
        is_problem(client.delete("/streams/visits"), 409, "Conflict", "stream 'visits' has an open publisher, 'p1'")
        client.delete("/streams/visits/publishers/p1")
        assert client.delete("/streams/visits").status_code == 204
        assert client.get("/streams").json() == []
        assert client.put("/streams/visits", json=STREAM_EXAMPLE | {"disorder": "3s"}).status_code == 200

    def test_publishers_learn_of_readers_as_they_come(self, client: httpx.Client) -> None:
        client.put("/streams/visits", json=STREAM_EXAMPLE)
        opened = client.post("/streams/visits/publishers", json={"name": "p1", "endpoint": "ipc:///p1"}).json()
        assert opened["readers"] == []
        with ThreadPoolExecutor() as pool:
            asked = pool.submit(client.get, f"/streams/visits/readers?after={opened['version']}&wait=30")
            client.post("/queries?wait=true", json=QUERY_EXAMPLE)
            seen = asked.result(HANG_S).json()
        assert seen["version"] != opened["version"]
        until(lambda: len(client.get("/streams/visits/readers").json()["readers"]) == 2)
        reader = client.get("/streams/visits/readers").json()["readers"][0]
        assert (reader["subquery"], reader["endpoint"], reader["channel"]) == ("SQ1", "ipc:///im-0", "per-ip/visits/>0")

    def test_a_long_poll_without_news_ends(self, client: httpx.Client) -> None:
        client.put("/streams/visits", json=STREAM_EXAMPLE)
        version = client.get("/streams/visits/readers").json()["version"]
        again = client.get(f"/streams/visits/readers?after={version}&wait=0.1").json()
        assert again == {"version": version, "readers": []}

    def test_the_last_publisher_ends_the_stream(self, client: httpx.Client) -> None:
        client.put("/streams/visits", json=STREAM_EXAMPLE)
        for name in ("p1", "p2", "p3"):
            client.post("/streams/visits/publishers", json={"name": name, "endpoint": f"ipc:///{name}"})
        assert client.delete("/streams/visits/publishers/p1").json() == {"last": False}
        assert client.delete("/streams/visits/publishers/p2").json() == {"last": False}
        assert client.delete("/streams/visits/publishers/p3?keep_open=true").json() == {"last": False}
        assert client.delete("/streams/visits/publishers/p3").json() == {"last": True}
        unknown = client.post("/streams/unknown/publishers", json={"name": "p1", "endpoint": "ipc:///p1"})
        is_problem(unknown, 404, "NotFound", "declare it")

    def test_a_publisher_closes_none_that_has_its_name_by_now(self, client: httpx.Client) -> None:
        client.put("/streams/visits", json=STREAM_EXAMPLE)
        for endpoint in ("ipc:///frozen", "ipc:///next"):
            client.post("/streams/visits/publishers", json={"name": "p1", "endpoint": endpoint})
        frozen, following = ({"stream": "visits", "name": "p1", "endpoint": f"ipc:///{each}"} for each in ("frozen", "next"))
        answer = {"others": ["p1"], "readers": [], "replaced": True}
        assert client.post("/publishers:close", json=[frozen]).json() == [answer]
        assert client.delete("/streams/visits/publishers/p1", params={"endpoint": "ipc:///frozen"}).json() == {"last": False}
        closed = {"others": [], "readers": [], "replaced": False}
        assert client.post("/publishers:close", json=[frozen, following]).json() == [closed, closed]
        client.post("/streams/visits/publishers", json={"name": "p1", "endpoint": "ipc:///next"})
        assert client.post("/publishers:close", json=[{"stream": "visits", "name": "p1"}]).json() == [closed]  # as older clients ask

    def test_a_publisher_that_stopped_asking_does_not_hold_the_stream_open(self, server: Server, client: httpx.Client) -> None:
        client.put("/streams/visits", json=STREAM_EXAMPLE)
        for name in ("lost", "quiet", "last"):
            client.post("/streams/visits/publishers", json={"name": name, "endpoint": f"ipc:///{name}"})
        client.get("/streams/visits/readers?publisher=lost")
        server.api.heard["visits", "lost"] -= VANISHED_S + 1
        assert client.delete("/streams/visits/publishers/last").json() == {"last": False}  # quiet has just opened
        assert [p["name"] for p in client.get("/streams/visits").json()["publishers"]] == ["quiet"]
        assert client.delete("/streams/visits/publishers/quiet").json() == {"last": True}

    def test_one_that_opens_again_while_the_vanished_are_closed_stays_open(self, server: Server, client: httpx.Client) -> None:
        client.put("/streams/visits", json=STREAM_EXAMPLE)
        for name in ("p1", "p2", "p3"):
            client.post("/streams/visits/publishers", json={"name": name, "endpoint": f"ipc:///{name}"})
            server.api.heard["visits", name] -= VANISHED_S + 1

        async def meanwhile() -> None:
            closing = asyncio.create_task(server.api.forget_vanished())
            await asyncio.sleep(0)  # it has asked for what has vanished
            await server.api.open_publishers([PublisherRecord("visits", "p3", "ipc:///elsewhere")])
            await closing

        asyncio.run(meanwhile())
        assert [(p["name"], p["endpoint"]) for p in client.get("/streams/visits").json()["publishers"]] == [("p3", "ipc:///elsewhere")]
        asyncio.run(server.api.forget_vanished())
        assert client.get("/streams/visits").json()["publishers"], "its lease is that of its opening"

    def test_one_that_vanished_with_an_orchestrator_vanishes_with_the_next(
        self, two: Cluster, server: Server, client: httpx.Client
    ) -> None:
        client.put("/streams/visits", json=STREAM_EXAMPLE)
        for name in ("gone", "mine"):
            client.post("/streams/visits/publishers", json={"name": name, "endpoint": f"ipc:///{name}"})
        two.close_service(two.services[0])
        service = two.add_service()
        reached(service, lambda state: len(state.publishers["visits"]) == 2)
        api = Api(service, server.metrics, GatewayProxy(None), two.config)
        asyncio.run(api.forget_vanished())
        assert service.ask(lambda state: list(state.publishers["visits"])).result(HANG_S) == ["gone", "mine"], "both may ask yet"
        service.since -= VANISHED_S + 1
        api.hear("visits", "mine")
        asyncio.run(api.forget_vanished())
        assert service.ask(lambda state: list(state.publishers["visits"])).result(HANG_S) == ["mine"]

    def test_subscriptions_before_deploy_reach_the_producers(self, two: Cluster, client: httpx.Client) -> None:
        terms = {"id": "s1", "endpoint": "ipc:///s1", "on_slow": "drop", "keep": 5}
        assert client.post("/streams/per_ip/subscriptions", json=terms).status_code == 201
        client.post("/queries?wait=true", json=QUERY_EXAMPLE)
        found = two.stand_ins["im-0"].assignments["per-ip~SQ2~0"]["subscriptions"]
        assert found == [{"stream": "per_ip", "id": "s1", "endpoint": "ipc:///s1", "on_slow": "drop", "keep_s": 5.0}]
        assert client.delete("/streams/per_ip/subscriptions/s1").status_code == 204

    def test_the_data_doors_say_that_they_are_closed(self, client: httpx.Client) -> None:
        is_problem(client.post("/streams/visits/records", json=[{"ip": "1"}]), 503, "ClusterError", "with the driver")
        is_problem(client.get("/streams/per_ip/answers?reader=a"), 503, "ClusterError", "with the driver")


class TestCluster:
    def test_health_topology_and_instance_managers(self, client: httpx.Client) -> None:
        health = client.get("/health").json()
        assert (health["role"], health["zookeeper"], health["instance_managers"]) == ("leader", "connected", 2)
        assert client.get("/topology").json()["nodes"][0]["cores"] == [0, 1]
        client.post("/queries?wait=true", json=QUERY_EXAMPLE)
        assert [(im["id"], im["instances"]) for im in client.get("/instance-managers").json()] == [("im-0", 2), ("im-1", 2)]

    def test_openapi_has_every_route_with_answers(self, client: httpx.Client) -> None:
        document = client.get("/openapi.json").json()
        assert {"/queries", "/queries/{name}", "/streams/{name}/readers", "/health", "/metrics"} <= document["paths"].keys()
        deploy = document["paths"]["/queries"]["post"]
        assert deploy["requestBody"]["content"]["application/json"]["examples"]["per ip"]["value"] == QUERY_EXAMPLE
        assert "QueryDetail" in json.dumps(deploy["responses"]["201"])
        for route, methods in document["paths"].items():
            for method, operation in methods.items():
                assert operation.get("description"), f"{method} {route}"

    def test_the_page_needs_no_other_host(self, client: httpx.Client) -> None:
        """Everything that it names is served here, and its policy lets the browser ask no other server."""
        page = client.get("/docs")
        assert "//" not in page.text and "default-src 'self'" in page.headers["content-security-policy"]
        assets = re.findall(r'(?:src|href)="([^"]+)"', page.text)
        assert len(assets) == 3 and [client.get(asset).status_code for asset in assets] == [200] * 3
        assert client.get("/redoc").status_code == 404

    def test_a_page_of_another_site_deploys_nothing(self, client: httpx.Client) -> None:
        """Neither by a form's type, nor under a name that has been pointed here."""
        body = json.dumps(QUERY_EXAMPLE).encode()
        page = {"Origin": "https://evil.example", "Content-Type": "text/plain"}
        is_problem(client.post("/queries", content=body, headers=page), 403, "Forbidden", "'https://evil.example'")
        rebound = {"Host": "evil.example:80", "Origin": "http://evil.example:80", "Content-Type": "application/json"}
        is_problem(client.post("/queries", content=body, headers=rebound), 403, "Forbidden", "'evil.example:80'")
        is_problem(
            client.post("/queries", content=body, headers={"Content-Type": "text/plain"}), 415, "UnsupportedMediaType", "'text/plain'"
        )
        assert client.get("/queries").json() == []

    def test_with_a_token_nothing_is_open_without_it(self, two: Cluster) -> None:
        config = ClusterConfig.from_json(two.config.to_json() | {"token": "secret"})
        server = Server(two.services[0], config)
        with server.client() as nobody, server.client(headers={"Authorization": "Bearer secret"}) as somebody:
            for path in ("/queries", "/queries/none", "/nowhere", "/openapi.json"):
                is_problem(nobody.get(path), 401, "Unauthorized", "Authorization: Bearer TOKEN")
            assert [somebody.get(path).status_code for path in ("/queries", "/openapi.json", "/queries/none")] == [200, 200, 404]
            assert nobody.get("/health").json() == {"role": "leader"} and somebody.get("/health").json()["queries"] == 0
            assert nobody.get("/queries", headers={"Authorization": "Bearer wrong"}).status_code == 401
        server.close()

    def test_a_port_in_use_is_named(self, two: Cluster) -> None:
        with listen(two.config) as taken:
            port = taken.getsockname()[1]
            config = ClusterConfig.from_json(two.config.to_json() | {"rest_port": port})
            with pytest.raises(ClusterError, match=f"port {port} of 127.0.0.1: Address already in use"):
                listen(config)


def report(epoch: int = 1, rows: int = 10, letters: int = 0, dead: int = 0) -> dict[str, Any]:
    own = {"query": "q", "subquery": "SQ1", "instance": 0, "epoch": epoch, "state": "running", "waits_for": "a publisher"}
    figures = {"rows_in": rows, "cpu_ns": 2_000_000_000, "watermark": 5_000_000, "state_bytes": None}
    operators = [{"name": 'say "hi"', "rows_in": rows, "rows_out": 1, "step": "operator"}]
    dropped = {"count": [["parse", dead]], "letters": [{"reason": str(i)} for i in range(letters)]}
    instance = own | figures | {"operators": operators, "dead_letters": dropped}
    return {"im": "im-0", "time": 0.0, "instances": [instance], "process": {"pid": 1, "cpu_ns": 10**9}}


class TestMetrics:
    def test_text_is_what_prometheus_reads(self) -> None:
        metrics = Metrics()
        metrics.take(report(dead=3), now=Now(100.0, 100.0))
        text = metrics.answer({"get": "metrics"}, now=Now(100.0, 100.0))["text"]
        labels = 'query="q",subquery="SQ1",instance="0",im="im-0"'
        assert f"# TYPE cep_rows_in_total counter\ncep_rows_in_total{{{labels}}} 10\n" in text
        assert f"cep_cpu_seconds_total{{{labels}}} 2.0\n" in text
        assert f"cep_watermark_lag_seconds{{{labels}}} 95.0\n" in text
        assert f'cep_operator_rows_in_total{{{labels},operator="say \\"hi\\"",step="operator"}} 10\n' in text
        assert f'cep_dead_letters_total{{{labels},operator="parse"}} 3\n' in text
        assert 'cep_process_cpu_seconds_total{im="im-0"} 1.0\n' in text
        assert "state_bytes" not in text  # none said any

    def test_the_last_letters_are_kept_and_counts_stay_exact(self) -> None:
        metrics = Metrics()
        metrics.take(report(letters=LETTERS_MAX, dead=LETTERS_MAX), now=Now(0.0, 0.0))
        metrics.take(report(letters=5, dead=LETTERS_MAX + 5), now=Now(1.0, 1.0))
        found = metrics.dead_letters("q")
        assert found["total"] == LETTERS_MAX + 5 and len(found["letters"]) == LETTERS_MAX
        assert found["letters"][-1] == {"reason": "4", "subquery": "SQ1", "instance": 0}

    def test_another_deployment_begins_at_nothing(self) -> None:
        metrics = Metrics()
        metrics.take(report(epoch=1, letters=2, dead=2), now=Now(0.0, 0.0))
        metrics.take(report(epoch=2, rows=1), now=Now(1.0, 1.0))
        assert metrics.dead_letters("q") == {"counts": {"parse": 0}, "total": 0, "letters": []}

    def test_who_is_silent_for_long_is_forgotten(self) -> None:
        metrics = Metrics()
        metrics.take(report(letters=1, dead=1), now=Now(0.0, 0.0))
        metrics.take({"im": "im-1", "instances": []}, now=Now(SILENT_S_MAX + 1, SILENT_S_MAX + 1))
        assert metrics.answer({"get": "query", "query": "q"}, now=Now(0.0, 0.0)) == {"instances": []}
        assert metrics.letters == {}

    def test_nonsense_is_answered_with_what_was_expected(self) -> None:
        assert "expected" in Metrics().answer({"get": "lost"}, now=Now(0.0, 0.0))["error"]

    def test_the_process_serves_rest(self, two: Cluster, client: httpx.Client, tmp_path: Path) -> None:
        is_problem(client.get("/metrics"), 503, "ClusterError", "the metric server does not answer")
        command = [sys.executable, "-m", "orchestrator.metrics.server", argument(two.config)]
        server = subprocess.Popen(command, cwd=ROOT)
        try:
            body = client.post("/queries?wait=true", json=QUERY_EXAMPLE).json()
            message = wire.to_json(report(epoch=body["epoch"], letters=1, dead=1)).replace(b'"q"', b'"per-ip"')
            with contextlib.closing(open_sockets(f"ipc://{tmp_path}/im")) as sockets:
                for header, body in ((Header(wire.BEAT, 0), b""), (Header(wire.REPORT, 0), b"nonsense"), (Header(wire.REPORT, 0), message)):
                    sockets.send(two.config.metrics_in, header, body)
                until(lambda: sockets.park(10) or 'cep_rows_in_total{query="per-ip"' in client.get("/metrics").text)
            assert client.get("/queries/per-ip/dead-letters").json()["letters"][0]["reason"] == "0"
            assert client.get("/queries/per-ip").json()["placed"][0]["waits_for"] == "a publisher"
        finally:
            server.terminate()
            assert server.wait(HANG_S) == 0
