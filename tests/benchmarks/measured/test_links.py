"""A link against bare sockets, both ends as processes, here on one host: what is said of both, and when that is below the bar."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest

from benchmarks.measured import links
from benchmarks.measured.links import TwoHosts, _measure, run_once
from driver.processes.zookeeper import reserve_port

SIZE = 20_000


class OneHost(TwoHosts):
    """Both ends on loopback, which takes no root."""

    def address(self) -> str:
        with reserve_port() as holder:
            self.port = holder.getsockname()[1]
        return f"127.0.0.1:{self.port}"

    def start(self, host: int, role: str, kind: str, asked: dict[str, Any]) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "benchmarks.link_ends", role, kind, json.dumps(asked)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


pytestmark = pytest.mark.long  # two processes for each run; their ends are tested in `tests/benchmarks/test_link_ends.py`


def test_what_both_ends_used_is_one_figure() -> None:
    found = run_once(OneHost(), "link", SIZE, 20, None, 0)
    assert found["took_s"] > 0 and found["cpu_s"] > 0 and "p50_us" not in found


def test_a_line_says_both_and_whether_it_is_below_the_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(links, "SIZES", {SIZE: (40, 40)})
    monkeypatch.setattr(links, "BAR", 1e9)
    monkeypatch.setattr(links, "RATE", 50)
    assert _measure(OneHost(), 1, True, SIZE, True)
    said = capsys.readouterr().out
    assert re.fullmatch(r"\| 20000 \| CURVE \| \d+ \| \d+ \| [\d.]+ \[[\d.]+, [\d.]+\] \| \d+ / \d+ \| \d+ / \d+ \|\n", said)
