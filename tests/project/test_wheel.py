"""What users install: the wheel has all that it needs, in an environment where nothing else of this project is, and its types."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.project.test_layers import PACKAGES
from tests.project.test_readme import example
from tests.support.paths import ROOT

PROGRAM = """
from numa_cep import TIME, Cluster, LocalCluster, Query, col, count, stream, sum_

source = stream("visits", ip=str, n=int, ts="timestamp[ms]", event_time="ts", disorder="2s")
query = Query("q").source(source).filter("some", col("n") > 3).aggregate("a", TIME("30s"), by="ip", n=count(), total=sum_("n")).output("o")
reveal_type(query)
reveal_type(query.build())
reveal_type(col("n") + 1)


def run(cluster: Cluster) -> None:
    running = cluster.deploy(query)
    reveal_type(running)
    reveal_type(running.subscribe("o"))
    with cluster.publisher("visits") as out:
        reveal_type(out)
        reveal_type(out.send([{"n": 1}]))


with LocalCluster() as local:
    run(local)
query.aggregate("b", "30s", n=count())
query.no_such_operator("c")
"""

REVEALED = {
    "query": "Query",
    "query.build()": "Query",
    'col("n") + 1': "Expr",
    "running": "Running",
    'running.subscribe("o")': "Subscription",
    "out": "Publisher",
    'out.send([{ "n": 1 }])': "int",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of what is shipped: setuptools takes what an earlier build left beside the sources into the next one."""
    folder = tmp_path_factory.mktemp("wheel")
    sources = folder / "sources"
    for package in PACKAGES:
        shutil.copytree(ROOT / package, sources / package, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, sources)
    build = "import sys, setuptools.build_meta as backend; backend.build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, str(folder)], cwd=sources, check=True, capture_output=True, timeout=100)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def taken_apart(wheel: Path) -> Path:
    folder = wheel.parent / "taken_apart"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


@dataclass(frozen=True)
class Installed:
    """An environment in which nothing of this project is but the wheel."""

    home: Path

    def run(self, program: str, *arguments: str, **variables: str) -> str:
        """What it prints, from a folder where nothing is."""
        (self.home / "empty").mkdir(exist_ok=True)
        others = ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE")  # or each process compiles all that it imports
        environment = {key: value for key, value in os.environ.items() if key not in others}
        command = [str(self.home / "bin" / program), *arguments]
        done = subprocess.run(
            command, cwd=self.home / "empty", env=environment | variables, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def _environment(home: Path, wheel: Path, *options: str) -> Installed:
    """A new one, into which pip has installed the wheel."""
    venv.EnvBuilder(with_pip=False, symlinks=True).create(home)
    pip = [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python"), "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *options, str(wheel)], check=True, timeout=900)
    return Installed(home)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel beside the libraries of this environment, which are not installed again. A path file that is named in no path file: that
    of an editable installation has no effect there."""
    there = _environment(tmp_path_factory.mktemp("installed"), wheel, "--no-deps", "--no-compile")
    (site,) = there.home.glob("lib/python*/site-packages")
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib"))
    return there


def test_pyright_knows_the_types(taken_apart: Path, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    settings = {"extraPaths": [str(taken_apart)], "typeCheckingMode": "standard", "pythonVersion": "3.11"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [str(Path(sys.executable).parent / "basedpyright"), "--outputjson", "--pythonpath", sys.executable, "program.py"]
    told = json.loads(subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100).stdout)
    found = told["generalDiagnostics"]
    shown = [re.fullmatch(r'Type of "(.*)" is "(.*)"', each["message"]) for each in found if each["severity"] == "information"]
    assert {each[1]: each[2] for each in shown if each} == REVEALED
    rules = {(each["range"]["start"]["line"], each["rule"]) for each in found if each["severity"] == "error"}
    last = PROGRAM.count("\n")
    assert rules == {(last - 2, "reportArgumentType"), (last - 1, "reportAttributeAccessIssue")}


def test_the_commands_of_the_wheel(installed: Installed) -> None:
    assert "deploy" in installed.run("cep", "--help")
    assert "fixed-window" in installed.run("hibench", "run", "--help")


IMPORT_ALL = """
import importlib, json, pkgutil, sys
packages = json.loads(sys.argv[1])
found = [m.name for p in packages for m in pkgutil.walk_packages(importlib.import_module(p).__path__, p + ".")]
modules = [*packages, *(name for name in found if not name.endswith("__main__"))]
print(json.dumps({name: importlib.import_module(name).__file__ for name in modules}))
"""


def test_every_module_is_in_the_wheel(installed: Installed) -> None:
    """Each is imported from there, and all the files are there that stand beside them."""
    found = json.loads(installed.run("python", "-c", IMPORT_ALL, json.dumps(PACKAGES)))
    assert len(found) > 400
    assert all(Path(file).is_relative_to(installed.home) for file in found.values())
    (site,) = installed.home.glob("lib/python*/site-packages")
    ours = [path.relative_to(ROOT) for package in PACKAGES for path in (ROOT / package).rglob("*") if path.is_file()]
    assert [str(path) for path in ours if path.suffix != ".pyc" and not (site / path).exists()] == []


def test_the_example_runs_on_the_wheel(installed: Installed) -> None:
    """The README's, as it is written. Its kernels are not compiled: what is compiled is found again by its path, which is a new one."""
    assert "'ip': ['10.0.0.1'], 'visits': [1]" in installed.run("python", "-c", example(), NUMBA_DISABLE_JIT="1")


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_the_wheel_alone(wheel: Path, tmp_path: Path) -> None:
    """With what pip brings along, and nothing else."""
    installed = _environment(tmp_path / "alone", wheel)
    test_the_commands_of_the_wheel(installed)
    test_every_module_is_in_the_wheel(installed)
    assert "'ip': ['10.0.0.1'], 'visits': [1]" in installed.run("python", "-c", example(), CEP_KERNEL_CACHE=str(tmp_path / "kernels"))
