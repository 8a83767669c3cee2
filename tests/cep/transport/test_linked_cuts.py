"""A connection between two hosts is cut under load, both ways and one way: nothing is lost, nothing comes twice, and it soon goes on."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import zmq

from tests.support.hosts import Hosts, hosts, needs_namespaces
from tests.support.paths import ROOT
from tests.support.waiting import until

pytestmark = [needs_namespaces, pytest.mark.timeout(300)]
PORT = 4100
WHOLE_S = 3.0  # after a cut; a second on a quiet machine


@pytest.fixture
def two_hosts() -> Iterator[Hosts]:
    with hosts(2) as made:
        yield made


class Peers:
    """A process on each of two hosts, which send to each other."""

    def __init__(self, made: Hosts, folder: Path, keys: str, client: bool) -> None:
        self.folder = folder
        first = "" if client else f"{made.address(0)}:{PORT}"
        endpoints = [f"link://h0@{first}{folder}/a", f"link://h1@{made.address(1)}:{PORT}{folder}/b"]
        self.processes = [
            subprocess.Popen(
                made.command(i, sys.executable, "-m", "tests.support.link_peer", endpoints[i], endpoints[1 - i], str(folder), f"{i}", keys),
                stdout=subprocess.PIPE,
                text=True,
                cwd=ROOT,
            )
            for i in (1, 0)
        ]

    def come(self) -> list[int]:
        """How many messages have come at each."""
        files = [self.folder / str(i) for i in range(2)]
        return [int.from_bytes(file.read_bytes() or b"", "little") if file.exists() else 0 for file in files]

    def go_on(self, seconds: float = 45.0) -> None:
        """Both have got something that is new."""
        before = self.come()
        until(lambda: all(now > then for now, then in zip(self.come(), before, strict=True)), seconds)

    def end(self) -> list[dict[str, Any]]:
        (self.folder / "stop").touch()
        return [json.loads(process.communicate(timeout=60)[0]) for process in self.processes]

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


def cut_for(seconds: float, cut: Callable[[int], None], heal: Callable[[int], None]) -> None:
    cut(1)
    threading.Event().wait(seconds)
    heal(1)


def check(made: Hosts, folder: Path, seconds: tuple[float, ...], curve: bool, client: bool) -> None:
    keys = " ".join(key.decode() for key in zmq.curve_keypair()) if curve else ""
    peers = Peers(made, folder, keys, client)
    with ExitStack() as stack:
        stack.callback(peers.close)
        peers.go_on()
        for each in seconds:
            for cut, heal in ((made.cut, made.heal), (made.mute, made.unmute)):
                cut_for(each, cut, heal)
                peers.go_on(WHOLE_S)
                peers.go_on(WHOLE_S)
        found = peers.end()
    assert [each["wrong"] for each in found] == [[], []]
    assert found[0]["sent"] == found[1]["come"] > 1000 and found[1]["sent"] == found[0]["come"] > 1000


@pytest.mark.long
def test_cuts_of_members_with_keys(two_hosts: Hosts, tmp_path: Path) -> None:
    check(two_hosts, tmp_path, (1.0, 5.0), curve=True, client=False)


def test_cuts_of_a_client_without_an_address(two_hosts: Hosts, tmp_path: Path) -> None:
    check(two_hosts, tmp_path, (2.5,), curve=False, client=True)


@pytest.mark.long
@pytest.mark.parametrize("curve", [False, True])
@pytest.mark.parametrize("client", [False, True])
def test_long_cuts(two_hosts: Hosts, tmp_path: Path, curve: bool, client: bool) -> None:
    check(two_hosts, tmp_path, (1.0, 5.0, 14.0), curve, client)
