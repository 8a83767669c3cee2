"""Kafka with a real broker: the suites, and what only a broker shows.

Tests `connectors/shipped/kafka.py`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer

from connectors.conformance import SinkBench, SinkSuite, SourceBench, SourceSuite
from connectors.conformance.sink_suite import batch_of
from connectors.contract import ConnectorError, Fenced
from tests.support.kafka_broker import Broker, broker, consumed, produce
from tests.support.waiting import until

pytestmark = [pytest.mark.long, pytest.mark.skipif(not shutil.which("mvn"), reason="needs Maven")]
TOPICS = count()


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with broker(tmp_path_factory.mktemp("kafka")) as made:
        yield made


class KafkaSourceBench(SourceBench):
    silence_s = 30.0

    def __init__(self, real: Broker) -> None:
        self.real, self.topic = real, f"in-{next(TOPICS)}"
        self.end = {"connector": "kafka", "servers": real.servers, "topic": self.topic}
        real.make_topic(self.topic)

    def feed(self, values: Sequence[bytes]) -> None:
        produce(self.real.servers, self.topic, values)

    def add_partition(self, values: Sequence[bytes]) -> bool:
        self.real.add_partition(self.topic, 2)
        produce(self.real.servers, self.topic, values, partition=1)
        return True


class KafkaSinkBench(SinkBench):
    def __init__(self, real: Broker, exactly_once: bool) -> None:
        self.real, self.topic = real, f"out-{next(TOPICS)}"
        self.end = {"connector": "kafka", "servers": real.servers, "topic": self.topic, "key": "number", "exactly_once": exactly_once}
        real.make_topic(self.topic)

    def seen(self) -> list[int]:
        return [json.loads(value)["number"] for value in consumed(self.real.servers, self.topic)]


class TestKafkaSource(SourceSuite):
    @pytest.fixture
    def bench(self, real: Broker) -> SourceBench:
        return KafkaSourceBench(real)


class TestKafkaSink(SinkSuite):
    @pytest.fixture
    def bench(self, real: Broker) -> SinkBench:
        return KafkaSinkBench(real, exactly_once=True)


class TestKafkaSinkAtLeastOnce(SinkSuite):
    @pytest.fixture
    def bench(self, real: Broker) -> SinkBench:
        return KafkaSinkBench(real, exactly_once=False)


def test_what_was_aborted_is_not_read_and_numbers_have_gaps(real: Broker) -> None:
    bench = KafkaSourceBench(real)
    producer = Producer({"bootstrap.servers": real.servers, "transactional.id": "t"})
    producer.init_transactions()
    for number in range(6):
        producer.begin_transaction()
        producer.produce(bench.topic, str(number).encode(), partition=0)
        producer.flush()
        producer.abort_transaction() if number % 3 == 1 else producer.commit_transaction()
    reader = bench.source().open(f"{bench.topic}-0", None)
    values, numbers = list[bytes](), list[int]()
    while len(values) < 4:
        polled = reader.poll(10, 5.0)
        values += polled.values
        numbers += polled.numbers or ()
    assert values == [b"0", b"2", b"3", b"5"] and numbers == [0, 4, 6, 10]
    reader.close()


def test_a_broker_that_is_killed_is_waited_for(tmp_path: Path) -> None:
    with broker(tmp_path) as own:
        source, sink = KafkaSourceBench(own), KafkaSinkBench(own, exactly_once=True)
        source.feed([b"1", b"2"])
        reader, writer = source.source().open(f"{source.topic}-0", None), sink.sink().open("c", 1)
        assert until(lambda: reader.poll(5, 1.0).values) == [b"1", b"2"]
        writer.write(*batch_of(0))
        writer.commit("1")
        own.kill()
        assert len(reader.poll(5, 0.2)) == 0
        own.start()
        source.feed([b"3"])
        assert until(lambda: reader.poll(5, 1.0).values) == [b"3"]
        reader.close()
        with suppress(ConnectorError):
            writer.close()
        again = sink.sink().open("c", 2)
        assert again.token() == "1"
        again.write(*batch_of(1))
        again.commit("2")
        again.close()
        assert sorted(sink.seen()) == list(range(14))


def test_a_transaction_that_the_broker_gave_up_fences_its_writer_and_the_next_one_goes_on(real: Broker) -> None:
    """As of a process that was frozen for longer than a transaction may last; its connector is its own still, so its epoch is the same."""
    sink = KafkaSinkBench(real, exactly_once=True)
    sink.end["config"] = {"transaction.timeout.ms": "1000"}
    writer = sink.sink().open("slow", 7)
    writer.write(*batch_of(0))
    writer.commit("1")
    writer.write(*batch_of(1))

    def given_up() -> bool:
        try:
            writer.producer.produce(sink.topic, b"too late")  # type: ignore[attr-defined]
            writer.producer.flush(0.1)  # type: ignore[attr-defined]
        except KafkaException:
            return True
        return False

    until(given_up)
    with pytest.raises(Fenced, match="a later writer of 'slow' has come"):
        writer.commit("2")
    writer.close()
    again = sink.sink().open("slow", 7)
    assert again.token() == "1"
    again.write(*batch_of(1))
    again.commit("2")
    again.close()
    assert sorted(sink.seen()) == list(range(14))
