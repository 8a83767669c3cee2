"""A line of the log: text for people, JSON for what gathers logs."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cep.service.logs import JsonLines, TextLines, about
from tests.support.paths import ROOT


def record(message: str, *values: object, exc_info: Any = None, **extra: Any) -> logging.LogRecord:
    made = logging.getLogger("a.b").makeRecord("a.b", logging.ERROR, "f.py", 1, message, values, exc_info, extra=extra)
    made.created = 1_700_000_000.25
    return made


def test_a_document_is_one_line_whatever_is_in_it() -> None:
    line = JsonLines("im-0").format(record("broken:\n%s", 'a "word"', **about("q", "SQ1/0", child="x", exception="Traceback\n  at 1")))
    assert "\n" not in line
    assert json.loads(line) == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "ERROR",
        "process": "im-0",
        "logger": "a.b",
        "query": "q",
        "instance": "SQ1/0",
        "child": "x",
        "message": 'broken:\na "word"',
        "exception": "Traceback\n  at 1",
    }


def test_what_is_not_known_is_left_out() -> None:
    assert json.loads(JsonLines("orchestrator").format(record("m", **about("q")))).keys() == {
        "time", "level", "process", "logger", "message", "query"
    }  # fmt: skip
    assert "query" not in json.loads(JsonLines("orchestrator").format(record("m")))


def test_an_exception_and_what_no_json_is() -> None:
    try:
        raise ValueError("odd")
    except ValueError:
        made = record("m", exc_info=sys.exc_info(), **about(folder=Path("/a")))
    found = json.loads(JsonLines("im-0").format(made))
    assert found["exception"].startswith("Traceback") and found["exception"].endswith("ValueError: odd") and found["folder"] == "/a"


def test_nothing_that_a_line_is_about_hides_what_it_says() -> None:
    assert json.loads(JsonLines("im-0").format(record("m", **about(message="x", process="y"))))["process"] == "im-0"


def test_text_has_process_logger_and_a_traceback() -> None:
    text = TextLines("im-%0").format(record("failed: %s", "x", **about("q", exception="Traceback\n  at 1")))
    assert text.partition(",")[2].partition(" ")[2] == "im-%0 ERROR a.b: failed: x\nTraceback\n  at 1"


@pytest.mark.parametrize("what", ["raise ValueError('odd')", "threading.Thread(target=lambda: 1 / 0).start()"])
def test_what_ends_a_process_or_a_thread_is_a_line_too(what: str) -> None:
    program = f"import threading, warnings\nfrom cep.service.logs import *\nbegin_logging('p', JSON)\nwarnings.warn('w')\n{what}"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60)
    warned, ended = map(json.loads, done.stderr.splitlines())
    assert (warned["logger"], warned["level"]) == ("py.warnings", "WARNING")
    assert ended["level"] == "CRITICAL" and ended["exception"].startswith("Traceback") and ended["process"] == "p"
