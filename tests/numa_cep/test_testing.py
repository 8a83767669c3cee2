"""The harness for users' tests: what it says of a query is what a cluster would."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cep.model.streams import Stream
from numa_cep import (
    SIZE,
    TIME,
    UNBOUNDED,
    ClusterError,
    Conflict,
    DataError,
    NotFound,
    Query,
    QueryError,
    QueryFailed,
    aggregate_function,
    col,
    count,
    files,
    last,
    now,
    stream,
    sum_,
    testing,
    udf,
)


def at(second: float) -> datetime:
    return datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=second)


def reading(key: str, second: float, n: int = 1) -> dict[str, Any]:
    return {"k": key, "t": at(second), "n": n}


def readings(name: str = "readings", **declared: Any) -> Stream:
    return stream(name, k=str, t="timestamp[us]", n=int, event_time="t", **{"disorder": "0s"} | declared)


def per_key(source: Stream | str, window: Any = None) -> Query:
    return Query("per-key").source(source).aggregate("sum", window or TIME("10s"), by="k", n=sum_("n")).output("sums")


def twice(n: int) -> int:
    return 2 * n


class Broken:
    """Cannot be made."""

    def __init__(self) -> None:
        raise RuntimeError("no such table")

    def init(self) -> int:
        return 0

    def add(self, state: int, n: int) -> int:
        return state + n

    def result(self, state: int) -> int:
        return state


# --- rows in, answers out --------------------------------------------------------------------------------------------


def test_a_window_has_its_answer_when_no_row_of_it_can_come() -> None:
    with testing.run(per_key(readings(disorder="2s"))) as run:
        assert run.send("readings", [reading("a", 1), reading("a", 11)]) == 2
        assert run.answers("sums") == []
        run.send("readings", reading("b", 12))  # and 2 s of disorder
        assert run.answers("sums") == [{"k": "a", "n": 1}]
        assert run.answers("sums") == []
        run.close("readings")
        assert sorted(row["k"] for row in run.answers("sums")) == ["a", "b"]


def test_answers_have_their_event_time_where_it_is_asked_for() -> None:
    with testing.run(per_key(readings())) as run:
        run.send("readings", [reading("a", 1)])
        run.close()
        assert run.answers("sums", event_time="at") == [{"k": "a", "n": 1, "at": at(10) - timedelta(microseconds=1)}]
        with pytest.raises(QueryError, match="has a column 'n' of its own"):
            run.answers("sums", event_time="n")


def test_the_end_of_event_time_has_no_instant() -> None:
    """A row that waited for a partner to the very end; a partial window."""
    alone = Query("alone").source(readings()).join("join", readings("others"), on="k", ttl=None, how="left", prefix="o_").output("both")
    with testing.run(alone) as run:
        run.send("readings", [reading("a", 1), reading("b", 2)])
        run.send("others", [reading("b", 3)])
        run.close()
        assert [(row["k"], row["event_time"]) for row in run.answers("both", event_time=True)] == [("b", at(3)), ("a", None)]
    with testing.run(per_key(readings(), SIZE(2, emit_partial=True))) as run:
        run.send("readings", [reading("a", 1), reading("a", 2), reading("a", 3)])
        run.close()
        assert run.answers("sums", event_time="at") == [{"k": "a", "n": 2, "at": at(2)}, {"k": "a", "n": 1, "at": None}]


def grown(**more: str) -> Stream:
    return stream("readings", {"k": str, "t": "timestamp[us]", "n": int, **more}, event_time="t", disorder="0s")


def test_an_instant_of_no_year_of_python_is_the_text_that_rest_has() -> None:
    """Before, Python's OverflowError."""
    far = stream("far", v=str, many="list<timestamp[s]>")
    query = Query("far").source(far).map("m", v=col("v").cast("timestamp"), many=col("many")).output("out")
    rows = [{"v": "9999-12-31T23:59:59-23:59", "many": [0, -(10**12), None]}, {"v": "2024-01-01", "many": []}]
    first, second = testing.answers(query, {"far": rows})["out"]
    assert first == {"v": "+010000-01-01T23:58:59+00:00", "many": [datetime(1970, 1, 1, tzinfo=UTC), "-029719-04-05T22:13:20+00:00", None]}
    assert second == {"v": datetime(2024, 1, 1, tzinfo=UTC), "many": []}


@pytest.mark.parametrize("turned", [False, True])
def test_a_stream_that_one_query_knows_more_of(turned: bool) -> None:
    old = Query("old").source(grown()).map("rows", k=col("k"), n=col("n")).output("old_rows")
    new = Query("new").source(grown(price="int64?")).map("rows", k=col("k"), price=col("price")).output("new_rows")
    with testing.run(*((new, old) if turned else (old, new)), instances=2) as run:
        run.send("readings", [reading("a", 1), reading("b", 2) | {"price": 7}])
        run.close()
        assert run.answers("old_rows") == [{"k": "a", "n": 1}, {"k": "b", "n": 1}]
        assert run.answers("new_rows") == [{"k": "a", "price": None}, {"k": "b", "price": 7}]


def test_a_stream_that_is_declared_in_two_ways(tmp_path: Path) -> None:
    one = Query("one").source(grown()).map("rows", k=col("k")).output("one_rows")
    read = files("readings", k=str, t="timestamp[us]", n=int, event_time="t", disorder="0s", paths=str(tmp_path / "*.csv"))
    for other in (grown(price="int64"), readings(disorder="1s"), read):
        two = Query("two").source(other).map("rows", k=col("k")).output("two_rows")
        for both in ((one, two), (two, one)):
            with pytest.raises(Conflict, match="stream 'readings' exists already with another"):
                testing.run(*both)
        with pytest.raises(Conflict, match="stream 'readings' exists already with another"):
            testing.run(one, streams=[other])


def test_all_that_a_publisher_takes() -> None:
    table = pa.table({"k": ["a"], "t": pa.array([at(3)], pa.timestamp("us", "UTC")), "n": np.array([5])})
    for rows in (table, table.to_batches()[0], table.to_pandas(), table.to_pydict() and [reading("a", 3, 5)]):
        assert testing.answers(per_key(readings()), {"readings": rows}) == {"sums": [{"k": "a", "n": 5}]}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("instances", [1, 2, 5])
def test_answers_do_not_depend_on_instances_and_turns(instances: int, seed: int) -> None:
    rows = [reading("abcdefg"[i % 7], i / 10, i) for i in range(400)]
    expected = testing.answers(per_key(readings()), {"readings": rows})["sums"]
    found = testing.answers(per_key(readings()), {"readings": rows}, instances=instances, seed=seed)["sums"]
    assert sorted(map(str, found)) == sorted(map(str, expected)) and len(expected) == 28


def test_late_is_decided_by_each_publisher() -> None:
    with testing.run(per_key(readings()).late("late")) as run:
        run.open("readings", "p2")
        run.send("readings", [reading("a", 5)], publisher="p1")
        run.send("readings", [reading("a", 3)], publisher="p2")
        assert run.late_rows == 0
        run.send("readings", [reading("a", 4)], publisher="p1")
        assert (run.late_rows, run.answers("late")) == (1, [reading("a", 4)])
        run.advance("readings", at(10), publisher="p1")
        assert run.answers("sums") == []
        assert "publisher p2 of stream 'readings', last row 0 s ago" in str(run.waits_for())
        run.open("readings", "p3")
        run.pass_time("30s")
        assert "last row 30 s ago" in str(run.waits_for())
        run.close("readings", "p3")
        run.close("readings", "p2")
        assert run.answers("sums") == [{"k": "a", "n": 2}]


def test_a_publisher_that_comes_late_begins_where_the_others_are() -> None:
    with testing.run(per_key(readings())) as run:
        run.send("readings", [reading("a", 5)], publisher="p1")
        run.send("readings", [reading("a", 3), reading("a", 6)], publisher="p2")
        assert run.late_rows == 1


def test_one_query_reads_the_other() -> None:
    second = Query("busy").source("sums").filter("many", col("n") > 2).output("busy")
    with testing.run(per_key(readings()), second, instances=2) as run:
        run.send("readings", [reading("a", 1, 2), reading("b", 2, 3)])
        run.close()
        assert run.answers("busy") == [{"k": "b", "n": 3}]
        assert len(run.answers("sums")) == 2


def test_a_stream_that_somebody_else_declares() -> None:
    assert testing.answers(per_key("readings"), {"readings": [reading("a", 1)]}, streams=[readings()]) == {"sums": [{"k": "a", "n": 1}]}


def test_a_stream_of_files_takes_rows_and_no_file_is_written(tmp_path: Path) -> None:
    source = files("readings", {"k": str, "t": "timestamp[ms]", "n": int}, paths="/nowhere/*.csv", event_time="t", disorder="0s")
    query = Query("q").source(source).output("same", folder=tmp_path / "answers")
    assert testing.answers(query, {"readings": [reading("a", 1)]}) == {"same": [reading("a", 1)]}
    assert not (tmp_path / "answers").exists()


def test_a_document_is_a_query() -> None:
    rows = {"readings": [reading("a", 1)]}
    query = per_key(readings())
    assert testing.answers(query.to_json(), rows) == testing.answers(query.build(), rows) == {"sums": [{"k": "a", "n": 1}]}


def test_functions_of_the_test() -> None:
    query = Query("q").source(readings()).map("twice", k=col("k"), n=udf(twice)(col("n"))).output("o")
    assert testing.answers(query, {"readings": [reading("a", 1, 4)]}) == {"o": [{"k": "a", "n": 8}]}


@pytest.mark.long
def test_machine_code_says_the_same() -> None:
    rows = {"readings": [reading("ab"[i % 2], i) for i in range(100)]}
    assert testing.answers(per_key(readings()), rows, compiled=True) == testing.answers(per_key(readings()), rows)


# --- the clock -------------------------------------------------------------------------------------------------------


def test_the_clock_goes_on_when_it_is_told_to() -> None:
    query = Query("q").source(stream("s", n=int)).aggregate("sum", TIME("10s"), n=sum_("n")).map("stamp", n=col("n"), at=now()).output("o")
    with testing.run(query) as run:
        run.send("s", [{"n": 1}])
        run.pass_time("9s")
        run.send("s", [{"n": 2}])
        assert run.answers("o") == []
        run.pass_time(timedelta(seconds=1))
        assert (run.answers("o"), run.now) == ([{"n": 3, "at": at(10)}], at(10))


def test_a_publisher_that_is_silent_for_long_holds_no_window_back() -> None:
    prices, trades = readings("prices", idle_after="5s"), readings("trades")
    query = Query("q").source(trades).as_of_join("priced", prices, on="k", prefix="price_").output("o")
    with testing.run(query) as run:
        run.send("prices", [reading("a", 1, 7)])
        run.send("trades", [reading("a", 60), reading("a", 61)])
        assert run.answers("o") == []
        run.pass_time("5s")
        assert [row["price_n"] for row in run.answers("o")] == [7]
        run.send("prices", [reading("a", 2, 8)])  # older than what it was not waited for
        assert run.late_rows == 1


def test_a_stream_that_is_stamped_live() -> None:
    with testing.run(per_key(readings(watermark="clock"))) as run:
        run.send("readings", [reading("a", 1)])
        run.pass_time("10s")
        assert run.answers("sums") == [{"k": "a", "n": 1}]


# --- errors ----------------------------------------------------------------------------------------------------------


def test_dead_letters_are_told_once() -> None:
    query = per_key(stream("s", k=str, t="timestamp[us]?", n=int, event_time="t", disorder="0s"))
    with testing.run(query) as run:
        run.send("s", [reading("a", 1), {"k": "a", "t": None, "n": 1}])
        (letter,) = run.dead_letters()
        assert (letter["operator"], letter["reason"], letter["position"]) == ("s", "event time is NULL", "record 1")
        assert run.dead_letters() == []


def test_rows_that_do_not_fit() -> None:
    with testing.run(per_key(readings())) as run:
        with pytest.raises(DataError, match="stream 'readings', field n: int64, row 1: expected an integer, got str 'x'"):
            run.send("readings", [reading("a", 1), reading("a", 2) | {"n": "x"}])
        run.close()
        assert run.answers("sums") == []


def test_names_that_are_not_there() -> None:
    with testing.run(per_key(readings())) as run:
        with pytest.raises(NotFound, match="'reading' that rows are sent to; there are 'readings'"):
            run.send("reading", [])
        with pytest.raises(NotFound, match="a stream 'sum'; there are 'sums'"):
            run.answers("sum")
        run.close()
        with pytest.raises(ClusterError, match="is closed; open another one"):
            run.send("readings", [reading("a", 1)])
    with pytest.raises(QueryError, match="expected those of 'readings', got those of none"):
        testing.answers(per_key(readings()), {})
    with pytest.raises(QueryError, match="no column 'm'"):
        testing.run(Query("q").source(readings()).filter("f", col("m") > 1).output("o"))


def test_outside_its_block_nothing_runs() -> None:
    run = testing.run(per_key(readings()))
    with pytest.raises(ClusterError, match="use it as a context manager"):
        run.send("readings", [reading("a", 1)])
    with run:
        run.send("readings", [reading("a", 1)])
        run.close()
    with pytest.raises(ClusterError, match="use it as a context manager"):
        run.send("readings", [reading("a", 1)])
    assert run.answers("sums") == [{"k": "a", "n": 1}]


def test_a_query_that_fails() -> None:
    broken = aggregate_function(Broken, "n", returns=int)
    query = Query("q").source(readings()).aggregate("a", UNBOUNDED(ttl="1h"), by="k", n=broken, c=count(), l=last("n")).output("o")
    with pytest.raises(QueryFailed, match=r"query 'q' failed: .*no such table"):
        testing.answers(query, {"readings": [reading("a", 1)]})
