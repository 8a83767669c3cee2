"""An operator that holds its instance manager, or ends it: what is shown meanwhile, what is blamed, and that others go on."""

from __future__ import annotations

import time

import pytest

from driver import Conflict, LocalCluster, Publisher, Query, Running, col, stream, udf
from driver.processes.health import reports_at, troubles
from tests.support.functions_of_scripts import poisoned
from tests.support.one_cluster import HOLD_S
from tests.support.visits import rows
from tests.support.waiting import until


def query(name: str) -> Query:
    source = stream(f"{name}.texts", text=str, ts="timestamp[ms]", event_time="ts", disorder="0s")
    return Query(name).source(source).map("poison", text=udf(poisoned)(col("text"))).output(f"{name}.out")


def poison(cluster: LocalCluster, name: str, text: str) -> tuple[Running, Publisher]:
    """Nothing waits for what it does."""
    running = cluster.deploy(query(name))
    out = cluster.publisher(f"{name}.texts")
    out.send([{"text": text, "ts": row["ts"]} for row in rows(1)])
    return running, out


def lines(cluster: LocalCluster) -> list[str]:
    """What `cep status` says of the cluster's processes, without an orchestrator."""
    return troubles(reports_at(cluster.rest.url), time.time())


def cause(running: Running) -> str:
    status = until(lambda: (found := running.status())["state"] == "failed" and found)
    return str(status["cause"]["cause"])


@pytest.mark.parametrize("text", [pytest.param("turn", marks=pytest.mark.long), "backtrack"])
def test_what_holds_an_instance_manager_is_shown_and_then_ended(cluster: LocalCluster, text: str) -> None:
    running, out = poison(cluster, text, text)
    held = until(lambda: next((line for line in lines(cluster) if "held for" in line), ""))
    assert f"by operator 'poison' (SQ1/0 of query {text!r}); ended at {HOLD_S:g} s" in held
    assert f"was ended, for operator 'poison' (SQ1/0 of query {text!r}) had held it for" in cause(running)
    out.close()
    running.delete()


@pytest.mark.long
def test_a_query_that_ends_its_instance_managers_is_refused_at_last(cluster: LocalCluster) -> None:
    for _ in range(3):
        other = cluster.deploy(query("other"))
        running, out = poison(cluster, "crash", "crash")
        for failed in (running, other):
            assert cause(failed).endswith("was killed by SIGSEGV, at operator 'poison' (SQ1/0 of query 'crash')")
            failed.delete()
        out.close()
        until(lambda: cluster.instance_managers())
    with pytest.raises(Conflict, match="query 'crash' is refused: it has ended 3 instance managers"):
        cluster.deploy(query("crash"))
    assert cluster.deploy(query("other")).status()["state"] == "running"
