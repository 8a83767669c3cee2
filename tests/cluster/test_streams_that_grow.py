"""Streams that get columns while they are read and published (docs/features/streams_that_grow.md), on a real cluster."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import httpx
import pyarrow as pa
import pytest

from cep.model.streams import Stream
from driver import Conflict, DataError, LocalCluster, Query, QueryError, Subscription, col, stream
from tests.support.visits import BASE_MS, Row, answers, expected, millis, visits, windows


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return re.sub(r"\W+", "-", request.node.name.removeprefix("test_")).strip("-")


def grown(name: str, **more: Any) -> Stream:
    """The stream of `visits`, with columns behind its own."""
    return stream(f"{name}.visits", ip=str, ts="timestamp[ms]", **more, event_time="ts", disorder="2s")


def all_of(query: str, source: Stream, *more: str, **options: Any) -> Query:
    """Every row as it came, with these columns more, as `<query>.all`."""
    picked = {each: col(each) for each in ("ip", "ts", *more)}
    return Query(query).source(source).map("pick", **picked).output(f"{query}.all").options(**options)


def timed(numbers: range, **more: Any) -> list[Row]:
    """A row a millisecond; what `more` says of each is called with its number."""
    made = [{"ip": f"10.0.0.{i % 7}", "ts": BASE_MS + i} for i in numbers]
    return [row | {key: of(i) for key, of in more.items()} for i, row in zip(numbers, made, strict=True)]


def read(subscription: Subscription, *more: str) -> Counter[tuple[Any, ...]]:
    found = (row for batch in subscription for row in batch.to_pylist())
    return Counter((row["ip"], millis(row["ts"]), *(row[each] for each in more)) for row in found)


def wanted(rows: list[Row], *more: str) -> Counter[tuple[Any, ...]]:
    return Counter((row["ip"], row["ts"], *(row.get(each) for each in more)) for row in rows)


def untroubled(cluster: LocalCluster, query: str) -> bool:
    found = cluster.query(query).dead_letters()
    return not found["letters"] and not any(found["counts"].values())


@pytest.mark.parametrize("instances", [1, 2])
def test_two_queries_and_two_publishers_of_two_schemas(cluster: LocalCluster, name: str, instances: int) -> None:
    """
    ```
    windows ─────────────────────────────────────────▶  knows ip, ts
    copies  ─────────────────────────────────────────▶  knows ip, ts
                 all ────────────────────────────────▶  knows ip, ts, price, note: NULL where they are not sent
    old     ─────────────────────────────────────────▶  sends ip, ts
                       new ──────────────────────────▶  sends all
    ```
    """
    old, new = visits(name), grown(name, price="int64?", note="string?")
    counted = cluster.deploy(windows(name, parallelism=instances)).subscribe(f"{name}.per_ip")
    copied = cluster.deploy(all_of(f"{name}-copies", old, parallelism=instances)).subscribe(f"{name}-copies.all")
    before, among = timed(range(1000)), timed(range(1000, 9000, 2))
    prices = timed(range(1001, 9000, 2), price=lambda i: None if i % 3 else i, note=lambda i: f"n{i}" * (i % 5))
    with cluster.publisher(old, "old") as first:
        first.send(before)
        wide = cluster.deploy(all_of(f"{name}-all", new, "price", "note", parallelism=instances))
        everything = wide.subscribe(f"{name}-all.all")
        with cluster.publisher(f"{name}.visits", "new") as second:
            assert (first.stream.schema, second.stream.schema) == (old.schema, new.schema)
            for start in range(0, len(among), 100):
                first.send(among[start : start + 100])
                second.send(prices[start : start + 100])
    rows = [*before, *among, *prices]
    assert answers(counted) == expected(rows)
    assert read(copied) == wanted(rows)
    assert read(everything, "price", "note") == wanted([*among, *prices], "price", "note")
    assert all(untroubled(cluster, query) for query in (name, f"{name}-copies", f"{name}-all"))


def test_small_arrow_batches_come_in_by_either_schema(cluster: LocalCluster, name: str) -> None:
    """Of eight bytes a column, one publisher, one query: where both know the same they take the fast path."""
    old = stream(f"{name}.ticks", n="int64", at="timestamp[us]", event_time="at", disorder="0s")
    new = stream(f"{name}.ticks", n="int64", at="timestamp[us]", value="float64?", event_time="at", disorder="0s")
    columns: dict[str, Any] = {"n": range(500), "at": [10**15 + i for i in range(500)], "value": [i / 2 for i in range(500)]}
    found = {}
    for reads, sends in ((old, new), (new, old)):
        query = f"{name}-{len(reads.schema.fields)}"
        cluster.declare(new)
        picked = {each: col(each) for each in reads.schema.names}
        reading = Query(query).source(reads).map("pick", **picked).output(f"{query}.all").options(parallelism=1)
        running = cluster.deploy(reading)
        answered = running.subscribe(f"{query}.all")
        with cluster.publisher(sends) as out:
            whole = pa.table({each: pa.array(columns[each]).cast(sends.schema[each].type.arrow) for each in sends.schema.names})
            for batch in whole.to_batches(max_chunksize=1):
                out.send(batch)
        found[query] = [row for batch in answered for row in batch.select([n for n in batch.schema.names if n != "at"]).to_pylist()]
        assert untroubled(cluster, query)
    assert found[f"{name}-2"] == [{"n": i} for i in range(500)]
    assert found[f"{name}-3"] == [{"n": i, "value": None} for i in range(500)]


def test_a_program_that_knows_nothing_of_a_new_column_goes_on(cluster: LocalCluster, name: str) -> None:
    """It opens by name, and gets the new schema: what it does not send is NULL, as dicts and as a table."""
    cluster.declare(visits(name))
    found = cluster.deploy(all_of(name, grown(name, price="int64?"), "price")).subscribe(f"{name}.all")
    given = timed(range(40))
    table = pa.table({key: [row[key] for row in given[20:]] for key in ("ip", "ts")})
    with cluster.publisher(f"{name}.visits") as out:
        assert out.send(given[:20]) + out.send(table) == 40
        with pytest.raises(DataError, match="missing fields: \\['ts'\\]"):
            out.send(table.drop_columns("ts"))
    assert read(found, "price") == wanted(given, "price")


def test_what_is_no_growth_is_refused_and_leaves_all_as_it_was(cluster: LocalCluster, name: str) -> None:
    source = visits(name)
    running = cluster.deploy(windows(name, source))
    found = running.subscribe(f"{name}.per_ip")
    otherwise: list[tuple[Stream, str]] = [
        (stream(source.name, ip=str, ts="timestamp[us]", event_time="ts", disorder="2s"), "keeps its type"),
        (grown(name, price="int64"), "declare price: int64\\?"),
        (stream(source.name, address=str, ts="timestamp[ms]", event_time="ts", disorder="2s"), "neither renamed nor removed"),
        (stream(source.name, ip=str, ts="timestamp[ms]", at="timestamp[ms]?", event_time="at", disorder="2s"), "another event_time"),
    ]
    with cluster.publisher(source) as out:
        for given, why in otherwise:
            with pytest.raises(Conflict, match=why):
                cluster.declare(given)
            with pytest.raises((Conflict, QueryError), match=why):
                cluster.deploy(Query(f"{name}-2").source(given).filter("some", col("ts").is_not_null()).output(f"{name}-2.all"))
        out.send(timed(range(10)))
    assert answers(found) == expected(timed(range(10)))


def test_a_query_may_declare_fewer_columns_of_what_another_puts_out_and_not_more(cluster: LocalCluster, name: str) -> None:
    first = cluster.deploy(all_of(name, grown(name, price="int64?"), "price"), start=False)
    put_out = {"ip": str, "ts": "timestamp[ms]"}
    with pytest.raises(QueryError, match="does not get column 'note'"):
        cluster.deploy(all_of(f"{name}-2", stream(f"{name}.all", **put_out, price="int64?", note="string?")))
    found = cluster.deploy(all_of(f"{name}-2", stream(f"{name}.all", **put_out))).subscribe(f"{name}-2.all")
    first.start()
    given = timed(range(300), price=lambda i: i)
    with cluster.publisher(f"{name}.visits") as out:
        out.send(given)
    assert read(found) == wanted(given) and untroubled(cluster, f"{name}-2")


def test_rest_publishes_and_shows_a_new_column(cluster: LocalCluster, name: str) -> None:
    """Its publisher is open when the stream grows. A column that it does not know has it look again."""
    old, new = visits(name), grown(name, price="int64?")
    narrow = cluster.deploy(all_of(name, old)).subscribe(f"{name}.all")
    before, behind = timed(range(10)), timed(range(10, 20), price=lambda i: i)
    with httpx.Client(base_url=cluster.rest.url, timeout=60, trust_env=False, verify=False) as client:
        path = f"/streams/{old.name}"
        assert client.post(f"{path}/records", json=before).json() == {"rows": 10}
        wide = cluster.deploy(all_of(f"{name}-2", new, "price")).subscribe(f"{name}-2.all")
        assert [each["name"] for each in client.get(path).json()["schema"]] == ["ip", "ts", "price"]
        assert client.post(f"{path}/records", json=behind[:5]).json() == {"rows": 5}
        refused = client.post(f"{path}/records", json=timed(range(10, 11), cost=lambda i: i))
        assert refused.status_code == 422 and "unknown fields ['cost']" in refused.json()["detail"]
        assert client.post(f"{path}/records?end=true", json=behind[5:]).json() == {"rows": 5}
    assert read(narrow) == wanted([*before, *behind])
    assert read(wide, "price") == wanted(behind, "price")
