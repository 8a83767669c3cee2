"""Kafka in, a window, Kafka out, with a real broker: the connectors' process, the broker and instance managers are killed, and each
answer is in the topic once.

Tests `connectors/shipped/kafka.py`.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from driver import LocalCluster
from tests.cluster.test_connectors import KEYS, kill, query, record, state
from tests.support.kafka_broker import broker, consumed, produce
from tests.support.waiting import until

pytestmark = [pytest.mark.long, pytest.mark.timeout(400), pytest.mark.skipif(not shutil.which("mvn"), reason="needs Maven")]
ROUNDS, ROWS, PARTITIONS = 12, 2000, 2


def value(i: int) -> bytes:
    return json.dumps(record(i)).encode()


def test_each_answer_is_in_the_topic_once_whatever_is_killed(tmp_path: Path) -> None:
    expected: Counter[tuple[int, int]] = Counter()
    with broker(tmp_path) as kafka, LocalCluster(2) as cluster:
        kafka.make_topic("in", PARTITIONS)
        kafka.make_topic("out", 3)
        ends = {"connector": "kafka", "servers": kafka.servers}
        cluster.connect({"name": "out", "stream": "k.out", "to": ends | {"topic": "out", "key": "key"}})
        until(lambda: state(cluster, "out")["error"] == "no query puts the stream out")
        running = cluster.deploy(query("k", parallelism=2))
        cluster.connect({"name": "in", "stream": "k.in", "from": ends | {"topic": "in"}})
        for number in range(ROUNDS):
            seen = len(consumed(kafka.servers, "out"))
            records = range(number * ROWS, (number + 1) * ROWS)
            expected.update((i * 10 // 2000, i % KEYS) for i in records)
            for partition in range(PARTITIONS):
                bad = [b"nonsense"] if number == 2 else []
                produce(kafka.servers, "in", [*bad, *(value(i) for i in records if i % PARTITIONS == partition)], partition)
            until(lambda seen=seen: len(consumed(kafka.servers, "out")) > seen, 90)
            if number in (3, 6, 9):
                kill(cluster, "connectors")
            if number in (5, 9):
                kill(cluster, running.status()["placed"][0]["im"])
            if number in (4, 8):
                kafka.kill()
                kafka.start()
        for partition in range(PARTITIONS):
            produce(kafka.servers, "in", [value(ROUNDS * ROWS + 1000)], partition)
        until(lambda: len(consumed(kafka.servers, "out")) >= len(expected), 90)
        found = [json.loads(each) for each in consumed(kafka.servers, "out")]
        assert sum(row["visits"] for row in found) == ROUNDS * ROWS
        assert Counter((row["start"], row["key"]) for row in found).most_common(1)[0][1] == 1
        assert len(found) == len(expected)
