"""MQTT 5, by paho, with QoS 1: at least once, both ways.

In: the session outlives a connection, and a message is acknowledged when the cluster has its row; what was not acknowledged when the
process was killed comes again. Out: a commit waits for the broker's acknowledgements; each message has its row's origin as a user property.
"""

from __future__ import annotations

import queue
import threading
from typing import Annotated, Any

import pyarrow as pa
from pydantic import AfterValidator, Field

from connectors.contract import (
    AnswerWriter,
    Connector,
    ConnectorError,
    ConnectorOptions,
    Place,
    Polled,
    RecordReader,
    Secret,
    ValueFormat,
    library,
)
from connectors.shipped.plain import LiveSource, TokenlessSink

EXTRA = "mqtt"
CONNECT_S, ACKNOWLEDGED_S = 10.0, 15.0
SESSION_S = 24 * 3600
UNDER_WAY_MAX = 10_000

Host = Annotated[str, Field(min_length=1, description="The broker's host.")]
Port = Annotated[int, Field(ge=1, le=65_535)]


class MqttOptions(ConnectorOptions):
    """How a broker is reached."""

    host: Host
    port: Port = 1883
    tls: Annotated[bool, Field(description="With the authorities that this machine trusts.")] = False
    username: str | None = None
    password: Annotated[Secret | None, Field(description="Such as `${env:MQTT_PASSWORD}`.")] = None


def _filter(topic: str) -> str:
    levels = topic.split("/")
    if any(("+" in level or "#" in level) and len(level) > 1 for level in levels) or "#" in levels[:-1]:
        raise ValueError(f"expected a filter in which + and # stand for whole levels, and # for the last, got {topic!r}")
    return topic


class MqttIn(MqttOptions):
    """`from`: {"connector": "mqtt", "host": "broker", "topic": "sensors/#", "client_id": "cep-sensors"}"""

    topic: Annotated[str, Field(min_length=1, description="A filter, with `+` and `#`."), AfterValidator(_filter)]
    client_id: Annotated[str, Field(min_length=1, max_length=60, description="Names the session, which is this connector's alone.")]


class MqttOut(MqttOptions):
    """`to`: {"connector": "mqtt", "host": "broker", "topic": "alarms"}"""

    topic: Annotated[str, Field(min_length=1, pattern="^[^#+]+$")]
    retain: bool = False


class MqttSession:
    """A client whose thread keeps the connection up. `begin` raises ConnectorError: the broker lets it not in."""

    def __init__(self, options: MqttOptions, client_id: str = "", lasting: bool = False) -> None:
        self.options, self.mqtt = options, library("paho.mqtt.client", EXTRA)
        properties = library("paho.mqtt.properties", EXTRA).Properties(library("paho.mqtt.packettypes", EXTRA).PacketTypes.CONNECT)
        properties.SessionExpiryInterval = SESSION_S if lasting else 0
        version = self.mqtt.CallbackAPIVersion.VERSION2
        self.client = self.mqtt.Client(version, client_id, protocol=self.mqtt.MQTTv5, manual_ack=lasting)
        self.client.max_queued_messages_set(0)
        if options.tls:
            self.client.tls_set()
        if options.username is not None:
            self.client.username_pw_set(options.username, options.password)
        self.answers: queue.Queue[Any] = queue.Queue()
        self.lost = threading.Event()
        self.client.on_connect = lambda client, data, flags, reason, more: self.answers.put(reason)
        self.client.on_subscribe = lambda client, data, number, reasons, more: self.answers.put(reasons[0])
        self.client.on_disconnect = lambda client, data, flags, reason, more: self.lost.set()
        self._properties, self._lasting = properties, lasting

    def begin(self, topic: str | None = None) -> None:
        """With a subscription, if a topic is named."""
        try:
            self.client.connect(self.options.host, self.options.port, clean_start=not self._lasting, properties=self._properties)
            self.client.loop_start()
            self._await("")
            if topic is not None:
                self.client.subscribe(topic, 1)
                self._await(f"topic {topic!r}: ")
        except OSError as error:
            self.end()
            raise ConnectorError(f"{self._where}: {error}") from None
        except BaseException:  # or its thread would keep the session from the next one
            self.end()
            raise

    def _await(self, what: str) -> None:
        """Raises ConnectorError: the broker answers with a refusal, or not at all."""
        try:
            reason = self.answers.get(timeout=CONNECT_S)
        except queue.Empty:
            raise ConnectorError(f"{self._where}: {what}the broker does not answer") from None
        if reason.is_failure:
            raise ConnectorError(f"{self._where}: {what}{reason}")

    @property
    def _where(self) -> str:
        return f"{self.options.host}:{self.options.port}"

    def check(self) -> None:
        """Raises ConnectorError: the connection was lost."""
        if self.lost.is_set():
            raise ConnectorError(f"{self._where}: the connection was lost")

    def end(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


class MqttReader(RecordReader):
    """A place is how many messages this session has given."""

    def __init__(self, options: MqttIn) -> None:
        self.options = options
        self.session = MqttSession(options, options.client_id, lasting=True)
        self.messages: queue.Queue[Any] = queue.Queue()
        self.given: list[Any] = []  # and not acknowledged
        self.taken = 0
        self.session.client.on_message = lambda client, data, message: self.messages.put(message)
        self.session.begin(options.topic)

    def poll(self, rows_max: int, timeout_s: float) -> Polled:
        found = []
        try:
            found.append(self.messages.get(timeout=timeout_s))
            while len(found) < rows_max:
                found.append(self.messages.get_nowait())
        except queue.Empty:
            if not found:
                self.session.check()
        self.given += found
        self.taken += len(found)
        topics = [message.topic for message in found]
        return Polled(self.taken, [message.payload for message in found], called=lambda at: f"{topics[at]}@{self.taken - len(found) + at}")

    def committed(self, place: Place) -> None:
        ready = len(self.given) - (self.taken - place)
        for message in self.given[:ready]:
            self.session.client.ack(message.mid, message.qos)
        del self.given[:ready]

    def close(self) -> None:
        self.session.end()


class MqttWriter(AnswerWriter):
    """What was published, and not acknowledged."""

    def __init__(self, options: MqttOut, format: ValueFormat) -> None:
        self.options, self.format = options, format
        self.session = MqttSession(options)
        self.refused = ""
        self.session.client.on_publish = self._published
        self.session.begin()
        self.properties = library("paho.mqtt.properties", EXTRA).Properties
        self.publish = library("paho.mqtt.packettypes", EXTRA).PacketTypes.PUBLISH
        self.waiting: list[Any] = []

    def write(self, rows: pa.RecordBatch, origin: str) -> None:
        for at, value in enumerate(self.format.encode(rows)):
            named = self.properties(self.publish)
            named.UserProperty = ("origin", f"{origin}-{at}")
            self.waiting.append(self.session.client.publish(self.options.topic, value, 1, self.options.retain, named))
            if len(self.waiting) >= UNDER_WAY_MAX:
                self._settle()

    def commit(self, token: str) -> None:
        self._settle()

    def abort(self) -> None:
        self.waiting.clear()

    def close(self) -> None:
        self.session.end()

    def _published(self, client: Any, data: Any, number: int, reason: Any, more: Any) -> None:
        """It is acknowledged, also where it is refused."""
        if reason.is_failure:
            self.refused = str(reason)

    def _settle(self) -> None:
        """Raises ConnectorError: the broker has not taken all."""
        for each in self.waiting:
            try:
                each.wait_for_publish(ACKNOWLEDGED_S)
            except (RuntimeError, ValueError) as error:
                raise ConnectorError(f"topic {self.options.topic!r}: {error}") from None
            if not each.is_published():
                raise ConnectorError(f"topic {self.options.topic!r}: the broker has not acknowledged within {ACKNOWLEDGED_S:g} s")
        self.waiting.clear()
        if self.refused:
            refused, self.refused = self.refused, ""
            raise ConnectorError(f"topic {self.options.topic!r}: {refused}")


MQTT = Connector(
    MqttIn,
    lambda options, format: LiveSource(options.topic, lambda: MqttReader(options)),
    MqttOut,
    lambda options, format: TokenlessSink(lambda *_: MqttWriter(options, format)),
    many=True,
)
