"""What a publisher sends: small batches, which go a short way of their own, are sent as all others are."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_data_plane import peer, plane
from test_wire import VALUES
from waiting import HANG_S, until

from cep import wire
from cep.elements import EVENT_TIME_MAX, MIN_TIME
from cep.errors import ClusterError, DataError
from cep.local_sockets import LocalSockets
from cep.model.expr import col
from cep.model.schema import Schema
from cep.model.streams import Stream
from cep.plan.route import Route
from cep.wire import Header
from driver.data import DataPlane
from driver.gateway import Publishing
from driver.publisher import Publisher
from driver.small_batches import ROWS_MAX

__all__ = ["peer", "plane"]  # fixtures

SCHEMA = Schema.of({"k": str, "n": "int32?", "x": "float64", "ts": "timestamp[us]", "late": "timestamp[us]?"})
LIMIT = 1 << 30
Message = tuple[Header, bytes]


def publisher(plane: DataPlane, stream: Stream, name: str = "p") -> Publisher:
    return Publisher(plane, stream, name, True, lambda *_: None)


def opened(made: Publisher, peer: LocalSockets, *readers: dict[str, Any], limit: int = LIMIT) -> Publisher:
    """At `readers`, which have answered."""
    usual = {"query": "q", "endpoint": peer.endpoint, "instance": 0, "replica": 0, "route": None}
    for reader in made.ask([usual | each for each in readers]):
        answer = {"here": True, "limit": limit}
        made._heard(reader, Header(wire.OPENED, reader.channel, watermark=MIN_TIME), wire.to_json(answer))
    return made


def arrived(peer: LocalSockets, count: int) -> list[Message]:
    """That many elements of streams; those that say who opens, and that we live, are not counted."""
    found: list[Message] = []
    while len(found) < count:
        peer.park(int(HANG_S * 1000))
        while (message := peer.receive()) is not None:
            found += [(message[0], bytes(message[1]))] * (message[0].kind < wire.CREDIT)
    return found


@st.composite
def rows(draw: st.DrawFn) -> pa.RecordBatch:
    """Of SCHEMA, a part of a batch, with or without NULLs where they are allowed."""
    n, skip, behind = draw(st.integers(1, 20)), draw(st.integers(0, 9)), draw(st.integers(0, 9))
    nulls = draw(st.booleans())
    times = st.one_of(st.integers(-(10**9), 10**15), st.sampled_from((EVENT_TIME_MAX, EVENT_TIME_MAX + 1, MIN_TIME)))
    arrays = []
    for field in SCHEMA.fields:
        value: st.SearchStrategy[Any] = times if field.type.name == "timestamp" else VALUES[field.type.name]
        value = st.none() | value if nulls and field.nullable else value
        size = n + skip + behind
        arrays.append(pa.array(draw(st.lists(value, min_size=size, max_size=size)), field.type.arrow).slice(skip, n))
    declared = SCHEMA.arrow if draw(st.booleans()) else pa.schema([(field.name, field.type.arrow) for field in SCHEMA.fields])
    return pa.RecordBatch.from_arrays(arrays, schema=declared)


@pytest.mark.parametrize("time", ["ts", "late"])
@pytest.mark.parametrize("readers", [1, 2])
@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(rows(), min_size=1, max_size=4))
def test_small_batches_are_sent_as_all_are(
    plane: DataPlane, peer: LocalSockets, time: str, readers: int, batches: list[pa.RecordBatch]
) -> None:
    stream = Stream("s", SCHEMA, col(time), 1000)
    queries = [{"query": f"q{i}"} for i in range(readers)]
    short, general = (opened(publisher(plane, stream), peer, *queries) for _ in range(2))
    assert short.small is not None
    general.small = None
    sent = []
    for made in (short, general):
        assert [made.send(batch, created_ns=7) for batch in batches] == [batch.num_rows for batch in batches]
        messages = arrived(peer, len(batches) * readers)
        sent.append([(header, _rows_of(made, body), _is_quickly_read(made, body)) for header, body in messages])
    assert sent[0] == sent[1]
    assert (short.max_time, short.sent_until, short.record) == (general.max_time, general.sent_until, general.record)


def _rows_of(made: Publisher, body: bytes) -> bytes:
    """Written anew: Arrow lets texts of a part of a batch run on to the next word."""
    return bytes(made.format.encode(made.format.decode(body)))


def _is_quickly_read(made: Publisher, body: bytes) -> bool:
    assert made.format.layout is not None
    return made.format.layout.read(body) is not None


def test_time_of_ingestion(plane: DataPlane, peer: LocalSockets) -> None:
    stream = Stream("s", SCHEMA)
    made = opened(publisher(plane, stream), peer, {})
    given = pa.table({"k": ["a", "bc"] * 2, "n": [1, 2] * 2, "x": [0.5] * 4, "ts": [5] * 4, "late": [6] * 4}).cast(SCHEMA.arrow)
    for i in range(4):
        made.send(given.slice(0, i + 1).to_batches()[0])
    messages = arrived(peer, 4)
    found = [made.format.decode(body) for _, body in messages]
    assert [len(batch) for batch in found] == [1, 2, 3, 4]
    times = [batch.time.tolist() for batch in found]
    assert times == [[each[0]] * len(each) for each in times] and times == sorted(times)
    assert [header.watermark for header, _ in messages] == [each[0] for each in times]
    assert [header.stamp for header, _ in messages] == [MIN_TIME, *[each[0] for each in times[:-1]]]
    assert [header.record for header, _ in messages] == [0, 1, 3, 6]
    assert found[3].columns["x"].values.tolist() == [0.5] * 4


def test_replicas_get_their_shares_of_small_batches(plane: DataPlane, peer: LocalSockets) -> None:
    stream = Stream("s", Schema.of({"n": "int64", "ts": "timestamp[us]"}), col("ts"), 0)
    route = Route(stream.schema.fields[:1], 8, 2).to_json()
    made = opened(publisher(plane, stream), peer, *[{"instance": i, "replica": i, "route": route} for i in range(2)], {"query": "whole"})
    values = np.arange(100)
    made.send(pa.RecordBatch.from_arrays([pa.array(values), pa.array(values, pa.timestamp("us", "UTC"))], schema=stream.schema.arrow))
    by_channel = {header.channel: body for header, body in arrived(peer, 3)}
    numbered = wire.Format.published(stream, 1)
    shares = [numbered.decode(by_channel[r.channel]).columns["n"].values.tolist() for r in made.readers.values() if r.route is not None]
    assert all(shares) and sorted(shares[0] + shares[1]) == values.tolist()
    (whole,) = [made.format.decode(by_channel[r.channel]) for r in made.readers.values() if r.route is None]
    assert whole.time.tolist() == values.tolist()


def test_a_batch_that_may_not_be_small(plane: DataPlane, peer: LocalSockets) -> None:
    stream = Stream("s", Schema.of({"k": str, "n": "int64?"}))
    made = opened(publisher(plane, stream), peer, {})
    schema = pa.schema([("k", pa.string()), ("n", pa.int64())])
    with pytest.raises(DataError, match="1 NULLs where none is allowed"):
        made.send(pa.record_batch([pa.array([None], pa.string()), pa.array([1])], schema=schema))
    with pytest.raises(DataError, match="expected string, got int64"):
        made.send(pa.record_batch([pa.array([1]), pa.array([1])], names=["k", "n"]))
    assert made.record == 0
    assert made.send(pa.record_batch([pa.array(["x" * 300_000] * 10), pa.array(range(10))], schema=schema)) == 10
    assert made.send(pa.record_batch([pa.array(["x"] * (ROWS_MAX + 1)), pa.array(range(ROWS_MAX + 1))], schema=schema)) == ROWS_MAX + 1
    assert made.send(pa.record_batch([pa.array([], pa.string()), pa.array([], pa.int64())], schema=schema)) == 0
    headers = [header for header, _ in arrived(peer, 3)]
    assert [header.kind for header in headers] == [wire.BATCH] * 3
    assert [header.record for header in headers][::2] == [0, 10]


def test_closed_while_it_waits_for_credit(plane: DataPlane, peer: LocalSockets) -> None:
    stream = Stream("s", Schema.of({"n": "int64"}))
    made = opened(publisher(plane, stream), peer, {}, limit=0)
    one = pa.record_batch([pa.array([1])], schema=stream.schema.arrow)
    made.send(one)  # none is outstanding
    refused: list[ClusterError] = []

    def send() -> None:
        try:
            made.send(one)
        except ClusterError as error:
            refused.append(error)

    waiting = threading.Thread(target=send)
    waiting.start()
    until(lambda: made.changed._waiters)  # type: ignore[attr-defined]
    made.give_up()
    waiting.join(HANG_S)
    assert "was closed while it waited for credit" in str(refused[0])
    with pytest.raises(ClusterError, match="is closed; open another one"):
        made.send(one)


def test_who_was_closed_for_what_it_sent_hears_why(plane: DataPlane, peer: LocalSockets) -> None:
    with opened(publisher(plane, Stream("s", Schema.of({"n": int}))), peer, {}) as made:
        (reader,) = made.readers.values()
        made._heard(reader, Header(wire.CLOSED, reader.channel), wire.to_json({"reason": "column 'n': it lies"}))
        with pytest.raises(ClusterError, match=r"was closed by query 'q', which could not take what it sent: column 'n': it lies"):
            made.send([{"n": 1}])


def test_what_was_closed_by_its_reader_is_not_sent(plane: DataPlane, peer: LocalSockets) -> None:
    stream = Stream("s", Schema.of({"n": "int64"}))
    made = opened(publisher(plane, stream), peer, {})
    (reader,) = made.readers.values()
    made._heard(reader, Header(wire.CLOSED, reader.channel), wire.to_json({"record": 5}))
    with pytest.raises(ClusterError, match=r"silent for so long .* rows up to number 4\)"):
        made.send(pa.record_batch([pa.array([1])], schema=stream.schema.arrow))


def test_who_was_closed_by_a_reader_promises_nothing_more(plane: DataPlane, peer: LocalSockets) -> None:
    made = opened(publisher(plane, Stream("s", QUIET, col("ts"), 0)), peer, {})
    (reader,) = made.readers.values()
    made._heard(reader, Header(wire.CLOSED, reader.channel), wire.to_json({"record": 5}))
    with pytest.raises(ClusterError, match=r"silent for so long .* rows up to number 4\)"):
        made.advance(5)
    assert made.max_time == MIN_TIME


# --- silence -----------------------------------------------------------------------------------------------------------

QUIET = Schema.of({"n": "int64", "ts": "timestamp[ms]"})


def sent(made: Publisher, *times_ms: int) -> None:
    made.send([{"n": i, "ts": time} for i, time in enumerate(times_ms)])


def answer(made: Publisher, reader: Any, watermark: int, **more: Any) -> None:
    made._heard(reader, Header(wire.OPENED, reader.channel, watermark=watermark), wire.to_json({"here": True, **more}))


def test_advance_promises_without_rows(plane: DataPlane, peer: LocalSockets) -> None:
    made = opened(publisher(plane, Stream("s", QUIET, col("ts"), 2_000)), peer, {"query": "a"}, {"query": "b"})
    made.advance(5)
    made.advance(datetime(1970, 1, 1, 0, 0, 0, 4_000))  # it has passed
    made.advance("1970-01-01T00:00:00.006Z")
    told = [(header.kind, header.watermark) for header, _ in arrived(peer, 4)]
    assert told == [(wire.WATERMARK, watermark) for watermark in (5_000, 5_000, 6_000, 6_000)]
    sent(made, 6)
    (header, _), _ = arrived(peer, 2)
    assert (header.stamp, header.watermark, header.record, made.sent_until) == (8_000, 6_000, 0, 6_000)
    for wrong in (None, True, 1.5, "tomorrow", 2**62):
        with pytest.raises(DataError):
            made.advance(wrong)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="without a unit takes no integers"):
        publisher(plane, Stream("s", Schema.of({"ts": "timestamp"}), col("ts"), 0)).advance(5)
    made.give_up()
    with pytest.raises(ClusterError, match="is closed"):
        made.advance(7)


def test_silence_is_decided_once_and_numbered_among_the_rows(plane: DataPlane, peer: LocalSockets) -> None:
    stream = Stream("s", QUIET, col("ts"), 1_000, idle_after=100_000)
    made = opened(publisher(plane, stream), peer, {"query": "a"}, {"query": "b"})
    sent(made, 5, 7)
    until(lambda: made.idle)
    opened(made, peer, {"query": "c"})  # one that comes now is told, too
    heard = [(header.kind, header.sequence, header.record, header.stamp, header.watermark) for header, _ in arrived(peer, 5)]
    assert heard[:2] == [(wire.BATCH, 0, 0, MIN_TIME, 6_000)] * 2
    assert sorted(heard[2:]) == sorted([(wire.IDLE, 1, 2, 7_000, 6_000)] * 2 + [(wire.IDLE, 0, 2, 7_000, 6_000)])

    waking = threading.Thread(target=sent, args=(made, 8))
    waking.start()
    until(lambda: made.changed._waiters)  # type: ignore[attr-defined]
    for reader, watermark in zip(list(made.readers.values()), (9_000, 20_000, MIN_TIME), strict=True):
        answer(made, reader, watermark, awakes=True)
    waking.join(HANG_S)
    found = [(header.kind, header.record, header.stamp, header.watermark) for header, _ in arrived(peer, 6)]
    awake, late = (wire.WATERMARK, 2, 21_000, 20_000), (wire.BATCH, 2, 21_000, 20_000)  # its stamp starts at the greatest answer
    assert found == [awake] * 3 + [late] * 3
    assert not made.idle


def test_one_that_waits_for_credit_is_not_idle(plane: DataPlane, peer: LocalSockets) -> None:
    stream = Stream("s", QUIET, col("ts"), 0, idle_after=100_000)
    made = opened(publisher(plane, stream), peer, {}, limit=0)
    sent(made, 1)
    waiting = threading.Thread(target=sent, args=(made, 2))
    waiting.start()
    until(lambda: made.changed._waiters)  # type: ignore[attr-defined]
    looks: list[float] = []
    plane.on_tick["test"] = lambda: looks.append(made.quiet.since)
    until(lambda: len(looks) > 5)
    assert not made.idle
    (reader,) = made.readers.values()
    made._heard(reader, Header(wire.CREDIT, reader.channel, sequence=1 << 20, record=LIMIT), b"")
    waiting.join(HANG_S)
    until(lambda: made.idle)
    assert [header.kind for header, _ in arrived(peer, 3)] == [wire.BATCH, wire.BATCH, wire.IDLE]


def test_one_that_counts_as_closed_when_it_awakes_says_so(plane: DataPlane, peer: LocalSockets) -> None:
    made = opened(publisher(plane, Stream("s", QUIET, col("ts"), 0, idle_after=100_000)), peer, {})
    until(lambda: made.idle)
    (reader,) = made.readers.values()
    made._heard(reader, Header(wire.CLOSED, reader.channel), wire.to_json({"record": 0}))
    with pytest.raises(ClusterError, match="silent for so long"):
        sent(made, 1)


def test_rows_stamped_live_go_on_with_the_clock(plane: DataPlane, peer: LocalSockets) -> None:
    made = opened(publisher(plane, Stream("s", QUIET, col("ts"), 3_000_000, watermark="clock")), peer, {})
    began = time.time_ns() // 1000
    told = [header for header, _ in arrived(peer, 3)]
    assert {header.kind for header in told} == {wire.WATERMARK}
    assert sorted({header.watermark for header in told}) == [header.watermark for header in told]
    assert began - 4_000_000 < told[0].watermark and told[-1].watermark <= time.time_ns() // 1000 - 3_000_000
    made.leave()


def test_the_gateway_opens_another_where_its_publisher_counts_as_closed(plane: DataPlane, peer: LocalSockets) -> None:
    """Whoever sent is told; whoever sends next is not, for ever, what happened once."""
    stream = Stream("s", Schema.of({"n": "int64"}))
    made = [opened(publisher(plane, stream), peer, {}) for _ in range(2)]
    (reader,) = made[0].readers.values()
    writing, next_one = Publishing(), iter(made).__next__

    def send(end: bool = False) -> int:
        return writing.send(next_one, b"", lambda _: lambda out: out.send([{"n": 1}]), end)

    assert send() == 1
    made[0]._heard(reader, Header(wire.CLOSED, reader.channel), wire.to_json({"record": 1}))
    with pytest.raises(ClusterError, match=r"rows up to number 0\)"):
        send()
    assert send(end=True) == 1
    assert writing.publisher is None


def test_one_that_has_not_let_us_in_is_waited_for(plane: DataPlane, peer: LocalSockets) -> None:
    """It misses no row: nothing is sent to others only."""
    stream = Stream("s", Schema.of({"n": "int64"}))
    made = opened(publisher(plane, stream), peer, {})
    (late,) = made.ask([{"query": "late", "endpoint": peer.endpoint, "instance": 0, "replica": 0, "route": None}])
    one = pa.record_batch([pa.array([1])], schema=stream.schema.arrow)
    waiting = threading.Thread(target=made.send, args=(one,))
    waiting.start()
    until(lambda: made.changed._waiters)  # type: ignore[attr-defined]
    made._heard(late, Header(wire.OPENED, late.channel, watermark=MIN_TIME), wire.to_json({"here": True, "limit": LIMIT}))
    waiting.join(HANG_S)
    assert len(arrived(peer, 2)) == 2


def test_a_query_of_the_same_name_deployed_anew_is_another_reader(plane: DataPlane, peer: LocalSockets) -> None:
    stream = Stream("s", Schema.of({"n": "int64"}))
    made = opened(publisher(plane, stream), peer, {"epoch": 1})
    document = {"query": "q", "endpoint": peer.endpoint, "instance": 0, "replica": 0, "route": None, "epoch": 2}
    made.drop_gone([document])
    (anew,) = made.ask([document])
    assert list(made.readers.values()) == [anew] and not anew.opened


@pytest.fixture(autouse=True)
def _closed(plane: DataPlane) -> Iterator[None]:
    yield
    plane.on_beat.clear()
    plane.on_tick.clear()
