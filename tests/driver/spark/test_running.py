"""Queries on Spark: those of the example, of text files, live ones, and how they end. One JVM serves all.

What generated queries answer is `test_operators.py`'s, what expressions compute `expressions/test_expression.py`'s.

Tests `running.py`, `feeds.py`, `outputs.py`, `refusals.py`, `sources.py`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

from cep.errors import ClusterError, NotFound, QueryError, QueryFailed, QueryStopped, StreamEnded
from cep.model.operators import Demux
from driver import (
    SESSION,
    SIZE,
    TIME,
    TRAILING,
    UNBOUNDED,
    Query,
    approx_count_distinct,
    col,
    collect,
    count,
    deploy,
    files,
    first,
    hash_,
    last,
    quantile,
    stream,
    sum_,
    window_end,
    window_start,
)
from driver.spark import refusals, sources
from driver.spark.expressions import expression as expressions
from driver.spark.refusals import Refused
from driver.spark.sources import delay_ms
from tests.support.one_spark import MASTER
from tests.support.paths import ROOT
from tests.support.plans import group, query

DOCUMENT = ROOT / "docs" / "spark.md"
#: A JVM that has just been started takes its time where others start theirs.
pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("one_spark")]
VISITS = stream("visits", ip=str, ts="timestamp[ms]", event_time="ts", disorder="2s")


# --- published -------------------------------------------------------------------------------------------------------


def per_ip() -> Query:
    return (
        Query("per-ip")
        .source(VISITS)
        .map("pick", ip=col("ip"), ts=col("ts"))
        .aggregate("window", TIME("30s"), by="ip", visits=count(), start=first("ts"), end=last("ts"))
        .output("per_ip")
    )


def test_the_example_runs_live() -> None:
    with deploy(per_ip(), engine="spark", master=MASTER) as running:
        answers = running.subscribe("per_ip", event_time=True)
        with running.publisher("visits") as out:
            out.send([{"ip": "10.0.0.1", "ts": 1_700_000_000_000}, {"ip": "10.0.0.1", "ts": 1_700_000_001_000}])
        found = pa.Table.from_batches(answers)
        assert found.cast(pa.schema([*found.schema])).select(["ip", "visits"]).to_pylist() == [{"ip": "10.0.0.1", "visits": 2}]
        assert found["event_time"].cast(pa.int64()).to_pylist() == [1_700_000_009_999_999]
        assert running.wait().status()["rows"] == {"per_ip": 1}
        with pytest.raises(StreamEnded, match="after 1 row;"):
            running.subscribe("per_ip")
        with pytest.raises(ClusterError, match="'visits' has ended"):
            running.publisher("visits")


def test_a_stopped_query_fires_nothing_and_a_drained_one_everything() -> None:
    with deploy(per_ip(), master=MASTER) as running:
        answers = running.subscribe("per_ip")
        running.stop()
        with pytest.raises(QueryStopped):
            answers.next_batch()
        assert running.status()["state"] == "stopped"
    with deploy(per_ip(), master=MASTER, start=False) as running:
        answers = running.subscribe("per_ip")
        out = running.publisher("visits", keep_open=True)
        out.send({"ip": "a", "ts": 5})
        out.close(keep_open=True)
        running.stop(drain=True)
        assert pa.Table.from_batches(answers)["ip"].to_pylist() == ["a"]


def test_who_asks_for_what_is_not_there_is_told() -> None:
    with deploy(per_ip(), master=MASTER, start=False) as running:
        with pytest.raises(NotFound, match="no stream 'nothing'; it has per_ip"):
            running.subscribe("nothing")
        with pytest.raises(NotFound, match="no published stream 'per_ip'; it has visits"):
            running.publisher("per_ip")
        with pytest.raises(ClusterError, match=re.escape(f"runs already with master {MASTER!r}")):
            deploy(per_ip(), master="local[1]")
    with pytest.raises(QueryError, match="expected one of cep, spark, got 'flink'"):
        deploy(per_ip(), engine="flink")
    with pytest.raises(QueryError, match="needs a cluster"):
        deploy(per_ip(), engine="cep")


def test_answers_per_tuple_and_first_rows_over_several_micro_batches() -> None:
    """Of each group the last answer counts; the first row of a key comes out once."""
    source = stream("s", {"t": "timestamp[us]", "k": str, "v": int}, event_time="t", disorder="1us")
    made = Query("running").source(source)
    made = made.aggregate("so far", UNBOUNDED(ttl=None), by="k", sum=sum_("v"), last=last("v")).output("sums")
    with deploy(made, master=MASTER) as running:
        sums = running.subscribe("sums")
        with running.publisher("s") as out:
            for batch in range(3):
                out.send([{"t": 10 * batch + i, "k": "ab"[i], "v": 1} for i in range(2)])
                out.flush()
                running.streams[next(iter(running.streams))].query.processAllAvailable()
        assert {row["k"]: row["sum"] for batch in sums for row in batch.to_pylist()} == {"a": 3, "b": 3}
    once = Query("once").source(source).deduplicate("first", by="k", ttl=None).output("firsts")
    with deploy(once, master=MASTER) as running:
        firsts = running.subscribe("firsts", event_time=True)
        with running.publisher("s") as out:
            for batch in range(2):
                out.send([{"t": 10 * batch + 1, "k": "a", "v": batch}, {"t": 10 * batch, "k": "a", "v": batch + 7}])
                out.flush()
                running.streams[next(iter(running.streams))].query.processAllAvailable()
        assert [row["v"] for batch in firsts for row in batch.to_pylist()] == [7]


# --- windows ---------------------------------------------------------------------------------------------------------


def answered(made: Query, *batches: list[dict[str, int]]) -> dict[str, list[dict[str, int]]]:
    """What `made` puts out, in the order of its columns, of rows of its one stream that come in so many micro-batches."""
    with deploy(made, master=MASTER) as running:
        answers = {name: running.subscribe(name) for name in running.streams}
        with running.publisher("s") as out:
            for rows in batches:
                out.send(rows)
                out.flush()
                for output in running.streams.values():
                    output.query.processAllAvailable()
        tables = {name: pa.Table.from_batches(answer, answer.schema) for name, answer in answers.items()}
        return {name: sorted(table.to_pylist(), key=lambda row: [*row.values()]) for name, table in tables.items()}


@pytest.mark.long
def test_sessions_end_where_a_row_is_more_than_their_gap_behind() -> None:
    """Rows 1001 and 1002 µs apart; windows at 1000999, 1002000 and 1003001, of which the second comes when the watermark is there."""
    source = stream("s", {"t": "timestamp[us]"}, event_time="t", disorder="0us")
    numbers = {"start": col("start").cast("int64"), "end": col("end").cast("int64"), "n": col("n")}
    bounds = {"start": window_start(), "end": window_end()}
    made = Query("sessions").source(source)
    made = made.aggregate("of rows", SESSION("1001us"), n=count(), **bounds).map("rows", numbers).output("rows_out")
    made = made.at("s").aggregate("w", TIME("1001us"), n=count()).aggregate("of windows", SESSION("1001us"), n=sum_("n"), **bounds)
    made = made.map("windows", numbers).output("windows_out")
    found = answered(made, [{"t": 1_000_997}, {"t": 1_001_998}], [{"t": 1_003_000}])
    assert found["rows_out"] == [
        {"start": 1_000_997, "end": 1_002_999, "n": 2},
        {"start": 1_003_000, "end": 1_004_001, "n": 1},
    ]
    assert found["windows_out"] == [{"start": 1_000_999, "end": 1_004_002, "n": 3}]


def test_branches_that_are_shuffled_alike_both_end() -> None:
    """The optimizer makes one plan of the windows that go past the filter and of those that go through it."""
    source = stream("s", {"t": "timestamp[us]"}, event_time="t", disorder="0us")
    made = Query("branches").source(source).aggregate("w", TIME("10us"), n=count()).filter("some", col("n") > 0)
    assert answered(made.union("both", "w", "some").output("out"), [{"t": 1}, {"t": 2}]) == {"out": [{"n": 2}, {"n": 2}]}


# --- text ------------------------------------------------------------------------------------------------------------


def text_of(rows: range, step: int = 10) -> str:
    return "".join(f"{t * step},k{t % 3},{t % 7}\n" for t in rows)


def of_text(folder: Path, **more: object) -> Query:
    return Query("text").source(
        files("s", paths=[str(folder / "*.csv")], event_time="t", disorder="50ms", t="timestamp[ms]", k=str, v="int64?", **more)
    )


def test_text_files_in_several_micro_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second file is older than the first, and the third lies over both: no row is late."""
    monkeypatch.setattr(sources, "MICRO_BATCH_BYTES", 1)
    spans = (range(100, 200), range(0, 100), range(50, 150))
    for i, span in enumerate(spans):
        (tmp_path / f"{i}.csv").write_text(
            text_of(span) + ("nonsense,k0,1\n 7,k0,1\n,k0,1\n9,k0,x\n" if i == 1 else "5,k9,\n" if i == 2 else "")
        )
    made = (
        of_text(tmp_path).aggregate("windows", TIME("300ms", "100ms"), by="k", n=count(), s=sum_("v"), first=first("v")).output("answers")
    )
    with deploy(made, master=MASTER, start=False) as running:
        answers = running.subscribe("answers", event_time=True)
        assert running.wait().status()["progress"]["answers"]["batchId"] >= 3
        found = {(r["event_time"].timestamp(), r["k"]): (r["n"], r["s"]) for b in answers for r in b.to_pylist()}
    rows = [(t * 10, f"k{t % 3}", t % 7) for span in spans for t in span] + [(5, "k9", None)]
    expected: dict[tuple[float, str], list[int | None]] = {}
    for t, k, v in rows:
        for start in range((t // 100 - 2) * 100, t // 100 * 100 + 1, 100):
            expected.setdefault(((start + 300) / 1000 - 1e-6, k), []).append(v)
    sums = {(round(e, 6), k): (len(vs), sum(v for v in vs if v is not None) if vs != [None] else None) for (e, k), vs in expected.items()}
    assert {(round(e, 6), k): answer for (e, k), answer in found.items()} == sums


def test_outputs_in_files(tmp_path: Path) -> None:
    """Text has instants as text sources read them; rows with one that has no text of four digits, or no integer of its unit, are left out
    of it. Before, ns were written as text, and µs cut off."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text(text_of(range(20)))
    kept = of_text(tmp_path / "in").filter("f", col("v") > 3)
    at, ns = (9 - col("v")) * 60_000_000_000_000_001, col("v") * 1_800_000_000_000_001  # µs: 4 is in the year 11476, and 6 in 2312
    instants = {"at": at.cast("timestamp[us]").cast("timestamp"), "ns": ns.cast("timestamp[us]").cast("timestamp[ns]")}
    kept = kept.map("m", t=col("t"), v=col("v") * 2, k=col("k"), **instants)
    for format_, rows in (("text", 3), ("arrow", 8)):
        with deploy(kept.output("out", folder=tmp_path / format_, format=format_), master=MASTER) as running:
            assert running.wait().status()["rows"] == {"out": rows}
    lines = "".join(path.read_text() for path in (tmp_path / "text").glob("*.csv")).splitlines()
    assert sorted(lines) == sorted(f"{t * 10},10,k{t % 3},9575-04-19T18:40:00.000004Z,9000000000000005000" for t in (5, 12, 19))
    tables = [pa.ipc.open_stream(path).read_all() for path in (tmp_path / "arrow").glob("*.arrows")]
    assert sum(table.num_rows for table in tables) == 8
    with pytest.raises(QueryError, match="is there already"):
        deploy(kept.output("out", folder=tmp_path / "text"), master=MASTER)


def test_what_fails_while_it_runs_is_said() -> None:
    with deploy(per_ip(), master=MASTER) as running:
        answers = running.subscribe("per_ip")
        (running.feeds["visits"].folder / "0.parquet").write_text("no Parquet at all")
        with pytest.raises(QueryFailed, match="query 'per-ip' failed"):
            running.wait()
        with pytest.raises(QueryFailed):
            answers.next_batch()
        assert running.status()["state"] == "failed"


def test_how_far_the_watermark_is_behind() -> None:
    """Files [0, 100], [50, 150] and [200, 300] ms with 10 ms disorder, in micro-batches."""
    bounds = [(0, 100_000), (50_000, 150_000), (200_000, 300_000)]
    assert delay_ms(10_000, [[0, 1, 2]], [None] * 3) == 11
    assert delay_ms(10_000, [[0], [1], [2]], bounds) == 71  # 100 + 10 - (50 - 10), and one
    assert delay_ms(10_000, [[2], [0], [1]], bounds) == 321
    assert delay_ms(0, [[0], [2]], bounds) == 1


# --- estimates -------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_quantiles_are_exact_and_distinct_values_estimated() -> None:
    source = stream("s", {"t": "timestamp[us]", "v": int}, event_time="t", disorder="0us")
    functions = {"q": quantile("v", 0.07), "about": approx_count_distinct("v", 12), "few": collect("v", 3)}
    made = Query("estimates").source(source).aggregate("whole", TIME("1s"), **functions).output("answers")
    with deploy(made, master=MASTER, start=False) as running:
        answers = running.subscribe("answers")
        with running.publisher("s") as out:
            out.send([{"t": i, "v": (i * 37) % 1000} for i in range(1000)])
        running.wait()
        ((row,),) = (batch.to_pylist() for batch in answers)
    assert (row["q"], row["few"]) == (69.0, [0, 37, 74])
    assert abs(row["about"] - 1000) < 5 * 1000 * 1.04 / 2**6


# --- refused ---------------------------------------------------------------------------------------------------------


def test_an_error_names_operator_and_reason_before_anything_starts() -> None:
    made = Query("q").source(VISITS).aggregate("pairs", SIZE(2), by="ip", n=count()).output("o")
    with pytest.raises(
        Refused, match=r"operator 'pairs': a window of a number of rows \(SIZE\) does not run on Spark: Spark takes"
    ) as raised:
        deploy(made, master="no such master")
    assert (raised.value.operator, raised.value.pointer) == ("pairs", "/operators/0")
    last_two = Query("q").source(VISITS).over("last", TRAILING(rows=2), by="ip", n=count()).output("o")
    with pytest.raises(Refused, match=r"operator 'last': Over does not run on Spark: Spark takes windows over rows .* not of streams"):
        deploy(last_two, master="no such master")
    with pytest.raises(Refused, match="operator 'm': hash does not run on Spark") as raised:
        deploy(Query("q").source(VISITS).filter("f", col("ip") != "").map("m", h=hash_(col("ip"))).output("o"), master=MASTER)
    assert raised.value.pointer == "/operators/1"


def test_state_behind_or_before_an_answer_per_tuple_is_refused() -> None:
    running = Query("q").source(VISITS).aggregate("r", UNBOUNDED(ttl=None), by="ip", n=count())
    refusals.check_for_spark(running.output("o").build())
    with pytest.raises(Refused, match="with other state on its way"):
        refusals.check_for_spark(running.aggregate("w", SESSION("1s"), n=count()).output("o").build())


def test_the_page_says_what_is_refused() -> None:
    told = dict(re.findall(r"^\| (.+?) \| (.+?) \|$", DOCUMENT.read_text().partition("## Refused")[2], re.M))
    table = {**refusals.REFUSED, **expressions.REFUSED_EXPRESSIONS}
    assert {what: why for what, why in told.items() if what not in ("what", "---")} == table


def test_what_is_above_an_output() -> None:
    """Branches of a Demux lead to it."""
    asked = query(Demux("d", "s", (("large", col("bytes") > 5),), "rest"), group("a", "d.rest", "ip"), outputs=("a", "d.large"))
    assert [operator.name for operator in refusals.above(asked, "a")] == ["a", "d"]
    assert [operator.name for operator in refusals.above(asked, "s")] == []
