"""MQTT 5 with a real mosquitto: the suites, and a session that outlives its process."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest
from pydantic import ValidationError

from connectors.conformance import SinkBench, SinkSuite, SourceBench, SourceSuite
from connectors.conformance.sink_suite import batch_of
from connectors.contract import ConnectorError
from connectors.shipped.mqtt import MqttIn, MqttReader
from tests.support.waiting import HANG_S, until

MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")
pytestmark = pytest.mark.skipif(MOSQUITTO is None, reason="needs mosquitto")
TOPICS = count()


class Mosquitto:
    """A broker; its sessions do not outlive it."""

    def __init__(self, folder: Path, rights: str = "") -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.config = folder / "mosquitto.conf"
        self.config.write_text(f"listener {self.port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\nmax_inflight_messages 0\n")
        if rights:
            (folder / "rights").write_text(rights)
            (folder / "rights").chmod(0o600)
            self.config.write_text(f"{self.config.read_text()}acl_file {folder}/rights\nuser root\n")  # or it could not read them
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen([str(MOSQUITTO), "-c", str(self.config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(self._answers)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait(HANG_S)

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    made = Mosquitto(tmp_path_factory.mktemp("mosquitto"))
    yield made
    made.stop()


class Listener:
    """All that comes to a topic from now on."""

    def __init__(self, broker: Mosquitto, topic: str) -> None:
        self.messages: list[mqtt.MQTTMessage] = []
        subscribed: list[object] = []
        self.client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
        self.client.on_message = lambda client, data, message: self.messages.append(message)
        self.client.on_subscribe = lambda *given: subscribed.append(given)
        self.client.connect("127.0.0.1", broker.port)
        self.client.subscribe(topic, 1)
        self.client.loop_start()
        until(lambda: subscribed)

    def origins(self) -> list[str]:
        return [dict(message.properties.UserProperty)["origin"] for message in self.messages]  # type: ignore[union-attr]


class MqttSinkBench(SinkBench):
    def __init__(self, broker: Mosquitto) -> None:
        self.topic = f"out/{next(TOPICS)}"
        self.end = {"connector": "mqtt", "host": "127.0.0.1", "port": broker.port, "topic": self.topic}
        self.listener = Listener(broker, self.topic)

    def seen(self) -> list[int]:
        """What was acknowledged is on its way to who listens."""
        listener, end = self.listener, Listener.__name__.encode()
        listener.client.publish(self.topic, end, 1)
        until(lambda: any(message.payload == end for message in listener.messages))
        return [json.loads(message.payload)["number"] for message in listener.messages if message.payload != end]


class TestMqttSink(SinkSuite):
    @pytest.fixture
    def bench(self, broker: Mosquitto) -> Iterator[SinkBench]:
        made = MqttSinkBench(broker)
        yield made
        made.listener.client.loop_stop()


def reader(broker: Mosquitto, topic: str, client_id: str) -> MqttReader:
    return MqttReader(MqttIn(host="127.0.0.1", port=broker.port, topic=topic, client_id=client_id))


def publish(broker: Mosquitto, topic: str, *payloads: bytes) -> None:
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    for payload in payloads:
        client.publish(topic, payload, 1).wait_for_publish(HANG_S)
    client.disconnect()
    client.loop_stop()


class MqttSourceBench(SourceBench):
    """Its session is there from the beginning, so that what is fed waits for a reader."""

    def __init__(self, broker: Mosquitto, silence_s: float) -> None:
        self.broker, self.silence_s, self.topic = broker, silence_s, f"in/{next(TOPICS)}"
        self.end = {"connector": "mqtt", "host": "127.0.0.1", "port": broker.port, "topic": self.topic, "client_id": self.topic}
        reader(broker, self.topic, self.topic).close()

    def feed(self, values: Sequence[bytes]) -> None:
        publish(self.broker, self.topic, *values)


class TestMqttSource(SourceSuite):
    @pytest.fixture(params=[0.2, pytest.param(30.0, marks=pytest.mark.long)])
    def bench(self, request: pytest.FixtureRequest, broker: Mosquitto) -> SourceBench:
        return MqttSourceBench(broker, request.param)


def taken(asked: MqttReader, number: int) -> list[bytes]:
    found: list[bytes] = []
    until(lambda: found.extend(asked.poll(number - len(found), 0.2).values) or len(found) >= number)
    return found


def test_what_was_not_taken_over_comes_again(broker: Mosquitto) -> None:
    """To the next process, in the same session; what was does not."""
    first = reader(broker, "in/#", "one")
    publish(broker, "in/a", b"1", b"2")
    publish(broker, "in/b", b"3")
    assert taken(first, 2) == [b"1", b"2"]
    first.committed(first.taken)
    polled = until(lambda: first.poll(2, 1.0))
    assert list(polled.values) == [b"3"] and polled.called is not None and polled.called(0) == "in/b@2"
    first.close()
    publish(broker, "in/a", b"4")
    second = reader(broker, "in/#", "one")
    assert taken(second, 2) == [b"3", b"4"]
    second.close()


def test_rows_have_their_origins(broker: Mosquitto) -> None:
    bench = MqttSinkBench(broker)
    for _ in range(2):
        writer = bench.sink().open("c", 1)
        writer.write(*batch_of(3))
        writer.commit("4")
        writer.close()
    until(lambda: len(bench.listener.messages) == 14)
    assert bench.listener.origins() == [f"q.1.l.0.3-{at}" for at in range(7)] * 2
    bench.listener.client.loop_stop()


def test_a_broker_that_goes_is_said(tmp_path: Path) -> None:
    own = Mosquitto(tmp_path)
    asked = reader(own, "in", "two")
    own.stop()
    with pytest.raises(ConnectorError, match="the connection was lost"):
        until(lambda: asked.poll(1, 0.2))
    asked.close()
    with pytest.raises(ConnectorError, match=f"127.0.0.1:{own.port}: .*refused"):
        reader(own, "in", "two")


class Refusing:
    """A broker that lets everyone in and takes no subscription, or is silent about it."""

    def __init__(self, answers: bool) -> None:
        self.listening, self.answers = socket.create_server(("127.0.0.1", 0)), answers
        self.port = self.listening.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with self.listening, self.listening.accept()[0] as peer, peer.makefile("rb") as said:
            while kind := said.read(1):
                (length,) = said.read(1)  # of the short messages that come here
                body = said.read(length)
                if kind[0] >> 4 == 1:
                    peer.sendall(b"\x20\x03\0\0\0")
                elif kind[0] >> 4 == 8 and self.answers:
                    peer.sendall(b"\x90\x04" + body[:2] + b"\0\x87")


@pytest.mark.parametrize(("answers", "said"), [(True, "Not authorized"), (False, "the broker does not answer")])
def test_a_subscription_that_is_refused_is_said_and_leaves_no_thread(answers: bool, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.shipped.mqtt.CONNECT_S", HANG_S if answers else 0.3)
    before = set(threading.enumerate())
    broker = Refusing(answers)
    with pytest.raises(ConnectorError, match=f"127.0.0.1:{broker.port}: topic 'secret/#': {said}"):
        MqttReader(MqttIn(host="127.0.0.1", port=broker.port, topic="secret/#", client_id="c"))
    assert not [each for each in set(threading.enumerate()) - before if "paho" in each.name]


@pytest.mark.parametrize("topic", ["a/#/b", "a#", "a/b+", "#/a", "++"])
def test_a_filter_that_is_none_is_refused(topic: str) -> None:
    with pytest.raises(ValidationError, match="stand for whole levels"):
        MqttIn(host="x", topic=topic, client_id="c")
    for good in ("a/+/b", "#", "+/+/#", "$share/g/a/#"):
        MqttIn(host="x", topic=good, client_id="c")


def test_a_message_that_is_refused_is_said(tmp_path: Path) -> None:
    """It is acknowledged all the same."""
    own = Mosquitto(tmp_path, "topic write out/open\n")
    for topic in "out/open", "out/closed":
        bench = MqttSinkBench.__new__(MqttSinkBench)
        bench.end = {"connector": "mqtt", "host": "127.0.0.1", "port": own.port, "topic": topic}
        writer = bench.sink().open("c", 1)
        writer.write(*batch_of(0))
        if topic == "out/open":
            writer.commit("1")
        else:
            with pytest.raises(ConnectorError, match="topic 'out/closed': Not authorized"):
                writer.commit("1")
        writer.close()
    own.stop()
