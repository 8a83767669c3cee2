"""The shell of a publisher: rows as messages, threads that wait, and the clock. What readers say: `test_publisher_core`.

Tests `publisher.py`, `published_rows.py`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cep.elements import EVENT_TIME_MAX, MIN_TIME
from cep.errors import ClusterError, DataError
from cep.model.expr import col
from cep.model.schema import Schema
from cep.model.streams import Stream
from cep.plan.route import Route
from cep.transport import wire
from cep.transport.local import LocalSockets
from cep.transport.wire import Header
from cep.world.clock import ManualClock
from driver.gateway_keys import IN_MEMORY, KeyFile
from driver.gateway_rows import GatewayPublisher
from driver.streams.data_plane import DataPlane
from driver.streams.publisher import Publisher, Wait
from driver.streams.readers import StreamReader
from driver.streams.small_batches import ROWS_MAX
from tests.cep.transport.test_wire import VALUES
from tests.driver.streams.test_data_plane import peer, plane
from tests.support.waiting import HANG_S, until

__all__ = ["peer", "plane"]  # fixtures

SCHEMA = Schema.of({"k": str, "n": "int32?", "x": "float64", "ts": "timestamp[us]", "late": "timestamp[us]?"})
LIMIT = 1 << 30
Message = tuple[Header, bytes]


def publisher(plane: DataPlane, stream: Stream, name: str = "p") -> Publisher:
    return Publisher(plane, stream, name, True, lambda *_: None)


def opened(
    made: Publisher,
    peer: LocalSockets,
    *readers: dict[str, Any],
    limit: int = LIMIT,
    said: Callable[[StreamReader], dict[str, Any]] = lambda _: {},
) -> Publisher:
    """At `readers`, which have answered, and `said` so much more."""
    usual = {"query": "q", "endpoint": peer.endpoint, "instance": 0, "replica": 0, "route": None, "epoch": 1}
    for reader in made.ask([usual | each for each in readers]):
        answer = {"here": True, "limit": limit, "volatile": True, **said(reader)}
        made._heard(Header(wire.OPENED, reader.channel, watermark=MIN_TIME), wire.to_json(answer))
    return made


def arrived(peer: LocalSockets, count: int, kinds: Collection[int] = range(wire.CREDIT)) -> list[Message]:
    """That many elements of streams, or messages of these kinds; those that open it, and that say that we live, are not counted."""
    found: list[Message] = []
    while len(found) < count:
        peer.park(int(HANG_S * 1000))
        while (message := peer.receive()) is not None:
            found += [(message[0], bytes(message[1]))] * (message[0].kind in kinds)
    return found


@st.composite
def rows(draw: st.DrawFn) -> pa.RecordBatch:
    """Rows of SCHEMA, a part of a batch, with or without NULLs where they are allowed."""
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
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(rows(), min_size=1, max_size=4))
def test_small_batches_are_sent_as_all_are(
    plane: DataPlane, peer: LocalSockets, time: str, readers: int, batches: list[pa.RecordBatch]
) -> None:
    stream = Stream("s", SCHEMA, col(time), 1000)
    queries = [{"query": f"q{i}"} for i in range(readers)]
    short, general = (opened(publisher(plane, stream), peer, *queries) for _ in range(2))
    assert short.rows.small is not None
    general.rows.small = None
    sent = []
    for made in (short, general):
        assert [made.send(batch, created_ns=7) for batch in batches] == [batch.num_rows for batch in batches]
        messages = arrived(peer, len(batches) * readers)
        sent.append([(header, _rows_of(made, body), _is_quickly_read(made, body)) for header, body in messages])
    assert sent[0] == sent[1]
    one, other = short.core.numbering, general.core.numbering
    assert (one.max_time, one.sent_until, one.record) == (other.max_time, other.sent_until, other.record)


def _rows_of(made: Publisher, body: bytes) -> bytes:
    """Written anew: Arrow lets texts of a part of a batch run on to the next word."""
    return bytes(made.rows.format.encode(made.rows.format.decode(body)))


def _is_quickly_read(made: Publisher, body: bytes) -> bool:
    assert made.rows.format.layout is not None
    return made.rows.format.layout.read(body) is not None


def test_time_of_ingestion(plane: DataPlane, peer: LocalSockets) -> None:
    stream = Stream("s", SCHEMA)
    made = opened(publisher(plane, stream), peer, {})
    given = pa.table({"k": ["a", "bc"] * 2, "n": [1, 2] * 2, "x": [0.5] * 4, "ts": [5] * 4, "late": [6] * 4}).cast(SCHEMA.arrow)
    for i in range(4):
        made.send(given.slice(0, i + 1).to_batches()[0])
    messages = arrived(peer, 4)
    found = [made.rows.format.decode(body) for _, body in messages]
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
    shares = [
        numbered.decode(by_channel[r.channel]).columns["n"].values.tolist() for r in made.core.readers.values() if r.route is not None
    ]
    assert all(shares) and sorted(shares[0] + shares[1]) == values.tolist()
    (whole,) = [made.rows.format.decode(by_channel[r.channel]) for r in made.core.readers.values() if r.route is None]
    assert whole.time.tolist() == values.tolist()


def test_a_batch_that_may_not_be_small(plane: DataPlane, peer: LocalSockets) -> None:
    stream = Stream("s", Schema.of({"k": str, "n": "int64?"}))
    made = opened(publisher(plane, stream), peer, {})
    schema = pa.schema([("k", pa.string()), ("n", pa.int64())])
    with pytest.raises(DataError, match="1 NULL where none is allowed"):
        made.send(pa.record_batch([pa.array([None], pa.string()), pa.array([1])], schema=schema))
    with pytest.raises(DataError, match="expected string, got int64"):
        made.send(pa.record_batch([pa.array([1]), pa.array([1])], names=["k", "n"]))
    assert made.core.numbering.record == 0
    assert made.send(pa.record_batch([pa.array(["x" * 600_000] * 10), pa.array(range(10))], schema=schema)) == 10
    assert made.send(pa.record_batch([pa.array(["x"] * (ROWS_MAX + 1)), pa.array(range(ROWS_MAX + 1))], schema=schema)) == ROWS_MAX + 1
    assert made.send(pa.record_batch([pa.array([], pa.string()), pa.array([], pa.int64())], schema=schema)) == 0
    headers = [header for header, _ in arrived(peer, 3)]
    assert [header.kind for header in headers] == [wire.BATCH] * 3
    assert [header.record for header in headers][::2] == [0, 10]


def test_a_row_without_its_event_time(plane: DataPlane, peer: LocalSockets) -> None:
    """It says so, and does not advise to allow NULL, which an event time may not be."""
    timed = Stream("s", Schema.of({"ts": "timestamp[ms]", "n": "int64"}), col("ts"), 0)
    made = opened(publisher(plane, timed), peer, {})
    for rows in ([{"n": 1, "ts": 5}, {"n": 2}], [{"n": 1, "ts": 5}, {"n": 2, "ts": None}]):
        with pytest.raises(DataError, match=r"row 1: the row has no 'ts', which is its event time$"):
            made.send(rows)
    with pytest.raises(DataError, match=r'row 0: 1 NULL where none is allowed \(declare it "int64\?"\)'):
        made.send([{"n": None, "ts": 5}])


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


def test_one_that_was_closed_for_what_it_sent_hears_why(plane: DataPlane, peer: LocalSockets) -> None:
    with opened(publisher(plane, Stream("s", Schema.of({"n": int}))), peer, {}) as made:
        (reader,) = made.core.readers.values()
        made._heard(Header(wire.CLOSED, reader.channel), wire.to_json({"reason": "column 'n': it lies"}))
        with pytest.raises(ClusterError, match=r"was closed by query 'q', which could not take what it sent: column 'n': it lies"):
            made.send([{"n": 1}])


def test_what_was_closed_by_its_reader_is_not_sent(plane: DataPlane, peer: LocalSockets) -> None:
    stream = Stream("s", Schema.of({"n": "int64"}))
    made = opened(publisher(plane, stream), peer, {})
    (reader,) = made.core.readers.values()
    made._heard(Header(wire.CLOSED, reader.channel), wire.to_json({"record": 5}))
    with pytest.raises(ClusterError, match=r"silent for so long .* rows up to number 4\)"):
        made.send(pa.record_batch([pa.array([1])], schema=stream.schema.arrow))


def test_one_that_was_closed_by_a_reader_promises_nothing_more(plane: DataPlane, peer: LocalSockets) -> None:
    made = opened(publisher(plane, Stream("s", QUIET, col("ts"), 0)), peer, {})
    (reader,) = made.core.readers.values()
    made._heard(Header(wire.CLOSED, reader.channel), wire.to_json({"record": 5}))
    with pytest.raises(ClusterError, match=r"silent for so long .* rows up to number 4\)"):
        made.advance(5)
    assert made.core.numbering.max_time == MIN_TIME


# --- silence -----------------------------------------------------------------------------------------------------------

QUIET = Schema.of({"n": "int64", "ts": "timestamp[ms]"})


def sent(made: Publisher, *times_ms: int) -> None:
    made.send([{"n": i, "ts": time} for i, time in enumerate(times_ms)])


def answer(made: Publisher, reader: Any, watermark: int, **more: Any) -> None:
    made._heard(Header(wire.OPENED, reader.channel, watermark=watermark), wire.to_json({"here": True, **more}))


def test_advance_promises_without_rows(plane: DataPlane, peer: LocalSockets) -> None:
    made = opened(publisher(plane, Stream("s", QUIET, col("ts"), 2_000)), peer, {"query": "a"}, {"query": "b"})
    made.advance(5)
    made.advance(datetime(1970, 1, 1, 0, 0, 0, 4_000))  # it has passed
    made.advance("1970-01-01T00:00:00.006Z")
    told = [(header.kind, header.watermark) for header, _ in arrived(peer, 4)]
    assert told == [(wire.WATERMARK, watermark) for watermark in (5_000, 5_000, 6_000, 6_000)]
    sent(made, 6)
    (header, _), _ = arrived(peer, 2)
    assert (header.stamp, header.watermark, header.record, made.core.numbering.sent_until) == (8_000, 6_000, 0, 6_000)
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
    until(lambda: made.core.silence.idle)
    opened(made, peer, {"query": "c"})  # one that comes now is told, too
    heard = [(header.kind, header.sequence, header.record, header.stamp, header.watermark) for header, _ in arrived(peer, 5)]
    assert heard[:2] == [(wire.BATCH, 0, 0, MIN_TIME, 6_000)] * 2
    assert sorted(heard[2:]) == sorted([(wire.IDLE, 1, 2, 7_000, 6_000)] * 2 + [(wire.IDLE, 0, 2, 7_000, 6_000)])

    waking = threading.Thread(target=sent, args=(made, 8))
    waking.start()
    until(lambda: made.changed._waiters)  # type: ignore[attr-defined]
    for reader, watermark in zip(list(made.core.readers.values()), (9_000, 20_000, MIN_TIME), strict=True):
        answer(made, reader, watermark, awakes=True)
    waking.join(HANG_S)
    found = [(header.kind, header.record, header.stamp, header.watermark) for header, _ in arrived(peer, 6)]
    awake, late = (wire.WATERMARK, 2, 21_000, 20_000), (wire.BATCH, 2, 21_000, 20_000)  # its stamp starts at the greatest answer
    assert found == [awake] * 3 + [late] * 3
    assert not made.core.silence.idle


def test_one_that_waits_for_credit_is_not_idle(plane: DataPlane, peer: LocalSockets) -> None:
    stream = Stream("s", QUIET, col("ts"), 0, idle_after=100_000)
    made = opened(publisher(plane, stream), peer, {}, limit=0)
    sent(made, 1)
    waiting = threading.Thread(target=sent, args=(made, 2))
    waiting.start()
    until(lambda: made.changed._waiters)  # type: ignore[attr-defined]
    looks: list[int] = []
    plane.on_tick["test"] = lambda: looks.append(made.core.silence.since)
    until(lambda: len(looks) > 5)
    assert not made.core.silence.idle
    (reader,) = made.core.readers.values()
    made._heard(Header(wire.CREDIT, reader.channel, sequence=1 << 20, record=LIMIT), b"")
    waiting.join(HANG_S)
    until(lambda: made.core.silence.idle)
    assert [header.kind for header, _ in arrived(peer, 3)] == [wire.BATCH, wire.BATCH, wire.IDLE]


def test_one_that_counts_as_closed_when_it_awakes_says_so(plane: DataPlane, peer: LocalSockets) -> None:
    made = opened(publisher(plane, Stream("s", QUIET, col("ts"), 0, idle_after=100_000)), peer, {})
    until(lambda: made.core.silence.idle)
    (reader,) = made.core.readers.values()
    made._heard(Header(wire.CLOSED, reader.channel), wire.to_json({"record": 0}))
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
    """The sender is told; the next one is not told, for ever, what happened once."""
    stream = Stream("s", Schema.of({"n": "int64"}))
    made = [opened(publisher(plane, stream), peer, {}) for _ in range(2)]
    (reader,) = made[0].core.readers.values()
    writing, next_one = GatewayPublisher("s", KeyFile(IN_MEMORY)), iter(made).__next__

    def send(end: bool = False) -> int:
        return writing.send(next_one, lambda _: False, b"", lambda _: lambda there, out: out.send([{"n": 1}]), end, None)

    assert send() == 1
    made[0]._heard(Header(wire.CLOSED, reader.channel), wire.to_json({"record": 1}))
    with pytest.raises(ClusterError, match=r"rows up to number 0\)"):
        send()
    assert send(end=True) == 1
    assert writing.publisher is None


def test_one_that_has_not_let_us_in_is_waited_for(plane: DataPlane, peer: LocalSockets) -> None:
    """It misses no row: nothing is sent to others only."""
    stream = Stream("s", Schema.of({"n": "int64"}))
    made = opened(publisher(plane, stream), peer, {})
    (late,) = made.ask([{"query": "late", "endpoint": peer.endpoint, "instance": 0, "replica": 0, "route": None, "epoch": 1}])
    one = pa.record_batch([pa.array([1])], schema=stream.schema.arrow)
    waiting = threading.Thread(target=made.send, args=(one,))
    waiting.start()
    until(lambda: made.changed._waiters)  # type: ignore[attr-defined]
    made._heard(Header(wire.OPENED, late.channel, watermark=MIN_TIME), wire.to_json({"here": True, "limit": LIMIT}))
    waiting.join(HANG_S)
    assert len(arrived(peer, 2)) == 2


def test_a_query_of_the_same_name_deployed_anew_is_another_reader(plane: DataPlane, peer: LocalSockets) -> None:
    stream = Stream("s", Schema.of({"n": "int64"}))
    made = opened(publisher(plane, stream), peer, {"epoch": 1})
    document = {"query": "q", "endpoint": peer.endpoint, "instance": 0, "replica": 0, "route": None, "epoch": 2}
    made.drop_gone([document])
    (anew,) = made.ask([document])
    assert list(made.core.readers.values()) == [anew] and not anew.opened


# --- what is read ------------------------------------------------------------------------------------------------------

WIDE = Stream("s", Schema.of({"k": str, "n": int, "ts": "timestamp[us]"}), col("ts"), 0)


def test_a_reader_gets_of_many_rows_the_columns_that_it_reads_and_the_event_time(plane: DataPlane, peer: LocalSockets) -> None:
    """Another query gets what it reads, and few rows go as they are."""
    reads = {"one": {"reads": ["n"]}, "two": {"reads": []}, "all": {}}
    made = opened(publisher(plane, WIDE), peer, *({"query": query} for query in reads), said=lambda reader: reads[reader.query])
    channels = {reader.channel: reader.query for reader in made.core.readers.values()}
    many = pa.table({"k": ["a"] * (ROWS_MAX + 1), "n": range(ROWS_MAX + 1), "ts": range(ROWS_MAX + 1)}).cast(WIDE.schema.arrow)
    for data in (many, many.slice(0, ROWS_MAX)):
        made.send(data)
    found: dict[tuple[str, int], set[str]] = {}
    whole = wire.Format.published(WIDE)
    for header, body in arrived(peer, 6, (wire.BATCH,)):
        query = channels[header.channel]
        format_ = next(f for f in (whole, whole.of_columns(["n"]), whole.of_columns([])) if f.fingerprint == header.fingerprint)
        batch = format_.decode(body)
        found[query, len(batch)] = set(batch.columns)
        assert batch.time.tolist() == list(range(len(batch)))
    few, all_ = ROWS_MAX, {"k", "n", "ts"}
    assert found == {
        ("one", few + 1): {"n", "ts"},
        ("two", few + 1): {"ts"},
        ("all", few + 1): all_,
        **{(query, few): all_ for query in reads},
    }


# --- in turns ----------------------------------------------------------------------------------------------------------


NARROW = Stream("s", Schema.of({"ts": "timestamp[us]"}), col("ts"), 0)
PRICED = Stream("s", Schema.of({"ts": "timestamp[us]", "price": "int64?"}), col("ts"), 0)


def test_one_that_is_open_sends_a_new_column_behind_the_word_that_it_does(plane: DataPlane, peer: LocalSockets) -> None:
    made = opened(publisher(plane, NARROW), peer, {})
    made.send([{"ts": 1}])
    with pytest.raises(DataError, match="price"):
        made.send([{"ts": 2, "price": 3}])
    made.grow(PRICED)
    made.send([{"ts": 2, "price": 3}])
    told = arrived(peer, 4, (wire.BATCH, wire.OPEN))[1:]
    old, new = (wire.Format.published(each).fingerprint for each in (NARROW, PRICED))
    assert [(h.kind, h.sequence, h.fingerprint) for h, _ in told] == [(wire.BATCH, 0, old), (wire.OPEN, 1, 0), (wire.BATCH, 1, new)]
    assert wire.from_json(told[1][1])["schema"] == PRICED.schema.to_json() and told[1][0].record == len(told[0][1])


def test_replicas_are_chosen_by_a_column_that_the_publisher_does_not_know(plane: DataPlane, peer: LocalSockets) -> None:
    """As by one that knows it, and sends NULL."""
    route = Route(PRICED.schema.fields[1:], 64, 16).to_json()
    readers = [{"replica": replica, "instance": replica, "route": route} for replica in range(16)]
    chosen = []
    for stream in (NARROW, PRICED):
        made = opened(publisher(plane, stream), peer, *readers)
        made.send([{"ts": i} for i in range(5)])
        ((header, body),) = arrived(peer, 1, (wire.BATCH,))
        (reader,) = [reader for reader in made.core.readers.values() if reader.channel == header.channel]
        chosen.append((reader.replica, made.rows.numbered.decode(body).columns["ts"].values.tolist()))
    assert chosen[0] == chosen[1] == (chosen[0][0], [0, 1, 2, 3, 4])


@pytest.fixture
def still(tmp_path: Path) -> Iterator[DataPlane]:
    """A plane without a thread, and a clock that stands still."""
    made = DataPlane(LocalSockets(f"ipc://{tmp_path}/in"), ManualClock())
    yield made
    made.close()


@pytest.fixture
def reader(still: DataPlane) -> Iterator[LocalSockets]:
    sockets = LocalSockets(f"{still.endpoint}-peer")
    yield sockets
    sockets.close()


def one_row(stream: Stream) -> pa.RecordBatch:
    return pa.record_batch([pa.array([1])], schema=stream.schema.arrow)


def test_one_thread_sends_in_steps(still: DataPlane, reader: LocalSockets) -> None:
    stream = Stream("s", Schema.of({"n": "int64"}))
    made = opened(publisher(still, stream), reader, {}, limit=0)
    (known,) = made.core.readers.values()
    assert list(made.sends(one_row(stream))) == [] and not made.busy
    steps = made.sends(one_row(stream))
    wait = next(steps)
    assert made.busy and not wait.holds()
    still.turn()
    assert not wait.holds()
    reader.send(still.endpoint, Header(wire.CREDIT, known.channel, 1 << 20, record=LIMIT))
    until(lambda: still.turn() or wait.holds())
    with pytest.raises(StopIteration) as done:
        next(steps)
    assert done.value.value == 1 and made.core.numbering.record == 2 and not made.busy


def test_a_batch_waits_again_where_its_reader_has_lost_its_place_meanwhile(still: DataPlane, reader: LocalSockets) -> None:
    """Of a query that recovers: its process was killed between the look and the sending."""
    stream = Stream("s", Schema.of({"n": "int64"}))
    made = opened(publisher(still, stream), reader, {"keeps": True}, limit=0)
    (known,) = made.core.readers.values()
    assert list(made.sends(one_row(stream))) == []
    steps = made.sends(one_row(stream))
    next(steps)
    known.credit.grant(1 << 20, LIMIT, 0)
    known.lose_place()
    assert isinstance(next(steps), Wait)
    known.opened = True
    with pytest.raises(StopIteration):
        next(steps)
    assert known.sequence == 2


def test_where_no_thread_reads_the_one_that_waits_does(still: DataPlane, reader: LocalSockets) -> None:
    stream = Stream("s", Schema.of({"n": "int64"}))
    made = opened(publisher(still, stream), reader, {}, limit=0)
    (known,) = made.core.readers.values()
    made.send(one_row(stream))
    reader.send(still.endpoint, Header(wire.CREDIT, known.channel, 1 << 20, record=LIMIT))
    assert made.send(one_row(stream)) == 1


@pytest.mark.parametrize(
    ("recovers", "word"), [(True, {"here": False, "over": False}), (False, {"here": False, "over": False, "elsewhere": True})]
)
def test_a_reader_that_is_not_there_is_asked_with_each_beat(
    still: DataPlane, reader: LocalSockets, recovers: bool, word: dict[str, bool]
) -> None:
    clock = still.clock
    assert isinstance(clock, ManualClock)
    place = {"query": "q", "endpoint": reader.endpoint, "instance": 0, "replica": 0, "route": None, "epoch": 1, "keeps": recovers}
    made = publisher(still, Stream("s", QUIET, col("ts"), 0))
    (asked,) = made.ask([place])
    for _ in range(3):
        assert asked.asked
        made._heard(Header(wire.OPENED, asked.channel), wire.to_json(word))
        assert not asked.asked and made.core in still.on_beat
        clock.advance(1_000_000_000)
        still.turn()
    assert asked.asked
    clock.advance(1_000_000_000)
    still.turn()
    assert made.core not in still.on_beat, "it has been asked"


def test_silence_goes_by_the_clock_that_is_handed_in(still: DataPlane, reader: LocalSockets) -> None:
    clock = still.clock
    assert isinstance(clock, ManualClock)
    made = opened(publisher(still, Stream("s", QUIET, col("ts"), 0, idle_after=3_600_000_000)), reader, {})
    still.turn()
    clock.advance(3_599_999_999_999)
    still.turn()
    assert not made.core.silence.idle
    clock.advance(100_000_000)  # it looks ten times a second
    still.turn()
    assert made.core.silence.idle


@pytest.fixture(autouse=True)
def _closed(plane: DataPlane) -> Iterator[None]:
    yield
    plane.on_beat.clear()
    plane.on_tick.clear()
