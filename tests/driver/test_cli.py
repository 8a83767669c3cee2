"""The `cep` command against a real cluster: what one does with a query from its deployment to its end, and with rows; the page
docs/command_line.md does what it says.

Tests `cli.py`, `driver/rows/stream_commands.py`, `driver/rows/publishing.py`.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cep.errors import CepError, Conflict, NotFound
from driver import TIME, LocalCluster, Query, col, count, event, row, stream
from driver.cli import app
from driver.rows.stream_commands import stream_flow
from tests.support.paths import ROOT
from tests.support.waiting import HANG_S, until

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
        program = [sys.executable, "-P", "-c", "from driver.processes.command_line import main; main()"]
        return subprocess.run([*program, words[0], "--url", cluster.rest.url, *words[1:]], stderr=subprocess.DEVNULL).returncode

    (tmp_path / "twice.json").write_text(json.dumps(TWICE.to_json()))
    assert f"drawn: {tmp_path / 'drawn' / 'again'}.svg" in cep("explain", str(tmp_path / "twice.json"), "--draw", str(tmp_path / "drawn"))
    assert (tmp_path / "drawn" / "again.svg").read_text() == cluster.pictures(TWICE)["again"]
    planned = cep("explain", str(document))
    assert "running" in cep("deploy", str(document))
    assert status_of("deploy", str(document)) == 1  # there is one of that name
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
    for name in ("quotients", "q" * 1000):  # a query's name may be longer than a file's
        with pytest.raises(NotFound, match=f"no query '{name}'"):
            cep("explain", name)


VISITS = stream("visits", ip=str, ts="timestamp[ms]", event_time="ts", disorder="0s")
PER_MINUTE = Query("per-minute").source(VISITS).aggregate("window", TIME("1m"), by="ip", visits=count()).output("per_minute")
FIRST_MS = 1_700_000_000_000


def commands_of_the_page() -> dict[str, list[str]]:
    """Command -> the lines that it prints."""
    found: dict[str, list[str]] = {}
    for block in re.findall(r"```\n(\$ .*?)```", (ROOT / "docs/command_line.md").read_text(), re.DOTALL):
        for command in filter(None, block.split("$ ")):
            first, *lines = command.splitlines()
            found[first] = lines
    return found


def test_the_page(cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """Its commands in one process, those that tail in threads of their own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CEP_URL", cluster.rest.url)
    page, said = commands_of_the_page(), [""]

    def cep(command: str) -> str:
        app(command.split()[1:], standalone_mode=False)
        said[0] += capfd.readouterr().out
        return said[0]

    def is_read(query: str) -> bool:
        """By a subscriber, as every one of its instances has reported."""
        found = [each for each in cluster.figures()["instances"] if each["query"].startswith(query) and each["subquery"] != "SQ1"]
        return bool(found) and all(each["subscriptions"] for each in found)

    cluster.deploy(PER_MINUTE)
    (tmp_path / "visits.jsonl").write_text("".join(f'{{"ip": "10.0.0.1", "ts": {FIRST_MS + i}}}\n' for i in range(3)))
    publish, streams, *tails = [command for command in page if not command.startswith("cep logs")]
    cep(publish)
    until(lambda: all(line in cep(streams) for line in page[streams]))
    threads = [threading.Thread(target=app, args=[command.split()[1:]], kwargs={"standalone_mode": False}) for command in tails]
    for thread in threads:
        thread.start()
    until(
        lambda: is_read("per-minute") and any(each["name"].startswith("tail-") and each["state"] == "running" for each in cluster.queries())
    )
    with cluster.publisher("visits") as out:
        out.send([{"ip": "10.0.0.1", "ts": FIRST_MS + 1000}])
    for thread in threads:
        thread.join(HANG_S)
    assert [each["name"] for each in cluster.queries()] == ["per-minute"]
    cep("cep logs orchestrator -n 20")
    missing = {command: [line for line in lines if line not in said[0].splitlines()] for command, lines in page.items()}
    assert not any(lines for command, lines in missing.items() if command != streams), said[0]


def test_rows_that_do_not_fit_are_named_and_the_others_sent(cluster: LocalCluster, tmp_path: Path) -> None:
    def cep(*words: str, lines: bytes = b"") -> tuple[int, str]:
        found = CliRunner().invoke(app, [words[0], "--url", cluster.rest.url, *words[1:]], input=lines)
        return found.exit_code, str(found.exception) if isinstance(found.exception, CepError) else found.output

    file = tmp_path / "rows.csv"
    file.write_text('ts,ip\n2023-11-14T22:13:20Z,"a,b"\nsoon,c\n,d\n1700000000001,e,f\n1700000000002,g\n')
    running = cluster.deploy(Query("passed-on").source(VISITS).output("passed"), start=False)
    with running.subscribe("passed") as answers:
        running.start()
        status, said = cep("publish", "visits", str(file), "--keep-open")
        assert status == 1 and said.splitlines()[-1] == "visits: 2 rows sent, 3 refused; the stream has not ended"
        for line, why in ((3, "'soon': expected an instant"), (4, "the row has no 'ts'"), (5, "expected 2 fields, got 3")):
            assert re.search(rf"error: {re.escape(str(file))}:{line}: .*{why}", said), said
        rest = b'{"ip": "h", "ts": 1700000000003}\n{"ip": 5, "ts": 1}\n\n{"ip": "i", "ts": 1700000000004}'
        status, said = cep("publish", "visits", "-", lines=rest)
        assert status == 1 and "<stdin>:2: stream 'visits', field ip: string: expected a text, got int 5\n" in said
        assert running.status()["state"] == "running"
        assert cep("publish", "visits", "-") == (0, "visits: 0 rows sent\n")
        assert sorted(row["ip"] for batch in answers for row in batch.to_pylist()) == ["a,b", "g", "h", "i"]  # and the stream has ended
    assert cep("publish", "visit", str(file))[1].endswith("(did you mean 'visits'?)")
    assert cep("tail", "visit")[1].endswith("(did you mean 'visits'?)")
    assert cep("delete", "visit", "--stream")[1].endswith("(did you mean 'visits'?)")
    assert "(did you mean 'passed-on'?); there is" in cep("stop", "pased-on")[1]
    assert "line 1: no column 'when'" in cep("publish", "visits", "-", "--format", "csv", lines=b"when\n")[1]


def test_the_flow_of_a_stream_is_that_of_the_query_which_has_most() -> None:
    def instance(query: str, step: str, rows: int, watermark: int | None) -> dict[str, object]:
        return {"query": query, "watermark": watermark, "operators": [{"name": "s", "step": step, "rows_in": rows}]}

    found = [instance("a", "read", 3, 5), instance("b", "read", 4, 9), instance("b", "read", 2, 7), instance("a", "output", 9, 1)]
    figures = {"instances": found}
    known = {"name": "s", "fed_by": None, "read_by": ["a", "b"]}
    assert stream_flow(known, figures) == {"rows": 6, "watermark": "1970-01-01T00:00:00.000007+00:00"}
    assert stream_flow(known | {"fed_by": "a"}, figures)["rows"] == 9
    assert stream_flow(known | {"read_by": []}, figures) == {"rows": None, "watermark": None}
    found[2]["watermark"] = None
    assert stream_flow(known, figures) == {"rows": 6, "watermark": None}
