"""The `cep` command against a real cluster: what one does with a query from its deployment to its end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cep.errors import Conflict, NotFound
from driver import LocalCluster, Query, col, event, row, stream
from driver.cli import app
from tests.support.waiting import until

READINGS = stream("readings", n="int64?", ts="timestamp[ms]?", event_time="ts", disorder="0s")
TWICE = (
    Query("twice")
    .source(READINGS)
    .pattern("again", event("a", col("n") > 0).then(event("b", col("n") > 1)), within="1s", measures={"n": row("b")["n"]})
    .output("twice.out")
)
QUOTIENTS = Query("quotients").source(READINGS).map("divide", ts=col("ts"), q=12 // col("n")).output("quotients.out")


def test_from_deploy_to_delete(cluster: LocalCluster, tmp_path: Path) -> None:
    document = tmp_path / "query.json"
    document.write_text(json.dumps(QUOTIENTS.to_json()))

    def cep(*words: str) -> str:
        found = CliRunner().invoke(app, [words[0], "--url", cluster.rest.url, *words[1:]])
        if found.exception is not None:
            raise found.exception
        return found.output

    def status_of(*words: str) -> int:
        """The exit status of the command as the shell has it."""
        program = [sys.executable, "-P", "-c", "from driver.cli import main; main()"]
        return subprocess.run([*program, words[0], "--url", cluster.rest.url, *words[1:]], stderr=subprocess.DEVNULL).returncode

    (tmp_path / "twice.json").write_text(json.dumps(TWICE.to_json()))
    assert f"drawn: {tmp_path / 'drawn' / 'again'}.svg" in cep("explain", str(tmp_path / "twice.json"), "--draw", str(tmp_path / "drawn"))
    assert (tmp_path / "drawn" / "again.svg").read_text() == cluster.pictures(TWICE)["again"]
    planned = cep("explain", str(document))
    assert "running" in cep("deploy", str(document))
    assert status_of("deploy", str(document)) == 1  # there is one of that name
    assert status_of("status") == 0
    assert cep("explain", "quotients") == planned
    with cluster.publisher("readings", name="meter", keep_open=True) as out:
        out.send([{"n": 3, "ts": 1000}, {"n": 0, "ts": 2001}, {"n": 4, "ts": None}, {"n": 5, "ts": 1}])
    until(lambda: cluster.query("quotients").dead_letters()["total"] == 2)
    said = cep("status")
    assert "quotients: 1 late row, further behind" in said and "quotients: 2 dead letters; `cep dead-letters quotients`" in said
    letters = json.loads(cep("dead-letters", "quotients", "--json"))["letters"]
    assert {letter["source"] for letter in letters} == {"stream 'readings', publisher 'meter'"}
    assert "event time 1970-01-01T00:00:02.001Z" in {letter["position"] for letter in letters}
    assert "n=0, ts=2001000" in {letter["record"] for letter in letters}
    table = cep("dead-letters", "quotients")
    assert table.startswith("2 dead letters: ") and "integer division by zero" in table and "event time is NULL" in table
    assert 'cep_dead_letters_total{query="quotients"' in cep("metrics")
    with pytest.raises(Conflict, match="stream 'readings' is read by query 'quotients', which is running"):
        cep("delete", "readings", "--stream")
    assert cep("delete", "quotients") == "quotients: deleted\n"
    assert cep("delete", "readings", "--stream") == "readings: deleted\n"
    with pytest.raises(NotFound, match="no query 'quotients'"):
        cep("explain", "quotients")
