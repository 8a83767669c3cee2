"""What users import has types: pyright reads a program of theirs against the wheel, as an editor does."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import typing
import zipfile
from pathlib import Path

import pytest

import driver

ROOT = Path(__file__).parent.parent

PROGRAM = """
from driver import TIME, Cluster, LocalCluster, Query, col, count, stream, sum_

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
    """The wheel, taken apart."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--wheel-dir",
        str(folder),
        str(ROOT),
    ]
    subprocess.run(pip, check=True, timeout=100)
    (built,) = folder.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        archive.extractall(folder / "taken_apart")
    return folder / "taken_apart"


def test_pyright_knows_the_types(wheel: Path, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    settings = {"extraPaths": [str(wheel)], "typeCheckingMode": "standard", "pythonVersion": "3.11"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [str(Path(sys.executable).parent / "basedpyright"), "--outputjson", "--pythonpath", sys.executable, "program.py"]
    told = json.loads(subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100).stdout)
    found = told["generalDiagnostics"]
    shown = [re.fullmatch(r'Type of "(.*)" is "(.*)"', each["message"]) for each in found if each["severity"] == "information"]
    assert {each[1]: each[2] for each in shown if each} == REVEALED
    rules = {(each["range"]["start"]["line"], each["rule"]) for each in found if each["severity"] == "error"}
    last = PROGRAM.count("\n")
    assert rules == {(last - 2, "reportArgumentType"), (last - 1, "reportAttributeAccessIssue")}


def test_type_checkers_see_every_name() -> None:
    """Names are loaded when they are asked for, and the list for type checkers says the same."""
    text = (ROOT / "driver/__init__.pyi").read_text()
    seen = {name: module for module, name in re.findall(r"^from (\S+) import (\w+) as \2$", text, re.MULTILINE)}
    assert seen == driver._HOME
    assert all(typing.cast(object, getattr(driver, name)) is not None for name in driver.__all__)
