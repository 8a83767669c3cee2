"""A client with nothing but HTTP reads events with tokens, and connects again when a connection ends, as `EventSource` does: each row comes
once, whatever is killed meanwhile."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress

import httpx
import pyarrow as pa
import pytest

from driver import LocalCluster, Query, col, stream
from tests.support.waiting import HANG_S, until

BATCHES, ROWS = 40, 20_000


class Client(threading.Thread):
    """Reads until the event `end`. `connections`: so many it has made; `refused`: with which status one was."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url, self.last, self.rows, self.has_ended = url, "", list[int](), False
        self.connections, self.refused = 0, list[int]()

    def run(self) -> None:
        while not self.has_ended and not self.refused:
            self.connections += 1
            headers = {"Last-Event-ID": self.last} if self.last else {}
            with (
                suppress(httpx.TransportError),
                httpx.stream("GET", self.url, headers=headers, timeout=HANG_S, trust_env=False) as answer,
            ):
                if answer.status_code == 200:
                    self._read(answer.iter_lines())
                elif answer.status_code != 503:  # the gateway is not back yet
                    self.refused.append(answer.status_code)

    def _read(self, lines: Iterator[str]) -> None:
        """An event counts when its last line has come, an empty one."""
        fields: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(": ")
            if name:
                fields[name] = value
                continue
            self.last = fields.get("id", self.last)
            self.has_ended = fields.get("event") == "end"
            if "event" not in fields and "data" in fields:
                self.rows += [row["n"] for row in json.loads(fields["data"])]
            fields = {}


@pytest.mark.long
@pytest.mark.timeout(300)
def test_each_row_comes_once_whatever_is_killed() -> None:
    source = stream("numbers", n=int, ts="timestamp[ms]", event_time="ts", disorder="0s")
    query = Query("doubled").source(source).map("m", n=col("n"), twice=col("n") * 2).output("doubled.out")
    with LocalCluster(2, pause_max_s=0.25) as cluster:
        running = cluster.deploy(query.options(recover="on-commit", checkpoint="100ms"))
        client = Client(f"{cluster.rest.url}/streams/doubled.out/events")
        client.start()
        until(lambda: client.last)
        with cluster.publisher("numbers") as out:
            for batch in range(BATCHES):
                numbers = range(batch * ROWS, (batch + 1) * ROWS)
                out.send(pa.table({"n": numbers, "ts": numbers}))
                if batch % 10 == 9:
                    before = len(client.rows)
                    until(lambda before=before: len(client.rows) > before or not client.is_alive())  # type: ignore[misc]
                    victim = running.status()["placed"][0]["im"] if batch == 19 else "gateway"
                    os.kill(dict(cluster.processes())[victim], signal.SIGKILL)
        client.join(120)
        assert client.has_ended and client.refused == []
        assert sorted(client.rows) == list(range(BATCHES * ROWS))
        assert client.connections > 3
        again = httpx.get(client.url, headers={"Last-Event-ID": client.last}, timeout=HANG_S, trust_env=False)
        assert again.status_code == 204
        assert running.wait().status()["recovery"]["attempts"] >= 1
