"""Whether a role works, as its health check says it: all that it keeps up, not only the first."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cep.config import RUN_VARIABLE
from cep.service.reports import write_report
from driver.processes.role_health import HEARD_S, main
from driver.processes.run_folder import RunFolder


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A run folder where im-0 and im-1 listen."""
    monkeypatch.setenv(RUN_VARIABLE, str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["role_health", "instance-managers"])
    (tmp_path / "reports").mkdir()
    with ExitStack() as stack:
        for name in ("im-0", "im-1"):
            listening = stack.enter_context(socket.socket(socket.AF_UNIX))
            listening.bind(str(tmp_path / name))
            listening.listen()
        yield tmp_path


def report(run: Path, supervisor: str, **states: str) -> None:
    children = [{"name": name.replace("_", "-"), "state": state} for name, state in states.items()]
    write_report(run / "reports", supervisor, {"supervisor": supervisor, "children": children})


def test_instance_managers_are_well_if_all_are(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["instance-managers"]) == 1
    report(run, "others", im_7="waiting")
    report(run, "instance-managers", im_0="up", im_1="up")
    assert main(["instance-managers"]) == 0 and capsys.readouterr().out.endswith("2 up\n")
    report(run, "instance-managers", im_0="up", im_1="waiting")
    assert main(["instance-managers"]) == 1 and "im-1 is waiting" in capsys.readouterr().out
    report(run, "instance-managers", im_0="up", im_2="up")
    assert main(["instance-managers"]) == 1  # it does not listen


def test_connectors_are_well_if_an_orchestrator_has_answered_them_just_now(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run-connectors"]) == 1
    heard = RunFolder(run).heard(socket.gethostname())
    heard.parent.mkdir()
    heard.touch()
    assert main(["run-connectors"]) == 0 and capsys.readouterr().out.endswith("heard\n")
    os.utime(heard, (0, time.time() - HEARD_S - 1))
    assert main(["run-connectors"]) == 1 and "not heard for 16 s" in capsys.readouterr().out
