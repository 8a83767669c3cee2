"""HTTP with a real server on loopback: the suites, keys by which what comes twice is known, and polling."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from connectors.conformance import SinkBench, SinkSuite, SourceBench, SourceSuite
from connectors.conformance.sink_suite import batch_of
from connectors.contract import ConnectorError, Polled
from connectors.shipped.http import HttpIn, HttpReader


class Site:
    """What it has been sent, by key; and what it answers."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, bytes]] = []
        self.asked: list[dict[str, str]] = []
        self.page, self.tag, self.status = b"", "", 200
        self.repeated, self.sent = 1, 0  # how often the page is sent, and was
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if site.status == 200:
                    site.requests.append((self.headers["Idempotency-Key"], body))
                self.answer(site.status, b"")

            def do_GET(self) -> None:
                site.asked.append(dict(self.headers))
                known = site.tag and self.headers.get("If-None-Match") == site.tag
                self.answer(304 if known else site.status, b"" if known else site.page)

            def answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body) * site.repeated))
                if site.tag:
                    self.send_header("ETag", site.tag)
                self.end_headers()
                with suppress(OSError):  # who has asked does not listen any more
                    for _ in range(site.repeated):
                        self.wfile.write(body)
                        site.sent += 1

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.close()


class HttpSinkBench(SinkBench):
    def __init__(self, site: Site) -> None:
        self.site, self.end = site, {"connector": "http", "url": site.url, "rows_max": 3}

    def seen(self) -> list[int]:
        """A key that has come already is not taken again."""
        return [json.loads(line)["number"] for body in dict(self.site.requests).values() for line in body.splitlines()]


class HttpSourceBench(SourceBench):
    """Each feed is another page. A request each time has no session that could end while it is not polled."""

    silence_s = 0.0

    def __init__(self, site: Site) -> None:
        self.site, self.end = site, {"connector": "http", "url": site.url, "every_s": 0.01}

    def feed(self, values: Sequence[bytes]) -> None:
        self.site.page, self.site.tag = b"\n".join(values), f'"{values[-1]!r}"'


class TestHttpSource(SourceSuite):
    @pytest.fixture
    def bench(self, site: Site) -> SourceBench:
        return HttpSourceBench(site)


class TestHttpSink(SinkSuite):
    @pytest.fixture
    def bench(self, site: Site) -> SinkBench:
        return HttpSinkBench(site)


def test_what_is_sent_again_has_its_key(site: Site) -> None:
    bench = HttpSinkBench(site)
    for epoch in (1, 2):
        writer = bench.sink().open("hook", epoch)
        writer.write(*batch_of(4))
        writer.commit("5")
        writer.close()
    keys = [key for key, _ in site.requests]
    assert keys == ["q.1.l.0.4-0", "q.1.l.0.4-3", "q.1.l.0.4-6"] * 2
    assert site.requests[:3] == site.requests[3:] and len(bench.seen()) == 7


def test_a_refusal_is_said_and_sent_again(site: Site) -> None:
    writer = HttpSinkBench(site).sink().open("hook", 1)
    writer.write(*batch_of(0))
    site.status = 503
    with pytest.raises(ConnectorError, match=f"{site.url} answered 503"):
        writer.commit("1")
    assert site.requests == []
    site.status = 200
    writer.commit("1")
    assert [key for key, _ in site.requests] == ["q.1.l.0.0-0", "q.1.l.0.0-3", "q.1.l.0.0-6"]
    writer.close()


def reader(site: Site, **options: object) -> HttpReader:
    bench = HttpSinkBench(site)
    bench.side, bench.end = "from", {"connector": "http", "url": site.url, "every_s": 0.01, "headers": {"X-Key": "k"}}
    found = bench.described(**options)
    assert isinstance(found.options, HttpIn) and found.format is not None
    return HttpReader(found.options, found.format)


def values(polled: Polled) -> list[bytes]:
    return list(polled.values)


def test_an_answer_is_its_lines_and_the_same_one_is_not_taken_again(site: Site) -> None:
    site.page, site.tag = b'{"a": 1}\n\n{"a": 2}\n{"a": 3}', '"1"'
    asking = reader(site)
    assert values(asking.poll(2, 1.0)) == [b'{"a": 1}', b'{"a": 2}'] and values(asking.poll(2, 1.0)) == [b'{"a": 3}']
    assert values(asking.poll(2, 1.0)) == []
    site.page, site.tag = b'{"a": 4}', '"2"'
    assert values(asking.poll(2, 1.0)) == [b'{"a": 4}']
    assert site.asked[1]["If-None-Match"] == '"1"' and site.asked[0]["X-Key"] == "k"
    asking.close()


def test_a_head_of_csv_is_no_row(site: Site) -> None:
    site.page = b"a,b\n1,2\n"
    asking = reader(site, format={"name": "csv", "header": True})
    polled = asking.poll(5, 1.0)
    assert values(polled) == [b"1,2"] and polled.format is not None and polled.format.columns == ("a", "b")  # type: ignore[attr-defined]
    asking.close()


@pytest.mark.parametrize("status", [200, 500])
def test_an_answer_is_read_no_further_than_it_may_be_long(site: Site, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.shipped.http.ANSWER_BYTES_MAX", 1 << 20)
    site.page, site.repeated, site.status = b"{}" * (1 << 19), 100, status
    asking = reader(site)
    with pytest.raises(ConnectorError, match=f"{site.url}: expected an answer of at most 1,048,576 bytes, got a longer one"):
        asking.poll(5, 1.0)
    asking.close()
    assert site.sent < 50, "what is under way besides"


def test_it_asks_no_sooner_than_it_should(site: Site) -> None:
    site.page = b"{}"
    asking = reader(site, every_s=3600.0)
    assert len(asking.poll(5, 0.01)) == 1 and len(asking.poll(5, 0.01)) == 0 and len(site.asked) == 1
    site.status = 500
    asking.left_s = 0.0
    with pytest.raises(ConnectorError, match="answered 500"):
        asking.poll(5, 0.01)
    asking.close()
