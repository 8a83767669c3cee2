"""Both ends of a link and of bare sockets, on loopback: every message comes, in order, with and without keys."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import zmq

from benchmarks.link_ends import BareSending, LinkSending, bare_receiving, link_receiving, receive, send
from cep.transport import wire
from cep.transport.wire import Header
from driver.processes.zookeeper import reserve_port
from tests.support.waiting import HANG_S


@pytest.mark.parametrize(("kind", "curve", "rate"), [("bare", True, 0), ("link", False, 0), ("link", True, 1000)])
def test_what_is_sent_is_received(kind: str, curve: bool, rate: int, tmp_path: Path) -> None:
    with reserve_port() as holder:
        port = holder.getsockname()[1]
    keys = [key.decode() for key in zmq.curve_keypair()] if curve else None
    name = f"{tmp_path.name[-20:]}{port}"
    asked: dict[str, Any] = {"address": f"127.0.0.1:{port}", "size": 20_000, "count": 30, "keys": keys, "rate": rate, "name": name}
    received: list[dict[str, Any]] = []
    receiving = (bare_receiving if kind == "bare" else link_receiving)(asked)
    thread = threading.Thread(target=lambda: received.append(receive(receiving, asked)))
    thread.start()
    sent = send(BareSending(asked) if kind == "bare" else LinkSending(asked), asked)
    thread.join(HANG_S)
    (found,) = received
    assert sent["cpu_s"] > 0 and 0 < found["took_s"] < HANG_S
    assert ("p50_us" in found) == bool(rate)
    assert not rate or 0 < found["p50_us"] <= found["p99_us"]


@pytest.mark.parametrize("given", [{"size": 7}, {"count": 2}])
def test_a_message_that_is_another_is_noticed(given: dict[str, int]) -> None:
    """The next number, and the size that was asked for."""
    came = iter([(Header(wire.BATCH, 1, 0), 5), (Header(wire.BATCH, 1, given.get("count", 1)), given.get("size", 5))])
    with pytest.raises(AssertionError):
        receive(came, {"size": 5, "rate": 0})
