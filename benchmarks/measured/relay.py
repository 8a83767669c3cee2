"""The floor of latency: client, two relays and a subscriber over bare ZeroMQ, each in a process of its own.

Open loop: tuple i is to be created at start + i / rate, and is sent as soon as that moment has come, whatever the others do. Its
latency runs from that moment until the subscriber has it. A tuple is the moment itself: eight bytes.

`python -m benchmarks.measured.relay --rate 10000 [--seconds 6] [--beside]`. With `--beside` a process computes without pause on
the first of the two cores.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess

import numpy as np
import zmq

from benchmarks.measured.beside import beside
from benchmarks.metering import say

LEAD_NS = 200_000_000
LOOK_AGAIN_S = 50e-6
WARM_UP = 1 / 6
"""The part of the tuples, from the first on, that is not counted."""

_GOODBYE = b"x"
_PERCENTILES = {"p50_ms": 50, "p95_ms": 95, "p99_ms": 99, "p99_9_ms": 99.9, "max_ms": 100}


def feed(send: Callable[[np.ndarray], object], rate: int, seconds: float) -> None:
    """Sends the moments (int64 ns of the monotonic clock) of tuples that are due, together what has become due together."""
    total, sent = int(rate * seconds), 0
    start = time.monotonic_ns() + LEAD_NS
    while sent < total:
        due = min(total, (time.monotonic_ns() - start) * rate // 1_000_000_000 + 1)
        if due > sent:
            send(start + np.arange(sent, due) * 1_000_000_000 // rate)
            sent = due
        else:
            time.sleep(LOOK_AGAIN_S)


def percentiles(latencies_ns: list[np.ndarray]) -> dict[str, float]:
    """In ms, the warm-up left out; `samples` is how many were counted."""
    every = np.concatenate(latencies_ns) / 1e6
    counted = every[int(len(every) * WARM_UP) :]
    return {name: float(np.percentile(counted, percent)) for name, percent in _PERCENTILES.items()} | {"samples": len(counted)}


def two_cores() -> tuple[int, int]:
    """The first two that we may use, or twice the only one."""
    usable = sorted(os.sched_getaffinity(0))
    return usable[0], usable[min(1, len(usable) - 1)]


def _client(target: str, core: int, rate: int, seconds: float) -> None:
    os.sched_setaffinity(0, {core})
    context = zmq.Context()
    socket = context.socket(zmq.PUSH)
    socket.connect(target)
    feed(lambda moments: socket.send(moments.tobytes()), rate, seconds)
    socket.send(_GOODBYE)
    context.destroy(linger=5000)


def _relay(source: str, target: str, core: int) -> None:
    os.sched_setaffinity(0, {core})
    context = zmq.Context()
    inbound, outbound = context.socket(zmq.PULL), context.socket(zmq.PUSH)
    inbound.bind(source)
    outbound.connect(target)
    message = b""
    while message != _GOODBYE:
        message = inbound.recv()
        outbound.send(message)
    context.destroy(linger=5000)


def _received(socket: zmq.Socket[bytes]) -> list[np.ndarray]:
    found = []
    while (message := socket.recv()) != _GOODBYE:
        found.append(time.monotonic_ns() - np.frombuffer(message, np.int64))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--beside", action="store_true", help="a process that computes without pause on one of the cores")
    asked = parser.parse_args()
    here, there = two_cores()
    with beside(here, asked.beside), tempfile.TemporaryDirectory() as folder:
        first, second, last = (f"ipc://{folder}/{i}" for i in range(3))
        context = zmq.Context()
        socket = context.socket(zmq.PULL)
        socket.bind(last)
        fresh = multiprocessing.get_context("spawn")  # a forked ZeroMQ context is of no use
        processes: list[BaseProcess] = [
            fresh.Process(target=_relay, args=(first, second, here)),
            fresh.Process(target=_relay, args=(second, last, there)),
            fresh.Process(target=_client, args=(first, there, asked.rate, asked.seconds)),
        ]
        for process in processes:
            process.start()
        os.sched_setaffinity(0, {here})
        say(rate=asked.rate, **percentiles(_received(socket)))
        for process in processes:
            process.join()
        context.destroy()


if __name__ == "__main__":
    main()
