"""A cluster that logs in JSON: every line of every process is a document, and a failing query's names query and instance."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

from cep.errors import CepError
from driver import LocalCluster
from tests.support.visits import answers, expected, rows, windows
from tests.support.waiting import until


def lines(home: str) -> dict[str, list[dict[str, Any]]]:
    """Of each log, but ZooKeeper's, which is not ours."""
    logs = (path for path in Path(home).glob("*.log") if path.stem != "zookeeper")
    return {path.stem: [json.loads(line) for line in path.read_text().splitlines()] for path in logs}


def test_a_failing_query_and_a_death_are_named(cluster: LocalCluster) -> None:
    """The query is at its own limit; another on the same instance manager goes on."""
    cluster.deploy(windows("modest", parallelism=1))
    running, found = cluster.deploy(windows("greedy", parallelism=1, state_bytes_max=1000)), cluster.subscribe("modest.per_ip")
    with suppress(CepError), cluster.publisher("greedy.visits") as out:  # it may hear of it
        out.send(rows(4000, groups=1000))
    until(lambda: running.status()["state"] == "failed")
    cause = running.status()["cause"]["cause"]
    assert "operator 'window': its state of" in cause and "panes open from the window ending" in cause and "ip='10.0.0." in cause
    with cluster.publisher("modest.visits") as out:
        out.send(given := rows(100))
    assert answers(found) == expected(given)

    [failed] = until(lambda: [line for line in lines(cluster.home)["im-0"] if line["level"] == "ERROR" and line.get("query") == "greedy"])
    assert failed["process"] == "im-0" and failed["instance"].startswith("SQ")
    assert "over the limit of 1000 bytes" in failed["message"] and "StateLimitExceeded" in failed["exception"]

    before = len(lines(cluster.home).get("supervisor", ()))
    os.kill(dict(cluster.processes())["im-0"], signal.SIGKILL)
    [died] = until(lambda: lines(cluster.home).get("supervisor", [])[before:])
    assert died["child"] == "im-0" and "SIGKILL" in died["message"]
    # The mark of the operator at work may still stand when the death is looked at: then the line has its query.
    assert died.get("query", "modest") == "modest"
    assert {line["process"] for name, found in lines(cluster.home).items() for line in found} >= {"im-0", "supervisor"}
