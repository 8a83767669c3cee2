"""Kafka with the mock cluster of librdkafka, which speaks the protocol on loopback: sources, and sinks at least once. It delivers what was
aborted, so transactions are held to by `test_kafka_broker.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from connectors.conformance import SinkBench, SinkSuite, SourceBench, SourceSuite
from connectors.conformance.sink_suite import batch_of
from connectors.contract import ConnectorError
from tests.connectors.shipped.test_kafka_broker import KafkaSinkBench, KafkaSourceBench
from tests.support.waiting import until

NAMES = count()


@dataclass
class MockCluster:
    """`broker`: lives as long as this does."""

    broker: Producer
    servers: str

    def make_topic(self, name: str) -> None:
        """It is there when it is asked for."""
        self.broker.list_topics(name, 10)


@pytest.fixture(scope="module")
def mock() -> Iterator[MockCluster]:
    broker = Producer({"bootstrap.servers": "x", "test.mock.num.brokers": 1, "log_level": 0})
    (one,) = broker.list_topics(timeout=10).brokers.values()
    yield MockCluster(broker, f"{one.host}:{one.port}")


class MockSourceBench(KafkaSourceBench):
    silence_s = 0.0

    def add_partition(self, values: object) -> bool:
        return False


class TestKafkaSource(SourceSuite):
    @pytest.fixture
    def bench(self, mock: MockCluster) -> SourceBench:
        return MockSourceBench(mock)  # type: ignore[arg-type]  # as far as is needed


class TestKafkaSinkAtLeastOnce(SinkSuite):
    @pytest.fixture
    def bench(self, mock: MockCluster) -> SinkBench:
        return KafkaSinkBench(mock, exactly_once=False)  # type: ignore[arg-type]


def test_what_is_not_there_any_more_is_said(mock: MockCluster) -> None:
    """Rows that a retention has taken are not passed over."""
    bench = MockSourceBench(mock)  # type: ignore[arg-type]
    bench.feed([b"1", b"2"])
    reader = bench.source().open(f"{bench.topic}-0", 100)
    with pytest.raises(ConnectorError, match=f"{bench.topic}/0: the record at offset 100 is not there any more, or not yet"):
        for _ in range(20):
            reader.poll(1, 1.0)
    reader.close()


def test_it_begins_where_it_is_told(mock: MockCluster) -> None:
    bench = MockSourceBench(mock)  # type: ignore[arg-type]
    bench.feed([b"1", b"2"])
    bench.end |= {"start": "latest"}
    reader = bench.source().open(f"{bench.topic}-0", None)
    bench.feed([b"3"])
    polled = reader.poll(5, 10.0)
    assert polled.called is not None and polled.numbers is not None
    assert (polled.values, list(polled.numbers), polled.place, polled.called(0)) == ([b"3"], [2], 3, f"{bench.topic}/0@2")
    reader.close()


def test_a_record_without_a_value_is_not_an_empty_one(mock: MockCluster) -> None:
    bench = MockSourceBench(mock)  # type: ignore[arg-type]
    producer = Producer({"bootstrap.servers": mock.servers})
    for value in (b"1", None, b""):
        producer.produce(bench.topic, value, b"k", partition=0)
    producer.flush(10)
    reader = bench.source().open(f"{bench.topic}-0", None)
    found = list[object]()
    until(lambda: found.extend(reader.poll(5, 1.0).values) or len(found) == 3)
    assert found == [b"1", None, b""]
    reader.close()


def test_a_broker_that_is_not_there_is_said() -> None:
    bench = MockSourceBench.__new__(MockSourceBench)
    bench.end = {"connector": "kafka", "servers": "127.0.0.1:1", "topic": "t", "config": {"socket.timeout.ms": "100"}}
    with pytest.MonkeyPatch.context() as patched, pytest.raises(ConnectorError, match=r"127.0.0.1:1: .*(transport|timed out)"):
        patched.setattr("connectors.shipped.kafka.ANSWER_S", 0.2)
        bench.source().partitions()


def test_a_key_that_is_no_column_is_said(mock: MockCluster) -> None:
    bench = KafkaSinkBench(mock, exactly_once=False)  # type: ignore[arg-type]
    bench.end |= {"key": "nmber"}
    writer = bench.sink().open("c", 1)
    rows, origin = batch_of(0)
    with pytest.raises(ConnectorError, match="key: the stream has no column 'nmber'; it has number, text"):
        writer.write(rows, origin)
    writer.close()
    assert isinstance(rows, pa.RecordBatch)
