"""How long compiling takes: what is timed is what is there, and nothing stays changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.measured import compile as compiling
from cep.kernels.jit import Kernel
from cep.kernels.lateness import LATENESS


def test_kernels_are_timed_by_name_while_it_is_asked_for() -> None:
    ready, (late, *_) = Kernel.ready, LATENESS
    with compiling._timed() as taken:
        late.ready()
        late.ready()
    assert Kernel.ready is ready
    assert taken.keys() == {late.__name__} and taken[late.__name__] >= 0


def test_a_process_says_what_it_took(as_python: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "visits.csv"
    path.write_text(compiling.LINES)
    compiling.measure(str(path))
    found = json.loads(capsys.readouterr().out)
    assert found["wall_s"] > 0 and found["cpu_s"] > 0 and isinstance(found["kernels_s"], dict)
    plan = compiling._plan(str(path))
    assert [each.name for each in plan.query.operators] == ["pick", "window"]
    assert plan.files["visits"] == ((str(path), path.stat().st_size),)
