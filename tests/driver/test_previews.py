"""What a query would answer, what has happened, and what a query does: previews, history and flame graphs by REST, on a real cluster.

Tests `previews.py`, `orchestrator/rest/looking/preview_routes.py`, `orchestrator/rest/looking/history_routes.py`.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace
from typing import Any

import pytest

from cep.errors import CepError, Conflict, NotFound, QueryError
from cep.model.query import Options, Output, Query
from cep.model.sinks import ParquetSink
from driver import LocalCluster
from orchestrator.rest.looking.preview_routes import previewed
from tests.support.paths import ROOT
from tests.support.visits import copies, rows
from tests.support.waiting import until


def test_a_preview_answers_beside_what_runs(cluster: LocalCluster) -> None:
    running = cluster.deploy(copies("q"))
    with cluster.preview(copies("q")) as preview:
        assert preview.streams == {"q.all": f"{preview.name}.q.all"}
        assert preview.rows(wait_s=0.1) == []  # from now on
        with cluster.publisher("q.visits", keep_open=True) as out:
            until(lambda: [each["query"] for each in cluster.rest.get("/streams/q.visits/readers")["readers"]].count(preview.name))
            out.send(rows(3))
            found = until(lambda: preview.rows("q.all"))
        assert [row["ip"] for row in found or ()] == ["10.0.0.0", "10.0.0.1", "10.0.0.2"]
        [line] = [each for each in cluster.queries() if each["name"] == preview.name]
        assert (line["lease_s"], running.status()["lease_s"]) == (60.0, 0.0)
        with pytest.raises(NotFound, match=r"has no stream 'other'; it has q\.all"):
            preview.rows("other")
    until(lambda: preview.name not in {each["name"] for each in cluster.queries()})
    with pytest.raises(NotFound):
        preview.rows()
    with pytest.raises(Conflict, match="query 'q' is no preview"):
        cluster.rest.get("/preview/q/answers")
    assert running.status()["state"] == "running"


def test_what_is_wrong_with_it_is_said_as_for_one_that_is_deployed(cluster: LocalCluster) -> None:
    document = copies("wrong").to_json()
    document["operators"][0]["input"] = "nothing"
    with pytest.raises(QueryError) as wrong:
        cluster.preview(document)
    assert wrong.value.pointer.startswith("/operators/0")


def test_a_preview_writes_no_files_and_does_not_recover() -> None:
    query = replace(copies("q").value(), options=Options(recover="on-commit"), late="too_late")
    written = replace(query, outputs=(Output("q.all", "pick", ParquetSink("/data/out")),))
    alone, streams = previewed(written, "p")
    assert alone == Query("p", query.streams, query.operators, (Output("p.q.all", "pick"),), "p.too_late", Options(recover="off"))
    assert streams == {"q.all": "p.q.all"}


def test_history(cluster: LocalCluster) -> None:
    cluster.deploy(copies("old"))
    figures = until(lambda: cluster.history()["figures"]["times"] and cluster.history()["figures"])
    assert {len(figures[name]) for name in figures if name != "step_s"} == {len(figures["times"])}
    events = cluster.history("old")["events"]
    assert {each["about"] for each in events} == {"old"}
    assert {"deploying", "ready", "running"} <= {each["what"] for each in events if each["kind"] == "query"}
    asked = until(lambda: [each for each in cluster.history("old")["events"] if each["kind"] == "asked"])
    assert [(each["what"], each["token"], each["status"]) for each in asked] == [("deploy", "", 201)]
    assert [each["at"] for each in events] == sorted(each["at"] for each in events)
    assert len(cluster.history("old", last=2)["events"]) == 2


def test_the_page_of_the_console_says_how(cluster: LocalCluster) -> None:
    [program] = re.findall(r"```python\n(.*?)```", (ROOT / "docs/console.md").read_text(), re.DOTALL)
    defined: dict[str, Any] = {}
    exec(program, defined)
    query = replace(copies("q").value(), name="per-ip", outputs=(Output("per-ip.all", "pick"),))
    cluster.deploy(query)
    with contextlib.suppress(CepError):  # a machine that lets nobody look into processes
        assert isinstance(defined["look"](cluster, query), dict)


def test_flame_graphs(cluster: LocalCluster) -> None:
    running = cluster.deploy(copies("hot"), start=False)
    with pytest.raises(Conflict, match="query 'hot' is ready, and nothing of it can be seen at work"):
        running.flame(1)
    running.start()
    try:
        pictures = running.flame(1)
    except CepError as error:  # a machine that lets nobody look into processes
        assert "sysctl kernel.yama.ptrace_scope" in str(error) or "py-spy" in str(error)
        return
    assert pictures.keys() <= {"im-0", "im-1"}  # one that did nothing has none
    assert all("<svg" in picture for picture in pictures.values())
