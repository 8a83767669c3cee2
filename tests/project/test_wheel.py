"""What users install: the wheel has all that it needs, in an environment where nothing else of this project is, and its types.

The example of docs/custom_functions.md is run there as written, and prints what stands there.
"""

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
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from tests.project.test_layers import PACKAGES, files
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
        return self.both(program, *arguments, **variables)[0]

    def both(self, program: str, *arguments: str, **variables: str) -> tuple[str, str]:
        """Likewise, and its errors."""
        (self.home / "empty").mkdir(exist_ok=True)
        others = ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE")  # or each process compiles all that it imports
        environment = {key: value for key, value in os.environ.items() if key not in others}
        command = [str(self.home / "bin" / program), *arguments]
        done = subprocess.run(
            command, cwd=self.home / "empty", env=environment | variables, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout, done.stderr


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
    _take_bytecode(site)
    return there


def _take_bytecode(site: Path) -> None:
    """Of files that are ours to the byte, as far as it is there: to make all of it once more takes as long as to import it."""
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            made, there = Path(cache_from_source(str(path))), site / path.relative_to(ROOT)
            if made.exists() and there.exists() and there.read_bytes() == path.read_bytes():
                times = path.stat()
                os.utime(there, ns=(times.st_atime_ns, times.st_mtime_ns))  # by which Python knows what is made of it
                there.with_name("__pycache__").mkdir(exist_ok=True)
                shutil.copy(made, cache_from_source(str(there)))


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

#: A module takes 0.2 s.
PARTS = 48
#: What is not ours is imported once, for all of them; and to look for garbage among it takes a sixth of the time.
ALONE = """
import gc, json, os, sys, threading
gc.disable()
import fastapi, httpx, jinja2, kazoo.client, matplotlib.figure, nicegui, numba.extending, pandas, psutil
import pyarrow.compute, pyspark.sql, rich.table, sqlglot, typer, uvicorn, yaml, zmq
for module in json.loads(sys.argv[2]):
    child = os.fork()
    if not child:
        os.chdir(sys.argv[3])
        before = dict(os.environ)
        __import__(module)
        wrong = [t.name for t in threading.enumerate() if t is not threading.main_thread() and not t.daemon]
        wrong += sorted(os.listdir("."))
        wrong += sorted(key for key in os.environ if before.get(key) != os.environ[key] and not key.startswith("KMP_"))
        if wrong:
            print(module, wrong, flush=True)
        os._exit(1 if wrong else 0)
    if os.waitpid(child, 0)[1]:
        print(module, "cannot be imported alone", flush=True)
"""


def _import_alone(installed: Installed, part: int, folder: Path, then: str) -> str:
    """Imports each module of a part in a child of its own, which leaves no thread, no file and no variable. What `then` prints."""
    modules = [module for module in files() if not module.endswith("__main__")][part::PARTS]
    (folder / "empty").mkdir()
    arguments = [json.dumps(PACKAGES), json.dumps(modules), str(folder / "empty")]
    printed, errors = installed.both("python", "-c", ALONE + then, *arguments, CEP_KERNEL_CACHE=str(folder / "kernels"))
    assert errors == "" and not (folder / "kernels").exists()
    return printed


def test_every_module_is_in_the_wheel_and_imports_alone_and_does_nothing(installed: Installed, tmp_path: Path) -> None:
    """All are imported from there, a part of them alone before that, and nothing else is printed. All the files are there that stand
    beside them."""
    _all_there(installed, _import_alone(installed, 0, tmp_path, IMPORT_ALL))


@pytest.mark.long
@pytest.mark.parametrize("part", range(1, PARTS))
def test_every_other_module_imports_alone_and_does_nothing(installed: Installed, part: int, tmp_path: Path) -> None:
    assert _import_alone(installed, part, tmp_path, "") == ""


def _all_there(installed: Installed, printed: str) -> None:
    """`printed`: by IMPORT_ALL."""
    found = json.loads(printed)
    assert len(found) > 400
    assert all(Path(file).is_relative_to(installed.home) for file in found.values())
    (site,) = installed.home.glob("lib/python*/site-packages")
    ours = [path.relative_to(ROOT) for package in PACKAGES for path in (ROOT / package).rglob("*") if path.is_file()]
    assert [str(path) for path in ours if path.suffix != ".pyc" and not (site / path).exists()] == []


def test_the_shop_runs_on_the_wheel(installed: Installed, tmp_path: Path) -> None:
    """docs/custom_functions.md. Few rows meet many kernels, which are not compiled."""
    page = (ROOT / "docs" / "custom_functions.md").read_text()
    for name, code in re.findall(r"```python file=(\S+)\n(.*?)```", page, re.DOTALL):
        (tmp_path / name).write_text(code)
    (printed,) = re.findall(r"```\n(\[.*?)```", page, re.DOTALL)
    assert installed.run("python", str(tmp_path / "shop.py"), NUMBA_DISABLE_JIT="1") == printed


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_the_wheel_alone(wheel: Path, tmp_path: Path) -> None:
    """With what pip brings along, and nothing else."""
    installed = _environment(tmp_path / "alone", wheel)
    test_the_commands_of_the_wheel(installed)
    _all_there(installed, installed.run("python", "-c", IMPORT_ALL, json.dumps(PACKAGES)))
    assert "'ip': ['10.0.0.1'], 'visits': [1]" in installed.run("python", "-c", example(), CEP_KERNEL_CACHE=str(tmp_path / "kernels"))
