"""WebSocket with a real server on loopback: both suites, connections that end, and what the other side does not take."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

from connectors.conformance import SinkBench, SinkSuite, SourceBench, SourceSuite
from connectors.conformance.sink_suite import batch_of
from connectors.contract import ConnectorError, RecordReader
from tests.support.waiting import until


class Site:
    """Sends what is put in, to one that listens at a time; keeps what comes, and answers it where that was asked for."""

    def __init__(self) -> None:
        self.to_send: list[bytes] = []
        self.come: list[str | bytes] = []
        self.headers: list[str | None] = []
        self.lines: list[ServerConnection] = []
        self.deaf, self.answers = threading.Event(), False
        self.asked: list[object] = []  # connections, some of which may not be served yet, and those that are over
        self.over: list[object] = []
        self.server = serve(self._serve, "127.0.0.1", 0, process_request=lambda line, request: self.asked.append(line))
        self.url = f"ws://127.0.0.1:{self.server.socket.getsockname()[1]}/feed"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def hang_up(self) -> None:
        for line in list(self.lines):
            line.close()

    def is_read(self) -> bool:
        """Has all that was sent been looked at? Nothing more comes then."""
        self.hang_up()
        return len(self.over) == len(self.asked)

    def _serve(self, line: ServerConnection) -> None:
        assert line.request is not None
        self.headers.append(line.request.headers.get("X-Key"))
        self.lines.append(line)
        try:
            while True:
                while self.to_send:
                    line.send(self.to_send.pop(0), text=True)
                try:
                    self.come.append(line.recv(0.01))
                except TimeoutError:
                    continue
                if self.answers:
                    line.send("thanks")
        except ConnectionClosed:
            pass
        finally:
            self.lines.remove(line)
            self.over.append(line)


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.hang_up()
    made.server.shutdown()


class WebsocketSourceBench(SourceBench):
    def __init__(self, site: Site, silence_s: float = 0.2) -> None:
        self.silence_s = silence_s
        self.site, self.end = site, {"connector": "websocket", "url": site.url}

    def feed(self, values: Sequence[bytes]) -> None:
        self.site.to_send += values


class WebsocketSinkBench(SinkBench):
    def __init__(self, site: Site, **more: object) -> None:
        self.site, self.end = site, {"connector": "websocket", "url": site.url} | more

    def seen(self) -> list[int]:
        """When all that was sent has been looked at."""
        until(self.site.is_read)
        return [json.loads(value)["number"] for value in self.site.come]


class TestWebsocketSource(SourceSuite):
    @pytest.fixture(params=[0.2, pytest.param(30.0, marks=pytest.mark.long)])
    def bench(self, request: pytest.FixtureRequest, site: Site) -> SourceBench:
        return WebsocketSourceBench(site, request.param)


class TestWebsocketSink(SinkSuite):
    @pytest.fixture
    def bench(self, site: Site) -> SinkBench:
        return WebsocketSinkBench(site)


class TestAnsweredSink(SinkSuite):
    @pytest.fixture
    def bench(self, site: Site) -> SinkBench:
        site.answers = True
        return WebsocketSinkBench(site, answered=True)


def opened(site: Site, **more: object) -> RecordReader:
    bench = WebsocketSourceBench(site)
    bench.end |= more
    return bench.source().open(site.url, None)


def test_it_says_what_subscribes_with_its_headers(site: Site) -> None:
    reader = opened(site, say=["trades", "quotes"], headers={"X-Key": "k"})
    until(lambda: site.come == ["trades", "quotes"])
    assert site.headers == ["k"]
    reader.close()


def test_a_connection_that_ends_is_said_behind_what_has_come(site: Site) -> None:
    reader = opened(site)
    site.to_send += [b"one", b"two"]
    until(lambda: not site.to_send)
    site.hang_up()
    found: list[bytes] = []
    with pytest.raises(ConnectorError, match=r"the connection has ended: .*1000"):
        while True:
            found += reader.poll(1, 1.0).values
    assert found == [b"one", b"two"]
    reader.close()


def test_an_address_where_nothing_listens_is_said(site: Site) -> None:
    site.server.shutdown()
    with pytest.raises(ConnectorError, match="Connection refused"):
        opened(site)


def test_a_row_has_its_origin(site: Site) -> None:
    writer = WebsocketSinkBench(site, origin="id").sink().open("c", 1)
    writer.write(*batch_of(4))
    writer.commit("5")
    writer.close()
    until(lambda: len(site.come) == 7)
    assert json.loads(site.come[6]) == {"number": 34, "text": "é, 34", "id": "q.1.l.0.4-6"}


def test_a_commit_waits_for_answers(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.shipped.websocket.ACKNOWLEDGED_S", 0.2)
    writer = WebsocketSinkBench(site, answered=True).sink().open("c", 1)
    writer.write(*batch_of(0))
    with pytest.raises(ConnectorError, match=r"has not answered 7 messages within 0.2 s"):
        writer.commit("1")
    site.hang_up()
    with pytest.raises(ConnectorError, match="the connection has ended before"):
        writer.commit("1")
    writer.close()


def test_what_the_other_side_says_unasked_holds_no_commit_up(site: Site) -> None:
    writer = WebsocketSinkBench(site).sink().open("c", 1)
    site.to_send += [b"news"] * 10_000
    writer.write(*batch_of(0))
    writer.commit("1")
    until(lambda: len(site.come) == 7)
    writer.close()
