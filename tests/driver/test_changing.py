"""`cep move`, `cep scale` and `cep upgrade` of a query that runs and recovers, on a real cluster; and what they refuse before they ask."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cep.errors import CepError, Conflict, QueryError
from driver import TIME, LocalCluster, Query, count, max_, stream, sum_
from driver.cli import app
from tests.support.waiting import until

ROWS = stream("changing.in", t="timestamp[ms]", k=int, n=int, event_time="t", disorder="0s")


def query(*functions: str, by: str = "k") -> Query:
    asked = {"rows": count(), "greatest": max_("n")}
    made = Query("changing").source(ROWS).aggregate("first", TIME("10ms"), {name: asked[name] for name in functions}, by=by)
    made = made.aggregate("all", TIME("100ms"), rows=sum_("rows")).output("changing.out")
    sizes = {"SQ1": 1, "SQ2": 1, "SQ3": 1}
    return made.options(recover="on-commit", checkpoint="200ms", parallelism=sizes, pre_aggregation="off")


def asked(url: str, *words: str) -> Result:
    return CliRunner().invoke(app, [words[0], "--url", url, *words[1:]])


def cep(cluster: LocalCluster, *words: str) -> str:
    found = asked(cluster.rest.url, *words)
    if found.exception is not None:
        raise found.exception
    return str(found.output)


def rows_in(cluster: LocalCluster, operator: str) -> int:
    """Of all its instances, as last reported."""
    own = (each for each in cluster.figures()["instances"] if each["query"] == "changing")
    return sum(step["rows_in"] for each in own for step in each["operators"] if step["name"] == operator)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("move", "q", "SQ2", "im-1"), "expected an instance as `cep status` names it, such as SQ2/0, got 'SQ2'"),
        (("move", "q", "SQ2/x", "im-1"), "such as SQ2/0, got 'SQ2/x'"),
        (("scale", "q", "SQ2=3", "SQ3=two"), "such as SQ2=4, got 'SQ3=two'"),
        (("upgrade", "/nowhere.json"), "/nowhere.json: No such file or directory"),
    ],
)
def test_what_is_written_wrongly_is_refused_before_a_cluster_is_asked(words: tuple[str, ...], said: str) -> None:
    refused = asked("http://127.0.0.1:1", *words).exception
    assert type(refused) is CepError and said in str(refused)


def test_a_query_is_scaled_moved_and_upgraded_while_it_runs(cluster: LocalCluster, tmp_path: Path) -> None:
    running = cluster.deploy(query("rows", "greatest"))
    answers = running.subscribe("changing.out")
    until(lambda: running.status()["recovery"]["checkpoints"]["last"])
    assert cep(cluster, "scale", "changing", "SQ2=2") == "changing: SQ2 has 2 instances\n"
    placed = {(each["subquery"], each["instance"]): each["im"] for each in running.status()["placed"]}
    assert set(placed) == {("SQ1", 0), ("SQ2", 0), ("SQ2", 1), ("SQ3", 0)}
    with pytest.raises((Conflict, QueryError), match="SQ9"):
        cep(cluster, "scale", "changing", "SQ9=2")
    there = "im-1" if placed["SQ2", 0] == "im-0" else "im-0"
    assert cep(cluster, "move", "changing", "SQ2/0", there) == f"changing: SQ2/0 is on {there}\n"
    other, fewer = tmp_path / "other.json", tmp_path / "fewer.json"
    other.write_text(json.dumps(query("rows", by="n").to_json()))
    fewer.write_text(json.dumps(query("rows").to_json()))
    refused = asked(cluster.rest.url, "upgrade", "--dry-run", str(other))
    assert refused.exit_code == 1 and "first" in refused.output
    told = cep(cluster, "upgrade", "--dry-run", str(fewer))
    assert "first" in told and len(running.status()["document"]["operators"][0]["functions"]) == 2
    assert cep(cluster, "upgrade", str(fewer)) == told
    until(lambda: running.status()["state"] == "running")
    assert list(running.status()["document"]["operators"][0]["functions"]) == ["rows"]
    with cluster.publisher("changing.in") as out:
        out.send([{"t": t, "k": t % 2, "n": t} for t in range(5)])
        until(lambda: rows_in(cluster, "first") == 5)
        told = cep(cluster, "upgrade", "--dry-run", "--fresh", str(other))
        assert 'begins with none  operator \'first\': its by was ["k"], and is ["n"]' in told
        assert "keeps its state   operator 'all'" in told
        assert cep(cluster, "upgrade", "--fresh", str(other)) == told
        out.send([{"t": t, "k": t % 2, "n": t} for t in range(5, 8)])
    assert [row["rows"] for batch in answers for row in batch.to_pylist()] == [3], "of the window that was open, the rows from then on"
