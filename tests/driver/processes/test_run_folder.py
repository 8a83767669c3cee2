"""The folder that the processes of one machine share."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from cep.errors import ClusterError
from driver.processes.run_folder import RunFolder, token_or_run_folders


def test_the_run_folder_is_for_one_user_and_keeps_its_secrets(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    run.prepare(os.getuid(), os.getgid())
    token = run.token()
    run.prepare(os.getuid(), os.getgid())
    assert run.token() == token
    assert len(token) >= 40
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (run.path, *run.path.rglob("*"))}
    folders = {"run": 0o700, "reports": 0o700, "spark": 0o700}
    assert modes == folders | {"token": 0o600, "zookeeper-secret": 0o600, "spark-defaults.conf": 0o600}


def test_all_that_is_in_it_has_names_of_its_own(tmp_path: Path) -> None:
    """The gateway's file of what was sent under which key was called as the folder of the cluster's keys is."""
    run = RunFolder(tmp_path)
    named = [name for name, value in vars(RunFolder).items() if isinstance(value, property)]
    paths = [getattr(run, name) for name in named] + [run.heard("h1").parent, run.path / "token"]
    assert len({path.relative_to(tmp_path) for path in paths}) == len(paths)


def test_the_token_is_that_of_the_run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CEP_RUN", raising=False)
    assert token_or_run_folders(None) is None
    monkeypatch.setenv("CEP_RUN", str(tmp_path))
    assert token_or_run_folders("given") == "given"
    with pytest.raises(ClusterError, match="cep init"):
        token_or_run_folders(None)
    RunFolder(tmp_path).prepare(os.getuid(), os.getgid())
    assert token_or_run_folders(None) == RunFolder(tmp_path).token()
