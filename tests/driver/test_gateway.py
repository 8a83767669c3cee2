"""The data doors of REST, over a real cluster: a client with nothing but HTTP publishes and reads.

Tests `gateway.py`, `gateway_rows.py`, `gateway_keys.py`, `rows/unpacked.py`, `orchestrator/rest/gateway_proxy.py`.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest

from cep.errors import DataError, ProtocolError
from driver import TIME, LocalCluster, Query, col, count, stream
from driver.gateway import Gateway
from driver.gateway_events import HELD_BYTES, Slow
from driver.gateway_keys import IN_MEMORY, KeptKeys, KeyFile, RowsKey, Sent
from driver.gateway_rows import ARROW, NDJSON, arrow_stream, json_list
from driver.rows.unpacked import unpacked_bytes
from tests.support.paths import ROOT
from tests.support.waiting import until


def compressed(table: pa.Table) -> bytes:
    """100 M rows in 86 kB were 2.5 GB in the gateway, and were published."""
    return as_stream(table, pa.ipc.IpcWriteOptions(compression="zstd"))


def as_stream(table: pa.Table, options: pa.ipc.IpcWriteOptions | None = None) -> bytes:
    written = BytesIO()
    with pa.ipc.new_stream(written, table.schema, options=options) as writer:
        writer.write_table(table)
    return written.getvalue()


VISITS = stream("visits", ip=str, ts="timestamp[ms]", event_time="ts", disorder="0s")
QUERY = Query("per-ip").source(VISITS).aggregate("window", TIME("1s"), by="ip", visits=count()).output("per_ip")
JSON = {"content-type": "application/json"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=cluster.rest.url, timeout=60, trust_env=False, verify=False) as made:
        yield made


def all_answers(client: httpx.Client, stream_: str, reader: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    ended = False
    while not ended:
        answer = client.get(f"/streams/{stream_}/answers", params={"reader": reader, "wait": 20, "max": 3}).json()
        rows, ended = rows + answer["rows"], answer["ended"]
    return rows


def test_every_reader_gets_all_rows(cluster: LocalCluster, client: httpx.Client) -> None:
    """And `explain` says what was observed, over both instances that pre-aggregate, and before there is anything to observe."""
    running = cluster.deploy(QUERY, start=False)
    assert "per_ip" in client.get("/queries/per-ip/explain").json()["text"]
    running.start()
    for reader in ("a", "b"):
        assert client.get(f"/streams/per_ip/answers?reader={reader}").json() == {"rows": [], "ended": False}
    records = [{"ip": f"10.0.0.{i}", "ts": 1_700_000_000_000} for i in range(10)]
    assert client.post("/streams/visits/records?end=true", json=records).json() == {"rows": 10}
    for reader in ("a", "b"):
        rows = all_answers(client, "per_ip", reader)
        assert sorted(row["ip"] for row in rows) == sorted(row["ip"] for row in records)
        assert {row["visits"] for row in rows} == {1}
    text = client.get("/queries/per-ip/explain").json()["text"]
    assert "per_ip" in text
    assert "reader" in client.get("/streams/per_ip/answers").json()["detail"]


def test_rows_that_do_not_fit_are_a_problem_document(cluster: LocalCluster, client: httpx.Client) -> None:
    cluster.declare(stream("numbers", x="int64"))
    answer = client.post("/streams/numbers/records", json=[{"y": 1}])
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert "unknown fields ['y']" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("body", "status", "detail"),
    [
        (b'[{"x": NaN}]', 400, "NaN"),
        (b'[{"s": "\\ud800"}]', 400, "half a character"),
        (b'[{"x": 1e999}]', 400, "infinite"),
        (b'[{"x": 9223372036854775808}]', 422, "x"),
        (b'[{"x": ' + b"1" * 5000 + b"}]", 400, "digits"),
        (b'{"x": 1}', 422, "a list of objects"),
        (b"[1]", 422, "expected a dict"),
        (b"[", 400, "cannot be read"),
        (b"[" * 100_000, 400, "in each other"),
        (b"\xff", 400, "UTF-8"),
        (b"[" + b" " * (5 << 20) + b"]", 413, "4,194,304"),
        (b"[" + b"[]," * 200_000 + b"[]]", 400, "more than 100,000"),
    ],
)
def test_rows_that_nothing_can_work_with(cluster: LocalCluster, client: httpx.Client, body: bytes, status: int, detail: str) -> None:
    cluster.declare(stream("numbers", x="int64"))
    answer = client.post("/streams/numbers/records", content=body, headers=JSON)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), answer.text
    assert detail in answer.json()["detail"]


def test_numbers_and_instants_that_json_has_not(cluster: LocalCluster, client: httpx.Client) -> None:
    """A year beyond Python's, and floats beyond JSON's, were an error of the gateway."""
    source = stream("odd", ts="timestamp[s]", v="float64", event_time="ts", disorder="0s", event_times="any")
    cluster.deploy(Query("odd").source(source).map("m", ts=col("ts"), v=col("v") / 0.0).output("odd_out"))
    client.get("/streams/odd_out/answers?reader=a")
    client.post("/streams/odd/records?end=true", json=[{"ts": 1, "v": 1.0}, {"ts": 1_700_000_000_000, "v": 0.0}])
    assert all_answers(client, "odd_out", "a") == [
        {"ts": "1970-01-01T00:00:01+00:00", "v": "inf"},
        {"ts": "+055840-11-08T22:13:20+00:00", "v": "nan"},
    ]


def test_a_stream_that_no_query_puts_out_has_an_end_that_is_said(cluster: LocalCluster, client: httpx.Client) -> None:
    running = cluster.deploy(Query("gone").source(VISITS).filter("f", col("ip") == "x").output("gone_out"))
    client.get("/streams/gone_out/answers?reader=a")
    running.stop()
    answer = client.get("/streams/gone_out/answers?reader=a&wait=20")
    assert (answer.status_code, answer.json()["error"]) == (409, "QueryStopped")


def test_rows_under_a_key_are_published_once(cluster: LocalCluster, client: httpx.Client) -> None:
    """However they are written; other rows under it are refused, and what failed is forgotten."""
    source = stream("once", x="int64", s="string")
    running = cluster.deploy(Query("once").source(source).filter("all", col("x") >= 0).output("once_out"))

    def post(key: str | None, content: bytes, kind: str = "application/json", **parameters: str) -> httpx.Response:
        headers = {"content-type": kind} if key is None else {"content-type": kind, "idempotency-key": key}
        return client.post("/streams/once/records", content=content, headers=headers, params=parameters)

    lines = b'{"x": 1, "s": "a"}\n\n{"x": 2, "s": "\xc3\xa9"}\n'
    table = pa.table({"x": [3, 4, 5], "s": ["a", "b", "c"]})
    arrow = as_stream(table)
    with running.subscribe("once_out") as reader:
        for _ in range(3):
            assert (answer := post("a", lines, NDJSON)).status_code == 202 and answer.json() == {"rows": 2}, answer.text
            assert post("b", arrow, ARROW).json() == {"rows": 3}
            assert post("c", b'[{"x": "no", "s": ""}]').status_code == 422
        assert post("c", b'[{"x": 6, "s": ""}]').json() == {"rows": 1}
        assert post("c", b'[{"x": 7, "s": ""}]').json()["detail"].startswith("Idempotency-Key 'c': other rows were sent under it")
        assert post("a", b'[{"x": 7, "s": ""}]').status_code == 422 and post("", b"[]").status_code == 422
        assert post(None, b'{"x": 1}\n{"x": 1} {"x": 1}', NDJSON).status_code == 400
        assert post(None, b'{"x": 1}\n[1]', NDJSON).json()["detail"].startswith("line 2: expected an object")
        assert "The key 'x' stands twice" in post(None, b'[{"x": 1, "s": "", "x": 2}]').json()["detail"]
        assert post(None, arrow[:-20], ARROW).status_code == 400
        assert "not compressed" in post(None, compressed(table), ARROW).json()["detail"]
        many = post(None, as_stream(pa.table({"x": pa.nulls(10**9), "s": pa.nulls(10**9)})), ARROW)
        assert many.status_code == 400 and "1,000,000,000 rows in" in many.json()["detail"], many.text
        assert post("d", b"[]", end="true").json() == {"rows": 0}
        assert sorted(row["x"] for batch in reader for row in batch.to_pylist()) == [1, 2, 3, 4, 5, 6]
    refused = client.post("/streams", content=lines, headers={"content-type": NDJSON})
    assert refused.status_code in (404, 405, 415)
    assert client.put("/streams/once", content=lines, headers={"content-type": NDJSON}).status_code == 415


LONG, ZEROS = "x" * 1_000_000, pa.array(np.zeros(100_000, np.int8))
VIEWS = pa.array([LONG, *["y"] * 99], pa.string_view()).buffers()


@pytest.mark.parametrize(
    "column",
    [
        pa.DictionaryArray.from_arrays(ZEROS, [LONG]),
        pa.DictionaryArray.from_arrays(ZEROS, pa.array([LONG], pa.string_view())),
        pa.ListArray.from_arrays([0, 10**9], pa.nulls(10**9)),
        pa.FixedSizeListArray.from_arrays(pa.nulls(10**9), 10**9),
        pa.ListArray.from_arrays([0, 100_000], pa.DictionaryArray.from_arrays(ZEROS, [LONG])),
        pa.Array.from_buffers(pa.string_view(), 100, [None, pa.py_buffer(bytes(VIEWS[1])[:16] * 100), *VIEWS[2:]]),
    ],
    ids=["dictionary", "dictionary-of-views", "list-of-nulls", "list-of-one-size", "list-of-a-dictionary", "views-of-one-text"],
)
def test_a_stream_of_arrow_that_grows_is_refused_before_it_does(column: pa.Array) -> None:
    """Each is less than 2 MB as it comes, and 100 MB to 100 GB as rows."""
    body = as_stream(pa.table({"c": column}))
    assert len(body) < 2_000_000
    with pytest.raises(ProtocolError, match=r"the rows become [\d,]{11,} bytes with column 'c'; expected at most 67,108,864"):
        arrow_stream(body)


def test_columns_that_a_stream_of_arrow_has_not_count_too(cluster: LocalCluster) -> None:
    cluster.declare(stream("wide", {f"c{i}": "int64?" for i in range(10)}))
    body = as_stream(pa.table({"c0": np.zeros(1_000_000, np.int8)}))
    with cluster.publisher("wide") as out, pytest.raises(ProtocolError, match="80,000,000 bytes with 9 columns of NULLs"):
        arrow_stream(body)(0, out)


def test_what_is_packed_as_usual_is_counted_as_it_is() -> None:
    texts = ["a", None, "bc"]
    for column, size in [
        (pa.array(texts), 24 + 3),
        (pa.array(texts, pa.large_string()), 24 + 3),
        (pa.array([b"123", *texts], pa.binary_view()).slice(1), 24 + 3),
        (pa.array([*texts, *texts]).dictionary_encode(), 48 + 6),
        (pa.array([1, 2, None], pa.int8()), 24),
        (pa.array([True, None]), 2),
        (pa.array([["a"], None, [None, "bc"]]), 24 + 24 + 3),
        (pa.array([["a"], ["bc"]], pa.list_(pa.string(), 1)), 16 + 16 + 3),
        (pa.array([], pa.string_view()), 0),
    ]:
        assert unpacked_bytes(column) == size, column.type


@pytest.mark.anyio
async def test_a_key_that_is_being_sent_is_waited_for() -> None:
    keys, go, sent = KeptKeys(KeyFile(IN_MEMORY)), asyncio.Event(), list[str]()

    async def send(digest: bytes) -> int:
        sent.append("rows")
        await go.wait()
        return 7

    first = keys.sending("s", "k", b"rows", send)
    assert keys.sending("s", "k", b"rows", send) is first and keys.sending("other", "k", b"rows", send) is not first
    with pytest.raises(DataError, match="'k': other rows were sent under it"):
        keys.sending("s", "k", b"others", send)
    go.set()
    assert await first == 7 and len(sent) == 2


def test_the_file_of_keys_knows_what_was_sent_and_forgets_the_oldest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of rows under way only the next publisher tells how many are there: 5 of those from number 10 on, and none of those behind."""
    file = KeyFile(str(tmp_path / "keys"))
    for name, first in ("a", 0), ("b", 10), ("c", 20):
        file.begin("s", RowsKey(name, b"d"), first)
    file.finish("s", "a", 10)
    file.begin("other", RowsKey("b", b"d"), 3)
    file.close()
    file = KeyFile(str(tmp_path / "keys"))
    assert file.in_doubt("s") and file.get("s", "b") == Sent(b"d", 10, 0, False)
    file.settle("s", 15)
    for _ in range(2):
        assert not file.in_doubt("s") and file.in_doubt("other")
        assert [file.get("s", name) for name in "abc"] == [(b"d", None, 10, True), (b"d", None, 5, False), (b"d", None, 0, False)]
        file.close()
        file = KeyFile(str(tmp_path / "keys"))  # what the second has written the third one knows
    monkeypatch.setattr("driver.gateway_keys.KEYS_MAX", 3)
    file.begin("s", RowsKey("d", b"d"), 0)
    assert [file.get("s", name) is not None for name in "abcd"] == [False, False, True, True]
    monkeypatch.setattr("driver.gateway_keys.KEPT_S", 0.0)
    file.begin("s", RowsKey("e", b"d"), 0)
    assert [file.get("s", name) is not None for name in "cde"] == [False, False, True]
    file.close()


def test_keys_outlive_the_gateway(cluster: LocalCluster, client: httpx.Client) -> None:
    """It is killed while it sends: what was sent is not sent again, and what was not is, in the middle of a request too."""
    source = stream("lasting", x="int64", text="string")
    query = Query("lasting").source(source).filter("all", col("x") >= 0).output("lasting_out")
    running = cluster.deploy(query.options(recover="on-commit", checkpoint="100ms"))

    def post(key: int) -> bool:
        rows = [{"x": key * 1000 + i, "text": "x" * 1000} for i in range(1000)]
        answer = client.post("/streams/lasting/records", json=rows, headers={"idempotency-key": str(key)})
        return answer.status_code == 202 and answer.json() == {"rows": 1000}

    with running.subscribe("lasting_out") as reader, ThreadPoolExecutor(1) as pool:
        assert post(0)
        posted = pool.submit(post, 1)
        os.kill(dict(cluster.processes())["gateway"], signal.SIGKILL)
        posted.result()
        until(lambda: post(1))
        assert post(0)
        until(lambda: client.post("/streams/lasting/records?end=true", json=[]).status_code == 202)
        found = [row["x"] for batch in reader for row in batch.to_pylist()]
    assert sorted(found) == list(range(2000))


@pytest.mark.anyio
async def test_a_slow_query_holds_up_its_publishers_and_no_other(cluster: LocalCluster) -> None:
    """They are told whether their rows were taken."""
    source = stream("held", text=str)
    running = cluster.deploy(Query("held").source(source).map("m", text=col("text")).output("held_out"))
    cluster.declare(stream("free", x="int64"))
    gateway, rows = Gateway(cluster, sent_s=2.0), json.dumps([{"text": "x" * 500_000}] * 2).encode()
    with running.subscribe("held_out", budget_bytes=100_000) as slow:
        told: list[str] = []
        while not told or "none of these were taken" not in told[-1]:
            try:
                await gateway.publish("held", rows, json_list)
            except Slow as error:
                told.append(str(error))
        assert "these rows were taken" in told[-2]
        free = [gateway.publish("free", b'[{"x": 1}]', json_list, end=True) for _ in range(3)]
        assert await asyncio.gather(*free) == [1, 1, 1] and "free" not in gateway.publishing
        assert slow.next_batch(timeout=60)
        running.stop()
    await gateway.settle()


def test_what_a_reader_leaves_lying_waits_where_it_came_from(cluster: LocalCluster) -> None:
    """Of each instance there is no more here than its window, and the message that goes beyond; all of it comes when it is read."""
    taken = stream("taken", n="int64", ts="timestamp[ms]", event_time="ts", disorder="0s")
    running, window, sent = (
        cluster.deploy(Query("as-it-is").source(taken).map("m", n=col("n"), text=col("n")).output("all")),
        1 << 14,
        20_000,
    )
    with cluster.subscribe("all", window_bytes=window) as answers:
        with cluster.publisher("taken") as out:
            for k in range(0, sent, 100):
                out.send([{"n": n, "ts": n} for n in range(k, k + 100)])
        running.wait()
        lying = [answers.messages.get() for _ in range(answers.messages.qsize())]
        sizes: dict[int, list[int]] = {}
        for message in filter(None, lying):
            sizes.setdefault(message[0].channel, []).append(len(message[1] or b""))
        assert sizes and all(sum(each[:-1]) <= window for each in sizes.values())
        for message in lying:
            answers.messages.put(message)
        assert sum(batch.num_rows for batch in answers) == sent
    running.delete()


def test_the_examples_of_frames(cluster: LocalCluster) -> None:
    """Those of docs/clients.md, with rows that come before each."""
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/clients.md").read_text(), re.DOTALL)
    asking, _, defining = code.partition("\n\n")
    there: dict[str, Any] = {}
    exec(defining, there)
    source = stream("framed", ip=str, n=int)
    running = cluster.deploy(Query("frames").source(source).map("m", ip=col("ip"), n=col("n")).output("frames.out"))
    with running.subscribe("frames.out") as answers, cluster.publisher("framed", keep_open=True) as out:
        found = []
        for n, line in enumerate(filter(None, asking.splitlines())):
            out.send([{"ip": "a", "n": n}])
            until(lambda: not answers.messages.empty())
            found.append(eval(line, {"answers": answers}))
        table, pandas, polars = found
        assert (table.to_pylist(), pandas.to_dict("records")) == ([{"ip": "a", "n": 0}], [{"ip": "a", "n": 1}])
        assert polars.to_dicts() == [{"ip": "a", "n": 2}]
        assert "<td>a</td><td>2</td>" in answers._repr_html_() and "query frames: running" in running._repr_html_()
        out.send([{"ip": "b", "n": 3}])
        out.close()
        assert asyncio.run(there["follow"](answers)) == 1


# Answers as events


def events_of(lines: Iterator[str]) -> Iterator[tuple[str, str, Any]]:
    """Name, id and data of each, as `EventSource` reads them."""
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if name:
            fields[name] = value
        elif line == "" and "data" in fields:
            yield fields.pop("event", "message"), fields["id"], json.loads(fields.pop("data"))


def test_events_of_a_query_that_does_not_recover(cluster: LocalCluster, client: httpx.Client) -> None:
    """As the page has them; a client that has gone leaves nothing, and cannot go on where it was."""
    page = (ROOT / "docs/rest.md").read_text().partition("/streams/per_ip/events\n")[2].partition("```")[0]
    cluster.deploy(replace(QUERY, name="events").output("per_ip_too"))
    with client.stream("GET", "/streams/per_ip/events") as answer, client.stream("GET", "/streams/per_ip_too/events") as gone:
        assert answer.headers["content-type"].startswith("text/event-stream")
        gone.close()
        client.post("/streams/visits/records?end=true", json=[{"ip": "10.0.0.1", "ts": "2023-11-14T22:13:20Z"}])
        assert "".join(answer.iter_text()) == page.rstrip() + "\n\n"
    until(lambda: not any(each["subscriptions"] for each in cluster.figures()["instances"] if each["query"] == "events"))
    missed = client.get("/streams/per_ip/events", headers={"Last-Event-ID": "no-token"})
    assert (missed.status_code, missed.json()["error"]) == (409, "Conflict") and "rows may have been missed" in missed.json()["detail"]
    assert client.get("/streams/per_ip/events", headers={"Last-Event-ID": "cep1-x"}).status_code == 422


def test_an_event_may_be_larger_than_what_is_held_of_several(cluster: LocalCluster, client: httpx.Client) -> None:
    source = stream("broad", n=int, more=int, ts="timestamp[ms]", event_time="ts", disorder="0s")
    running = cluster.deploy(Query("broadens").source(source).map("m", n=col("n"), more=col("more")).output("broad.out"))
    numbers = np.arange(150_000)
    with client.stream("GET", "/streams/broad.out/events") as answer:
        with cluster.publisher("broad") as out:
            out.send(pa.table({"n": numbers, "more": numbers + 10**15, "ts": numbers}))
        events = list(events_of(answer.iter_lines()))
    assert [name for name, _, _ in events][-1] == "end" and max(len(json.dumps(rows)) for _, _, rows in events) > HELD_BYTES
    assert [row["n"] for _, _, rows in events[:-1] for row in rows] == numbers.tolist()
    running.delete()


def test_events_go_on_behind_the_last_that_was_read(cluster: LocalCluster, client: httpx.Client) -> None:
    """And what breaks the stream is said, with an id too."""
    source = stream("kept", n=int, ts="timestamp[ms]", event_time="ts", disorder="0s")
    query = Query("keeps").source(source).map("m", n=col("n")).output("kept.out").options(recover="on-commit", checkpoint="100ms")
    running = cluster.deploy(query)
    last, found = "", list[int]()
    with client.stream("GET", "/streams/kept.out/events?timeout=0.1") as answer:  # begins, and takes no rows
        last = re.findall(r"id: (\S+)", "".join(answer.iter_text()))[-1]
    for n in range(3):
        client.post("/streams/kept/records", json=[{"n": n, "ts": n}])
        with client.stream("GET", "/streams/kept.out/events", headers={"Last-Event-ID": last}) as answer:
            name, last, rows = next(events_of(answer.iter_lines()))
            assert name == "message"
            found += [row["n"] for row in rows]
    assert found == [0, 1, 2]
    client.post("/streams/kept/records?end=true", json=[])
    with client.stream("GET", "/streams/kept.out/events", headers={"Last-Event-ID": last}) as answer:
        ((name, last, data),) = events_of(answer.iter_lines())
    assert (name, data) == ("end", {})
    assert client.get("/streams/kept.out/events", headers={"Last-Event-ID": last}).status_code == 204
    assert running.wait().status()["state"] == "ended"
    running.delete()
    stopped = cluster.deploy(Query("stops").source(source).map("m", n=col("n")).output("stops.out"))
    with client.stream("GET", "/streams/stops.out/events") as answer:
        stopped.stop()
        ((name, _, data),) = events_of(answer.iter_lines())
    assert (name, data["error"]) == ("error", "QueryStopped")


@pytest.mark.anyio
async def test_a_reader_of_events_that_does_not_keep_up_is_told(cluster: LocalCluster) -> None:
    """Nothing waits for it, and no more is held for it than there is room."""
    gateway, large = Gateway(cluster), stream("large", text=str)
    cluster.deploy(Query("large").source(large).map("m", text=col("text")).output("large.out"))
    reader = await gateway.watch("large.out", None)
    assert reader is not None

    def send() -> None:
        with cluster.publisher("large") as out:
            for _ in range(20):
                out.send([{"text": "x" * 500_000}])

    await asyncio.to_thread(send)
    await asyncio.to_thread(cluster.query("large").wait)
    while gateway.watching:
        await asyncio.wait([task for task in gateway.watching.values() if task is not None])
    found = list(events_of(iter("".join([chunk.decode() async for chunk in reader.chunks(None)]).split("\n"))))
    *_, (name, _, data) = found
    assert (name, data["error"]) == ("error", "Slow") and "rows are missing from here on" in data["detail"]
    sizes = [sum(len(row["text"]) for row in rows) for _, _, rows in found[:-1]]  # an event has as many rows as came together
    assert sum(sizes[:-2]) <= HELD_BYTES < sum(sizes[:-1])


def test_what_was_read_can_be_published(cluster: LocalCluster, client: httpx.Client) -> None:
    """Of every type."""
    types = {"b": "bool", "i": "int32", "k": "int64", "f": "float64", "s": "string", "x": "binary", "t": "timestamp", "m": "timestamp[ms]"}
    types |= {f"l{name}": f"list<{of}>" for name, of in types.items()}
    first, again = (stream(name, {name: f"{of}?" for name, of in types.items()}) for name in ("first", "again"))
    cluster.deploy(Query("copies").source(first).output("first.out").source(again).output("again.out"))
    one = {"b": True, "i": -5, "k": 2**63 - 1, "f": "-inf", "s": "ä", "x": "00ff", "t": "+012345-01-01T00:00:00.000001+00:00", "m": 5}
    rows = [one | {f"l{name}": [value, None] for name, value in one.items()}, {"f": "nan", "lt": []}, dict.fromkeys(types)]
    for name in ("first", "again"):
        client.get(f"/streams/{name}.out/answers?reader=a")
    assert client.post("/streams/first/records?end=true", json=rows).json() == {"rows": 3}
    read = all_answers(client, "first.out", "a")
    assert read[0] == rows[0] | {"m": "1970-01-01T00:00:00.005000+00:00", "lm": ["1970-01-01T00:00:00.005000+00:00", None]}
    assert client.post("/streams/again/records?end=true", json=read).json() == {"rows": 3}
    assert all_answers(client, "again.out", "a") == read
