"""Reports of a table: what is met, and what two of them say together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import report
from benchmarks.harness import RowOutcome, verdict
from benchmarks.pairs import Bar
from benchmarks.row import Row


def document(rate: float) -> report.Document:
    bar = Bar("rate", ">=", 0.8)
    outcome = RowOutcome(Row("r", "what", ("us",), (bar,), reference=("them",)))
    outcome.ours, outcome.reference = [{"rate": rate}] * 8, [{"rate": 10.0}] * 8
    outcome.verdicts = [verdict(bar, outcome.ours, outcome.reference)]
    return dict(json.loads(json.dumps(report.to_json([outcome], 8))))


def test_a_report_says_what_is_met() -> None:
    assert "| r | rate | 10 | 9 | 0.9 [0.9, 0.9] | ≥ 0.8 | yes |" in report.markdown(document(9.0))
    assert "| 0.7 [0.7, 0.7] | ≥ 0.8 | **no** |" in report.markdown(document(7.0))


def test_two_reports_are_compared() -> None:
    assert "| r | rate | 0.9 [0.9, 0.9] | 0.7 [0.7, 0.7] | -22.2% | WORSE |" in report.compared(document(9.0), document(7.0))
    assert "| +22.2% | better |" in report.compared(document(9.0), document(11.0))
    assert "| +1.1% | no |" in report.compared(document(9.0), document(9.1))


def test_what_is_no_report(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text("[1]")
    with pytest.raises(ValueError, match=r"x\.json: expected a report"):
        report.read(file)
