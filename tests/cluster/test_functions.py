"""Users' functions in the real cluster: of a module it was started with, and of another file, as of a script."""

from __future__ import annotations

from typing import Any

import pytest

from driver import TIME, LocalCluster, Query, QueryError, QueryFailed, aggregate_function, col, count, stream, udf
from tests.support import functions_of_users as functions
from tests.support.functions_of_scripts import BONUS, Greatest, rewarded
from tests.support.waiting import until

BASE_MS = 1_700_000_000_000


def visits(name: str) -> Query:
    return Query(name).source(stream(f"{name}.visits", ip=str, n=int, ts="timestamp[ms]", event_time="ts", disorder="2s"))


def test_all_kinds_in_one_query(cluster: LocalCluster) -> None:
    query = (
        visits("all")
        .map("m", ip=col("ip"), n=col("n"), ratio=udf(rewarded)(udf(functions.ratio)(12, col("n"))), loud=udf(functions.shout)(col("ip")))
        .apply("twice", functions.doubled, ["ip", "n"], {"ip": str, "twice": int})
        .stateful_function("rises", functions.rising, "twice", {"n": int, "times": int}, by="ip", ttl=None)
        .output("rising")
        .at("m")
        .aggregate("w", TIME("10s"), by="loud", rows=count(), best=aggregate_function(Greatest, "ratio", returns=float))
        .output("best")
    )
    running = cluster.deploy(query)
    rises, best = running.subscribe("rising"), running.subscribe("best")
    given = [("a", 3), ("a", 0), ("a", 4), ("b", 6), ("b", 13), ("b", 5), ("a", 6)]
    with cluster.publisher("all.visits") as out:
        out.send([{"ip": ip, "n": n, "ts": BASE_MS + k} for k, (ip, n) in enumerate(given)])
    assert [row for batch in rises for row in batch.to_pylist()] == [{"n": 8, "times": 1}, {"n": 12, "times": 2}]
    found = {row["loud"]: (row["rows"], row["best"]) for batch in best for row in batch.to_pylist()}
    assert found == {"A!": (3, 4.5), "B!": (3, 12 / 5 + BONUS)}
    assert {operator: n for operator, n in running.dead_letters()["counts"].items() if n} == {"m": 1, "twice": 1}


def test_status_says_what_is_slow(cluster: LocalCluster) -> None:
    running = cluster.deploy(visits("slow").map("m", loud=udf(functions.shout)(col("ip")), r=udf(functions.ratio)(1, 2)).output("louder"))

    def notes() -> Any:
        return (running.status()["placed"][0]["metrics"] or {}).get("notes")

    (note,) = until(notes)
    assert note.startswith("operator 'm': function 'tests.support.functions_of_users:shout' runs row by row as plain Python")


def test_functions_of_other_modules_do_not_run(cluster: LocalCluster) -> None:
    with pytest.raises(QueryError, match=r"was not started with module 'os'.*cep up --module os") as caught:
        cluster.deploy(visits("other").map("m", x=col("n") + udf("os:getpid", int)()).output("pids"))
    assert caught.value.pointer == "/operators/0/fields/x/args/1/udf"
    with pytest.raises(QueryError, match="was not started with module 'shutil'") as caught:
        cluster.deploy(visits("other").apply("a", "shutil:rmtree", "ip", {"ip": str}).output("gone"))
    assert caught.value.pointer == "/operators/0/function"


def test_a_function_that_is_not_there_is_the_querys_cause(cluster: LocalCluster) -> None:
    with pytest.raises(QueryFailed, match=r"there is no 'nothing' in module 'tests.support.functions_of_users'"):
        cluster.deploy(visits("missing").map("m", x=udf("tests.support.functions_of_users:nothing", int)()).output("nothing"))
