"""Windows of a row each, one operator after the other."""

from __future__ import annotations

import sys

import pytest

from benchmarks.measured import small_windows
from cep.kernels.jit import interpreted


def test_each_kind_answers_a_window_for_each_row(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["small_windows", "--rows", "20", "tumbling", "join", "sliding"])
    with interpreted():
        small_windows.main()
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert {line[0]: int(line[-1]) for line in lines[1:]} == {"tumbling": 20, "join": 20, "sliding": 29}
