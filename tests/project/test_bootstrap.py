"""`bootstrap.py` beside a tiny project: a real environment, into which a real pip installs it, and nothing is downloaded."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.support.paths import ROOT
from tests.support.waiting import until

PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "tiny"
version = "1"
"""

#: Makes the wheels that pip asks for of Python's own library alone.
BACKEND = """
import pathlib, zipfile

FILES = {
    "tiny.pth": str(pathlib.Path.cwd()),
    "tiny-1.dist-info/METADATA": "Metadata-Version: 2.1\\nName: tiny\\nVersion: 1\\nProvides-Extra: test\\n",
    "tiny-1.dist-info/WHEEL": "Wheel-Version: 1.0\\nGenerator: tests\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    "tiny-1.dist-info/entry_points.txt": "[console_scripts]\\ntiny = tiny:main\\npytest = tiny:main\\n",
}


def build_editable(folder, config_settings=None, metadata_directory=None):
    with zipfile.ZipFile(pathlib.Path(folder, "tiny-1-py3-none-any.whl"), "w") as wheel:
        for name, text in FILES.items():
            wheel.writestr(name, text)
        wheel.writestr("tiny-1.dist-info/RECORD", "".join(f"{name},,\\n" for name in FILES))
    return "tiny-1-py3-none-any.whl"
"""

COMMAND = """
import os, sys


def main():
    print(sys.argv[1:], os.getcwd(), sys.prefix, os.environ["PATH"].split(":")[0])
    return 7
"""


@dataclass(frozen=True)
class Project:
    folder: Path

    def start(self, *words: str, folder: Path | str = "/") -> subprocess.Popen[str]:
        command = [sys.executable, str(self.folder / "bootstrap.py"), *words]
        return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, *words: str) -> tuple[int, str, str]:
        """Exit status, output and errors."""
        with self.start(*words) as process:
            output, errors = process.communicate(timeout=100)
        return process.returncode, output, errors


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Installed once."""
    folder = tmp_path_factory.mktemp("tiny")
    shutil.copy(ROOT / "bootstrap.py", folder)
    for name, text in {"pyproject.toml": PYPROJECT, "backend.py": BACKEND, "tiny.py": COMMAND}.items():
        (folder / name).write_text(text)
    (folder / "simulation.py").write_text("import sys, tiny\n\nsys.exit(tiny.main())\n")
    (folder / "cep").mkdir()
    (folder / "cep" / "module.py").write_text("x = 1\n")
    made = Project(folder)
    status, output, errors = made.run("tiny", "a", "--b")
    assert (status, output) == (7, f"['a', '--b'] / {folder / '.venv'} {folder / '.venv' / 'bin'}\n"), errors
    assert errors.startswith("bootstrap: installing into .venv (once")
    return made


def test_it_installs_once(project: Project) -> None:
    """And what it runs has its arguments, its folder, its environment and its own exit status."""
    status, output, errors = project.run("tiny")
    assert (status, errors) == (7, "") and output.startswith("[] ")


def test_paths_are_those_of_the_caller(project: Project, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import os; print('mine in', os.getcwd())")
    with project.start("python", "mine.py", folder=tmp_path) as process:
        output, errors = process.communicate(timeout=100)
    assert (output, errors) == (f"mine in {tmp_path}\n", "")


@pytest.mark.parametrize("words", [("pytest", "-x"), ("python", "-m", "simulation", "--seeds")])
def test_what_works_on_the_project_runs_in_its_folder(project: Project, words: tuple[str, ...]) -> None:
    """Wherever it is called."""
    assert project.run(*words) == (
        7,
        f"['{words[-1]}'] {project.folder} {project.folder / '.venv'} {project.folder / '.venv' / 'bin'}\n",
        "",
    )


def test_modules_are_compiled(project: Project) -> None:
    assert [path.name.split(".")[0] for path in (project.folder / "cep" / "__pycache__").iterdir()] == ["module"]


def test_a_command_that_is_not_there(project: Project) -> None:
    status, _, errors = project.run("tine")
    assert status == 1 and errors.startswith(f"bootstrap: no command 'tine' in {project.folder}/.venv/bin; there are")


def test_no_command_at_all(project: Project) -> None:
    status, _, errors = project.run()
    assert status == 1 and "python3 bootstrap.py pytest" in errors


def test_the_second_of_two_waits(project: Project) -> None:
    with (project.folder / ".venv" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with project.start("tiny") as waiting:
            process = psutil.Process(waiting.pid)
            until(lambda: any(each.path.endswith("/.venv/lock") for each in process.open_files()))
            assert waiting.poll() is None
            fcntl.flock(lock, fcntl.LOCK_UN)
            output, errors = waiting.communicate(timeout=100)
    assert (waiting.returncode, errors) == (7, "") and output.startswith("[] ")


@pytest.mark.long
def test_what_failed_half_way_is_installed_again(project: Project) -> None:
    """Though `pyproject.toml` is again what it was when all was well."""
    (project.folder / "pyproject.toml").write_text(PYPROJECT.replace('"backend"', '"nowhere"'))
    status, _, errors = project.run("tiny")
    assert status == 1 and errors.splitlines()[-1].startswith("bootstrap: pip ended with status")
    (project.folder / "pyproject.toml").write_text(PYPROJECT)
    status, _, errors = project.run("tiny")
    assert status == 7 and errors.startswith("bootstrap: installing into .venv (once")
