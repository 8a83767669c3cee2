"""`python -m benchmarks links`: a link between two hosts against bare PUSH and PULL that move the same bytes in the same mode.

Two network namespaces are two hosts; root makes them. Each pair is one run of each kind, one after the other (`benchmarks.link_ends`): as
many messages as go through, then a fixed number a second, whose latencies are taken.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, NamedTuple

import typer
import zmq

from benchmarks.pairs import measured, ratios

BAR = 0.9
RATE, RATE_MB_S = 1000, 100  # messages a second whose latencies are taken, at most so many and so much
PATIENCE_S = 120
#: Bytes of a message, and how many go: without CURVE, with it.
SIZES = {1 << 20: (3000, 800), 64 << 10: (30_000, 9000), 4 << 10: (200_000, 60_000), 200: (1_200_000, 600_000)}


class LinkOutcome(NamedTuple):
    """Of one kind, in one pair."""

    mb_s: float
    cpu_us: float  # a message, of both ends, without what starting takes
    p50_us: float
    p99_us: float


class TwoHosts:
    """Namespaces with one cable between them."""

    def __init__(self) -> None:
        self.names = [f"clnk{os.getpid() % 100_000}{end}" for end in "ab"]
        self.port = 5000

    def address(self) -> str:
        """A new one, of the second host."""
        self.port += 1
        return f"10.88.0.2:{self.port}"

    def make(self) -> None:
        for name in self.names:
            _ip("netns", "add", name)
        _ip("link", "add", "eth0", "netns", self.names[0], "type", "veth", "peer", "name", "eth0", "netns", self.names[1])
        for number, name in enumerate(self.names, 1):
            _ip("-n", name, "addr", "add", f"10.88.0.{number}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                _ip("-n", name, "link", "set", device, "up")

    def take_down(self) -> None:
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)

    def start(self, host: int, role: str, kind: str, asked: dict[str, Any]) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "benchmarks.link_ends", role, kind, json.dumps(asked)]
        return subprocess.Popen(["ip", "netns", "exec", self.names[host], *command], stdout=subprocess.PIPE, text=True)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextmanager
def two_hosts() -> Iterator[TwoHosts]:
    made = TwoHosts()
    try:
        made.make()
        yield made
    finally:
        made.take_down()


def run_once(hosts: TwoHosts, kind: str, size: int, count: int, keys: list[str] | None, rate: int) -> dict[str, Any]:
    """What the receiver says, with the CPU seconds of the sender. Raises TimeoutExpired, JSONDecodeError: an end has failed."""
    asked = {"address": hosts.address(), "size": size, "count": count, "keys": keys, "rate": rate, "name": hosts.names[0] + str(hosts.port)}
    receiver = hosts.start(1, "receive", kind, asked)
    sender = None
    try:
        assert receiver.stdout is not None and receiver.stdout.readline() == "ready\n"
        sender = hosts.start(0, "send", kind, asked)
        sent, received = json.loads(sender.communicate(timeout=PATIENCE_S)[0]), json.loads(receiver.communicate(timeout=PATIENCE_S)[0])
    finally:
        for process in (receiver, sender):
            if process is not None:
                process.kill()
                process.wait()
    return {**received, "cpu_s": received["cpu_s"] + sent["cpu_s"]}


def outcome(hosts: TwoHosts, kind: str, size: int, keys: list[str] | None, latency: bool) -> LinkOutcome:
    count = SIZES[size][keys is not None]
    fast = run_once(hosts, kind, size, count, keys, 0)
    rate = min(RATE, RATE_MB_S * 1_000_000 // size)
    paced = run_once(hosts, kind, size, 2 * rate, keys, rate) if latency else {"p50_us": 0.0, "p99_us": 0.0}
    return LinkOutcome(count * size / fast["took_s"] / 1e6, fast["cpu_s"] / count * 1e6, paced["p50_us"], paced["p99_us"])


def command(
    pairs: Annotated[int, typer.Option(min=1, help="alternating pairs of each size")] = 5,
    curve: Annotated[bool | None, typer.Option(help="one mode only")] = None,
    size: Annotated[int | None, typer.Option(help="messages of one size only, bytes")] = None,
    latency: Annotated[bool, typer.Option(help="messages at a fixed rate, too")] = True,
) -> None:
    """Throughput and latency of links, in pairs with bare PUSH and PULL; ends with 1 if a link has less than the bar."""
    below = 0
    with two_hosts() as hosts:
        for mode in (False, True) if curve is None else (curve,):
            for each in SIZES if size is None else (size,):
                below += _measure(hosts, pairs, mode, each, latency)
    raise typer.Exit(bool(below))


def _measure(hosts: TwoHosts, pairs: int, curve: bool, size: int, latency: bool) -> bool:
    """Prints a line. Is the link below the bar?"""
    keys = [key.decode() for key in zmq.curve_keypair()] if curve else None
    runs: dict[str, list[LinkOutcome]] = {"bare": [], "link": []}
    for _ in range(pairs):
        for kind, found in runs.items():
            found.append(outcome(hosts, kind, size, keys, latency))
    bare, link = (LinkOutcome(*[measured(values).median for values in zip(*found, strict=True)]) for found in runs.values())
    ratio = measured(ratios([each.mb_s for each in runs["link"]], [each.mb_s for each in runs["bare"]]))
    said = f"| {size} | {'CURVE' if curve else 'plain'} | {bare.mb_s:.0f} | {link.mb_s:.0f} | {ratio.median:.2f}"
    latencies = f"{bare.p50_us:.0f} / {bare.p99_us:.0f} | {link.p50_us:.0f} / {link.p99_us:.0f}"
    print(f"{said} [{ratio.lower:.2f}, {ratio.upper:.2f}] | {latencies} |", flush=True)
    return ratio.median < BAR
