"""ZeroMQ over loopback: the suites, while the other side is there; and what it cannot do."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Sequence

import pytest
import zmq

from connectors.conformance import SinkBench, SinkSuite, SourceBench, SourceSuite
from connectors.conformance.sink_suite import batch_of
from connectors.contract import ConnectorError
from connectors.shipped.zeromq import ZeromqIn, ZeromqReader
from tests.support.waiting import until


class ZeromqSinkBench(SinkBench):
    def __init__(self) -> None:
        self.socket = zmq.Context.instance().socket(zmq.PULL)
        port = self.socket.bind_to_random_port("tcp://127.0.0.1")
        self.end = {"connector": "zeromq", "endpoint": f"tcp://127.0.0.1:{port}"}
        self.values: list[bytes] = []

    def seen(self) -> list[int]:
        """Until nothing more comes."""
        while self.socket.poll(300):
            self.values.append(self.socket.recv())
        return [json.loads(value)["number"] for value in self.values]


class ZeromqSourceBench(SourceBench):
    """It calls, so what it sends waits for one that listens. What is not polled waits too: there is no session."""

    silence_s = 0.0

    def __init__(self) -> None:
        self.socket = zmq.Context.instance().socket(zmq.PUSH)
        with socket.create_server(("127.0.0.1", 0)) as free:
            endpoint = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        self.socket.connect(endpoint)
        self.end = {"connector": "zeromq", "endpoint": endpoint, "bind": True}

    def feed(self, values: Sequence[bytes]) -> None:
        for value in values:
            self.socket.send(value)


class TestZeromqSource(SourceSuite):
    @pytest.fixture
    def bench(self) -> Iterator[SourceBench]:
        made = ZeromqSourceBench()
        yield made
        made.socket.close(0)


class TestZeromqSink(SinkSuite):
    @pytest.fixture
    def bench(self) -> Iterator[SinkBench]:
        made = ZeromqSinkBench()
        yield made
        made.socket.close(0)


@pytest.mark.parametrize("kind", ["pull", "sub"])
def test_messages_are_values(kind: str) -> None:
    with zmq.Context.instance().socket(zmq.PUSH if kind == "pull" else zmq.PUB) as sending:
        port = sending.bind_to_random_port("tcp://127.0.0.1")
        reader = ZeromqReader(ZeromqIn(endpoint=f"tcp://127.0.0.1:{port}", kind=kind, topic="a"))  # type: ignore[arg-type]
        found: list[bytes] = []

        def come() -> bool:
            sending.send_multipart([b"a", b"one"])
            found.extend(reader.poll(2, 0.1).values)
            return len(found) > 2

        until(come)
        assert set(found) == {b"one"} and len(reader.poll(1, 1.0)) <= 1
        reader.close()


def test_one_that_nothing_pulls_from_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.shipped.zeromq.SEND_MS", 50)
    monkeypatch.setattr("connectors.shipped.zeromq.LINGER_MS", 0)
    bench = ZeromqSinkBench()
    bench.end |= {"endpoint": "tcp://127.0.0.1:*", "bind": True}
    writer = bench.sink().open("c", 1)
    with pytest.raises(ConnectorError, match="nothing has taken a message"):
        writer.write(*batch_of(0))
    writer.close()
    bench.socket.close(0)


def test_an_endpoint_that_cannot_be_had_is_said() -> None:
    bench = ZeromqSinkBench()
    bench.end |= {"bind": True}
    with pytest.raises(ConnectorError, match="Address already in use"):
        bench.sink().open("c", 1)
    bench.socket.close(0)
