"""The folder that the processes of one machine share."""

from __future__ import annotations

import os
import resource
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cep.errors import ClusterError
from driver.cli import app
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


@contextmanager
def full_disk() -> Iterator[None]:
    """No file may have a byte more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_init_on_a_full_disk_leaves_no_empty_secret(tmp_path: Path) -> None:
    """The next one would keep it, and nobody could do anything at REST."""
    path = tmp_path / "run"
    with full_disk():
        found = CliRunner().invoke(app, ["init", "--run", str(path)])
    assert isinstance(found.exception, ClusterError) and "File too large" in str(found.exception)
    assert not [each for each in path.rglob("*") if each.is_file()]
    assert CliRunner().invoke(app, ["init", "--run", str(path)]).exit_code == 0
    assert len(RunFolder(path).token()) >= 40 and not [each for each in path.rglob("*") if each.is_file() and not each.stat().st_size]


def test_a_token_that_is_empty_is_none(tmp_path: Path) -> None:
    (tmp_path / "token").touch()
    found = CliRunner().invoke(app, ["init", "--run", str(tmp_path)])
    assert isinstance(found.exception, ClusterError)
    assert str(found.exception) == f"{tmp_path / 'token'}: expected a token, got an empty file; remove it, and `cep init` makes one"


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
