"""Apache Kafka, by librdkafka.

In: a partition of a topic is a partition, and an offset a record's number, so a place is the offset of what comes next. Transactions that
were aborted are not read.

Out: exactly once by transactions. The token is the metadata of a committed offset of the group `numa-cep.CONNECTOR`, which is written in
the transaction of the rows; the producer's transactional id is the same for every run, so the broker itself fences off the one before,
and ends what that left open.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal

import pyarrow as pa
from pydantic import Field

from connectors.contract import (
    AnswerSink,
    AnswerWriter,
    Connector,
    ConnectorError,
    ConnectorOptions,
    Fenced,
    Place,
    Polled,
    RecordReader,
    RecordSource,
    ValueFormat,
    library,
)
from connectors.formats.instants import names_of

LOG = logging.getLogger(__name__)
EXTRA = "kafka"
ANSWER_S = 10.0
COMMIT_S = 15.0
LINGER_S, MANY = 0.01, 100
METADATA_BYTES_MAX = 4096
_OURS = "numa-cep"

Servers = Annotated[str, Field(min_length=1, description="`HOST:PORT,HOST:PORT`: brokers to begin with.")]
Topic = Annotated[str, Field(min_length=1, pattern=r"^[A-Za-z0-9._-]{1,249}$")]
Further = Annotated[dict[str, str], Field(description="Further settings of librdkafka: `security.protocol`, `sasl.password` and others.")]


class KafkaIn(ConnectorOptions):
    """`from`: {"connector": "kafka", "servers": "localhost:9092", "topic": "orders", "format": "json"}"""

    servers: Servers
    topic: Topic
    start: Annotated[Literal["earliest", "latest"], Field(description="Where it begins that has read nothing yet.")] = "earliest"
    group: Annotated[str | None, Field(description="A consumer group whose offsets show, to others, how far it is.")] = None
    config: Further = Field(default_factory=dict)


class KafkaOut(ConnectorOptions):
    """`to`: {"connector": "kafka", "servers": "localhost:9092", "topic": "alarms", "key": "card", "format": "json"}"""

    servers: Servers
    topic: Topic
    key: Annotated[str | None, Field(description="The column that is the key, by which the partition is chosen.")] = None
    exactly_once: Annotated[bool, Field(description="By transactions; else at least once, with a header `origin`.")] = True
    commit_s: Annotated[float, Field(gt=0, le=30, description="A transaction is committed after so many seconds.")] = 0.2
    config: Further = Field(default_factory=dict)

    def wanted_columns(self) -> Sequence[tuple[str, str]]:
        return () if self.key is None else (("key", self.key),)


def _client(options: KafkaIn | KafkaOut, **own: Any) -> dict[str, Any]:
    """Settings; what a client has to say goes to our log."""
    ours = {key.replace("_", "."): value for key, value in own.items()}
    return {"bootstrap.servers": options.servers, "reconnect.backoff.max.ms": 1000, "logger": LOG, **options.config, **ours}


class KafkaSource(RecordSource):
    """The partitions of a topic, those too that appear."""

    replayable, numbered = True, True

    def __init__(self, options: KafkaIn, format: ValueFormat) -> None:
        self.options, self.kafka = options, library("confluent_kafka", EXTRA)
        self._asking: Any = None

    def partitions(self) -> Sequence[str]:
        self._asking = self._asking or self.kafka.Consumer(_client(self.options, group_id=_OURS))
        topic = self.options.topic
        try:
            found = self._asking.list_topics(topic, ANSWER_S).topics[topic]
        except self.kafka.KafkaException as error:
            raise ConnectorError(f"{self.options.servers}: {error.args[0].str()}") from None
        if found.error is not None and found.error.code() != self.kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise ConnectorError(f"topic {topic!r}: {found.error.str()}")
        return [f"{topic}-{number}" for number in sorted(found.partitions)]

    def open(self, partition: str, place: Place | None) -> RecordReader:
        return KafkaReader(self.options, self.kafka, int(partition.rpartition("-")[2]), place)


class KafkaReader(RecordReader):
    """One partition, which is assigned and not subscribed to: no group moves it."""

    def __init__(self, options: KafkaIn, kafka: Any, partition: int, place: Place | None) -> None:
        self.kafka, self.options, self.topic, self.partition = kafka, options, options.topic, partition
        own = {"group_id": options.group or _OURS, "enable_auto_commit": False, "auto_offset_reset": "error"}
        self.consumer = kafka.Consumer(_client(options, **own, isolation_level="read_committed"))
        try:
            self.next = self._begin() if place is None else int(place)
            self.consumer.assign([self._at(self.next)])
        except kafka.KafkaException as error:
            self.consumer.close()
            raise ConnectorError(f"{self.topic}/{partition}: {error.args[0].str()}") from None

    def poll(self, rows_max: int, timeout_s: float) -> Polled:
        found = self.consumer.consume(rows_max, 0) or self.consumer.consume(1, timeout_s)
        if found and len(found) < rows_max:  # where many come, few at a time cost as much as many
            found += self.consumer.consume(rows_max - len(found), LINGER_S if len(found) >= MANY else 0)
        if not found:
            return Polled(self.next, behind=self._behind())
        numbers = self._numbers(found)
        values = [message.value() for message in found]  # None of a tombstone
        self.next = numbers[-1] + 1
        return Polled(self.next, values, numbers=numbers, behind=self._behind(), called=partial(self._called, numbers))

    def _numbers(self, found: Sequence[Any]) -> Sequence[int]:
        """Offsets rise, so where the first and the last are as far apart as there are messages, none is missing, and no error is among
        them: then each need not be asked. Raises ConnectorError."""
        for message in (found[0], found[-1]):
            if (error := message.error()) is not None:
                raise ConnectorError(self._why(error))
        first, behind = found[0].offset(), found[-1].offset() + 1
        if behind - first == len(found):
            return range(first, behind)
        for message in found:
            if (error := message.error()) is not None:
                raise ConnectorError(self._why(error))
        return [message.offset() for message in found]

    def committed(self, place: Place) -> None:
        if self.options.group is not None:
            self.consumer.commit(offsets=[self._at(place)], asynchronous=True)

    def close(self) -> None:
        self.consumer.close()

    def _begin(self) -> int:
        """Raises KafkaException."""
        low, high = self.consumer.get_watermark_offsets(self._at(0), ANSWER_S)
        if self.options.group is not None and (known := self.consumer.committed([self._at(0)], ANSWER_S)[0].offset) >= low:
            return int(known)
        return int(low if self.options.start == "earliest" else high)

    def _at(self, offset: int) -> Any:
        return self.kafka.TopicPartition(self.topic, self.partition, offset)

    def _behind(self) -> int | None:
        _, high = self.consumer.get_watermark_offsets(self._at(0), cached=True)
        return max(high - self.next, 0) if high >= 0 else None

    def _called(self, numbers: Sequence[int], at: int) -> str:
        return f"{self.topic}/{self.partition}@{numbers[at]}"

    def _why(self, error: Any) -> str:
        where = f"{self.topic}/{self.partition}"
        if error.code() in (self.kafka.KafkaError._AUTO_OFFSET_RESET, self.kafka.KafkaError.OFFSET_OUT_OF_RANGE):
            gone = f"the record at offset {self.next} is not there any more, or not yet"
            return f"{where}: {gone}; give the connector another name to begin anew"
        return f"{where}: {error.str()}"


class KafkaSink(AnswerSink):
    """A topic."""

    def __init__(self, options: KafkaOut, format: ValueFormat) -> None:
        self.options, self.format = options, format
        self.kafka = library("confluent_kafka", EXTRA)

    @property
    def keeps_tokens(self) -> bool:
        return self.options.exactly_once

    @property
    def commit_s(self) -> float:
        return self.options.commit_s

    def open(self, name: str, epoch: int) -> AnswerWriter:
        make = TransactionalWriter if self.options.exactly_once else KafkaWriter
        return make(self.options, self.format, self.kafka, name, epoch)


class KafkaWriter(AnswerWriter):
    """At least once: what was written is there when the broker says so. Each message has its row's origin as a header."""

    def __init__(self, options: KafkaOut, format: ValueFormat, kafka: Any, name: str, epoch: int) -> None:
        self.options, self.format, self.kafka = options, format, kafka
        self.failed: str = ""
        self.producer = self._producer(name)

    def _producer(self, name: str) -> Any:
        return self.kafka.Producer(_client(self.options, enable_idempotence=True, linger_ms=5))

    def write(self, rows: pa.RecordBatch, origin: str) -> None:
        values, keys = self.format.encode(rows), self._keys(rows)
        for at, (value, key) in enumerate(zip(values, keys, strict=True)):
            self._produce(value, key, [("origin", f"{origin}-{at}".encode())])

    def commit(self, token: str) -> None:
        left = self.producer.flush(COMMIT_S)
        if left or self.failed:
            failed, self.failed = self.failed or f"{left} messages were not taken within {COMMIT_S:g} s", ""
            raise ConnectorError(f"topic {self.options.topic!r}: {failed}")

    def abort(self) -> None:
        self.producer.purge()

    def close(self) -> None:
        self.producer.purge()
        self.producer.flush(0)

    def _keys(self, rows: pa.RecordBatch) -> Sequence[bytes | None]:
        if self.options.key is None:
            return [None] * rows.num_rows
        if self.options.key not in rows.schema.names:
            raise ConnectorError(f"key: the stream has no column {self.options.key!r}; it has {', '.join(rows.schema.names)}")
        return [None if text is None else text.encode() for text in names_of(rows.column(self.options.key))]

    def _produce(self, value: bytes, key: bytes | None, headers: list[tuple[str, bytes]] | None = None) -> None:
        more: Mapping[str, Any] = {} if headers is None else {"headers": headers}
        while True:
            try:
                self.producer.produce(self.options.topic, value, key, on_delivery=self._delivered, **more)
                return
            except BufferError:  # its queue is full
                self.producer.poll(0.1)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failed = self.failed or error.str()


class TransactionalWriter(KafkaWriter):
    """Exactly once. The metadata of the group's offset is `EPOCH:TOKEN`."""

    def __init__(self, options: KafkaOut, format: ValueFormat, kafka: Any, name: str, epoch: int) -> None:
        self.group, self.epoch, self.name = f"{_OURS}.{name}", epoch, name
        super().__init__(options, format, kafka, name, epoch)
        self.begun = False
        self.consumer = kafka.Consumer(_client(options, group_id=self.group, enable_auto_commit=False))
        try:
            self.kept = self._kept()
            self._do(lambda: self.producer.init_transactions(ANSWER_S))
            self.kept = self._kept()  # as the writer before has left it, which can commit nothing any more
            self.commit(self.kept or "")
        except BaseException:
            self.close()
            raise

    def _producer(self, name: str) -> Any:
        return self.kafka.Producer(_client(self.options, transactional_id=self.group, linger_ms=5))

    def token(self) -> str | None:
        return self.kept or None

    def write(self, rows: pa.RecordBatch, origin: str) -> None:
        self._begin()
        for value, key in zip(self.format.encode(rows), self._keys(rows), strict=True):
            self._produce(value, key)
        self.producer.poll(0)

    def commit(self, token: str) -> None:
        said = f"{self.epoch}:{token}"
        if len(said) > METADATA_BYTES_MAX:
            raise ConnectorError(
                f"so many instances put the stream out that a token has {len(token)} bytes, and a broker keeps {METADATA_BYTES_MAX} with "
                "an offset: say exactly_once: false, or give the output fewer instances"
            )
        self._begin()
        at = self.kafka.TopicPartition(self.options.topic, 0, 0, said)
        self._do(lambda: self.producer.send_offsets_to_transaction([at], self.consumer.consumer_group_metadata(), ANSWER_S))
        self._do(lambda: self.producer.commit_transaction(ANSWER_S))
        self.begun, self.kept = False, token

    def abort(self) -> None:
        if self.begun:
            self.begun = False
            self._do(lambda: self.producer.abort_transaction(ANSWER_S))

    def close(self) -> None:
        aside(self.producer.purge)  # an open transaction is aborted by the next writer, or by the broker
        aside(self.consumer.close)

    def _begin(self) -> None:
        if not self.begun:
            self._do(self.producer.begin_transaction)
            self.begun = True

    def _kept(self) -> str | None:
        """Raises ConnectorError; Fenced: a later writer has come."""
        try:
            (found,) = self.consumer.committed([self.kafka.TopicPartition(self.options.topic, 0)], ANSWER_S)
        except self.kafka.KafkaException as error:
            raise ConnectorError(f"group {self.group!r}: {error.args[0].str()}") from None
        epoch, _, token = (found.metadata or "0:").partition(":")
        if int(epoch) > self.epoch:
            raise Fenced(f"topic {self.options.topic!r}: a later writer of {self.name!r} has come: epoch {epoch}, ours is {self.epoch}")
        return token or None

    def _do(self, call: Callable[[], Any]) -> None:
        """In a thread of its own, for some calls of librdkafka never return when a broker was killed under them: then all is begun anew."""
        try:
            answer = aside(call).get(timeout=COMMIT_S)
            if answer is not None:
                raise answer
        except queue.Empty:
            raise ConnectorError(f"topic {self.options.topic!r}: the broker did not answer within {COMMIT_S:g} s") from None
        except self.kafka.KafkaException as wrong:
            error, kinds = wrong.args[0], self.kafka.KafkaError
            if error.code() in (kinds._FENCED, kinds.INVALID_PRODUCER_EPOCH, kinds.PRODUCER_FENCED):
                raise Fenced(f"topic {self.options.topic!r}: a later writer of {self.name!r} has come") from None
            raise ConnectorError(f"topic {self.options.topic!r}: {error.str()}") from None


def aside(call: Callable[[], Any]) -> queue.Queue[Exception | None]:
    """Calls it in a thread; what it raises, or None, comes when it has returned."""
    answer: queue.Queue[Exception | None] = queue.Queue()

    def run() -> None:
        try:
            call()
            answer.put(None)
        except Exception as error:
            answer.put(error)

    threading.Thread(target=run, name="kafka-aside", daemon=True).start()
    return answer


KAFKA = Connector(KafkaIn, KafkaSource, KafkaOut, KafkaSink)
