"""A real Kafka broker in KRaft mode, from its jars, which Maven brings; and topics in it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psutil
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.support.waiting import HANG_S, until

VERSION = "4.1.1"
JARS = Path(tempfile.gettempdir()) / f"kafka-{VERSION}-jars"
_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tests</groupId><artifactId>broker</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version></dependency>
  </dependencies>
</project>
"""
_PROPERTIES = """process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{control}
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:{control}
log.dirs={folder}/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
"""


def fetch_jars() -> None:
    """Raises RuntimeError: Maven says no."""
    if (JARS / "whole").exists():
        return
    JARS.mkdir(exist_ok=True)
    (JARS / "pom.xml").write_text(_POM)
    command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={JARS}"]
    done = subprocess.run(command, cwd=JARS, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"mvn ended with status {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")
    (JARS / "whole").touch()


class Broker:
    """One of two ports, in a folder that outlives it."""

    def __init__(self, folder: Path) -> None:
        self.folder, (self.port, control) = folder, _ports(2)
        self.servers = f"127.0.0.1:{self.port}"
        self.properties = folder / "server.properties"
        self.properties.write_text(_PROPERTIES.format(port=self.port, control=control, folder=folder))
        self.process: subprocess.Popen[bytes] | None = None
        self._run("kafka.tools.StorageTool", "format", "--standalone", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", str(self.properties)).wait(
            HANG_S
        )

    def start(self) -> None:
        self.process = self._run("kafka.Kafka", str(self.properties))
        until(self._answers)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(HANG_S)

    def freeze(self) -> None:
        assert self.process is not None
        psutil.Process(self.process.pid).suspend()

    def thaw(self) -> None:
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGCONT)

    def make_topic(self, name: str, partitions: int = 1) -> None:
        admin = AdminClient({"bootstrap.servers": self.servers})
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(HANG_S)

    def add_partition(self, topic: str, total: int) -> None:
        admin = AdminClient({"bootstrap.servers": self.servers})
        admin.create_partitions([NewPartitions(topic, total)])[topic].result(HANG_S)

    def _answers(self) -> bool:
        with suppress(KafkaException):
            return bool(AdminClient({"bootstrap.servers": self.servers, "log_level": 0}).list_topics(timeout=1).brokers)
        return False

    def _run(self, *words: str) -> subprocess.Popen[bytes]:
        command = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{JARS}/*", *words]
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log)


@contextmanager
def broker(folder: Path) -> Iterator[Broker]:
    fetch_jars()
    made = Broker(folder)
    made.start()
    try:
        yield made
    finally:
        made.kill()


def produce(servers: str, topic: str, values: Sequence[bytes], partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(HANG_S) == 0


def consumed(servers: str, topic: str) -> list[bytes]:
    """All that is committed there now, partition by partition."""
    values: list[bytes] = []
    config = {"bootstrap.servers": servers, "group.id": "seen", "isolation.level": "read_committed", "enable.partition.eof": True}
    with closing(Consumer(config)) as consumer:
        for partition in consumer.list_topics(topic, HANG_S).topics[topic].partitions:
            low, _ = consumer.get_watermark_offsets(TopicPartition(topic, partition), HANG_S)
            consumer.assign([TopicPartition(topic, partition, low)])
            while (message := consumer.poll(HANG_S)) is not None and message.error() is None:
                values.append(message.value() or b"")
            assert message is not None
    return values


def _ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return found
