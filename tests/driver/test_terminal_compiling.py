"""What is said of compiling: a line for each instance manager that does, and on a terminal while it lasts.

Tests `terminal.py`.
"""

from __future__ import annotations

import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO

import pytest
from rich.console import Console

from driver import terminal
from driver.rest import Rest
from driver.terminal import compiled_now, compiling_shown
from tests.support.waiting import until


class Answering(BaseHTTPRequestHandler):
    """`GET /figures` of a cluster in which one kernel more is ready at each question."""

    asked = 0

    def do_GET(self) -> None:
        type(self).asked += 1
        body = f'{{"managers": [{{"im": "im-0", "compilations": {self.asked + 40}, "compiling": "double"}}]}}'.encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def test_each_instance_manager_that_compiles_has_a_line() -> None:
    managers = [
        {"im": "im-0", "compilations": 43, "compiling": "double"},
        {"im": "im-1", "compilations": 50, "compiling": ""},
        {"im": "im-2", "compilations": 41, "compiling": "half"},
    ]
    assert compiled_now(managers) == ["im-0 compiles double", "im-2 compiles half"]
    told = compiled_now(managers, {"im-0": 41, "im-2": 40})
    assert told == ["im-0 compiles double, 2 kernels before it", "im-2 compiles half, 1 kernel before it"]


def test_a_terminal_shows_it_while_it_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    monkeypatch.setattr(terminal, "LOOK_S", 0.01)
    shown = StringIO()
    monkeypatch.setattr(terminal, "err", Console(file=shown, force_terminal=True, width=200))
    with compiling_shown(Rest(f"http://127.0.0.1:{server.server_port}"), "deploying"):
        until(lambda: re.search(r"deploying …; im-0 compiles double, \d+ kernels before it", shown.getvalue()))
    server.shutdown()
    server.server_close()
    assert "cep-progress" not in {each.name for each in threading.enumerate()}


def test_nothing_else_than_a_terminal_is_written_to(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = StringIO()
    monkeypatch.setattr(terminal, "err", Console(file=shown))
    with compiling_shown(Rest("http://127.0.0.1:1"), "deploying"):
        pass
    assert not shown.getvalue()
