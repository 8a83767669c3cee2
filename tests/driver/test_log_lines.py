"""What the processes of a cluster say, in one."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from cep.errors import ClusterError, NotFound
from driver.log_lines import FollowedLogs, home_at, logs


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def test_lines_are_in_the_order_of_time_and_half_a_line_waits(utc: None, tmp_path: Path) -> None:
    """Text and documents; a traceback stays with the line that it is of."""
    (tmp_path / "im-0.log").write_text("2026-11-26 10:00:01,250 im-0 ERROR x: failed\nTraceback\n2026-11-26 10:00:03,000 im-0 INFO x: half")
    (tmp_path / "gateway.log").write_text('{"time": "2026-11-26T10:00:02.000Z", "message": "later"}\n{no document\n')
    logs = FollowedLogs(tmp_path)
    assert [(line.process, line.text[:9]) for line in logs.last(10)] == [
        ("im-0", "2026-11-2"),
        ("im-0", "Traceback"),
        ("gateway", '{"time": '),
        ("gateway", "{no docum"),
    ]
    assert logs.more() == []
    with (tmp_path / "im-0.log").open("a") as file:
        file.write(" a line\n")
    (tmp_path / "im-1.log").write_text("2026-11-26 10:00:02,500 im-1 INFO x: new\n")
    assert [line.text[-3:] for line in logs.more()] == ["new", "ine"]


def test_the_last_of_each_and_of_one(tmp_path: Path) -> None:
    for name in ("im-0", "orchestrator"):
        (tmp_path / f"{name}.log").write_text("one\ntwo\nthree\n")
    assert [line.text for line in FollowedLogs(tmp_path).last(1)] == ["three", "three"]
    assert FollowedLogs(tmp_path).last(0) == []
    assert [line.process for line in FollowedLogs(tmp_path, "im-0").last(2)] == ["im-0", "im-0"]
    with pytest.raises(NotFound, match=r"no log of a process 'im-1' \(did you mean 'im-0'\?\); there is im-0, orchestrator"):
        FollowedLogs(tmp_path, "im-1")
    with pytest.raises(ClusterError, match="--home DIR"):
        home_at(f"http://nowhere-{os.getpid()}:1")


def test_that_a_process_has_said_nothing_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "orchestrator.log").touch()
    for process, said in ("orchestrator", "orchestrator has said nothing\n"), (None, "no process has said anything\n"):
        logs(process, count=2, home=tmp_path)
        assert capsys.readouterr() == ("", said)
