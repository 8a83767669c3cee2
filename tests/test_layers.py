"""Imports point one way, what is dangerous everywhere is imported in few places, and every module can be imported alone."""

from __future__ import annotations

import ast
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("cep", "instance_manager", "orchestrator", "driver", "hibench")

#: Layer -> the layers it may import. A layer is a package, or under `cep` a subpackage or a module.
MAY_IMPORT: dict[str, set[str]] = {
    # the pure engine
    "cep.errors": set(),
    "cep.config": {"cep.errors"},
    "cep.model": {"cep.errors"},
    "cep.numa": {"cep.errors", "cep.model"},
    "cep.values": set(),
    "cep.kernels": {"cep.errors", "cep.model", "cep.values"},
    "cep.plan": {"cep.errors", "cep.model"},
    "cep.elements": {"cep.errors", "cep.kernels", "cep.values"},
    "cep.compile": {"cep.errors", "cep.model", "cep.kernels", "cep.plan", "cep.elements", "cep.values"},
    "cep.ipc": set(),
    "cep.admission": {"cep.errors", "cep.kernels"},
    "cep.wire": {"cep.errors", "cep.model", "cep.kernels", "cep.elements", "cep.ipc", "cep.admission"},
    "cep.dataflow": {
        "cep.admission",
        "cep.errors",
        "cep.model",
        "cep.kernels",
        "cep.plan",
        "cep.elements",
        "cep.compile",
        "cep.wire",
        "cep.values",
        "cep.mark",
    },
    "cep.joint": {"cep.ipc", "cep.wire"},
    "cep.transport": {"cep.ipc", "cep.wire", "cep.local_sockets", "cep.network_sockets"},
    "cep.local_sockets": {"cep.peers", "cep.errors", "cep.ipc", "cep.wire", "cep.joint"},
    "cep.network_sockets": {"cep.errors", "cep.ipc", "cep.wire"},
    "cep.yaml_documents": set(),
    "cep.zookeeper": {"cep.errors"},
    "cep.reports": set(),
    "cep.documents": {"cep.yaml_documents"},
    "cep.folders": {"cep.errors"},
    "cep.peers": set(),
    "cep.serving": {"cep.peers"},
    "cep.mark": set(),
    # the processes around it, which never import each other
    "instance_manager": {"cep"},
    "orchestrator": {"cep"},
    "driver": {"cep"},
    "hibench": {"cep", "driver"},
}

#: Where a layer of `cep` knows only a part of another.
ONLY: dict[tuple[str, str], set[str]] = {
    ("cep.compile", "cep.plan"): {"cep.plan.types", "cep.plan.function_types", "cep.plan.schemas", "cep.plan.lineage"},
}

#: Module -> the files that may import it, each with its reason.
FEW: dict[str, dict[str, str]] = {
    "zmq": {
        "cep/network_sockets.py": "the data plane of instance managers and drivers, which may not import each other",
        "orchestrator/metric_server.py": "takes reports and answers questions",
        "orchestrator/metric_client.py": "asks it",
    },
    "kazoo": {
        "cep/zookeeper.py": "connects, as the cluster",
        "instance_manager/control.py": "assignments and statuses",
        "orchestrator/registry.py": "reads and writes what should be true",
        "orchestrator/election.py": "one leader",
        "orchestrator/service.py": "the state of the connection",
    },
    "numba": {
        "cep/kernels/jit.py": "when and how kernels are compiled",
        "cep/kernels/libm.py": "functions of the C library",
        "cep/kernels/memory.py": "intrinsics: unaligned words, libc's memchr",
        "cep/kernels/pipeline.py": "how kernels are compiled",
        "cep/kernels/table.py": "types of its arrays",
        "cep/kernels/user_code.py": "compiles users' functions, which are no kernels",
    },
    "subprocess": {
        "driver/flame.py": "runs the profiler",
        "driver/java.py": "asks a java for its version",
        "driver/local.py": "starts the supervisor",
        "driver/processes.py": "starts what must not outlive it",
        "driver/spark/session.py": "Spark in a process of its own",
        "driver/spark/standalone.py": "names the type",
        "driver/children.py": "names the type",
        "hibench/numa_report.py": "measures memory from processes that are bound",
    },
    "time": {
        "cep/serving.py": "which connection has been idle for longest",
        "cep/mark.py": "since when somebody is at something",
        "cep/local_sockets.py": "looks for messages for a while, patience with peers",
        "cep/network_sockets.py": "looks for messages for a while",
        "driver/children.py": "pauses between the deaths of a process",
        "driver/cli.py": "how long ago a process has died",
        "driver/data.py": "heartbeats",
        "driver/events.py": "waits until a time",
        "driver/gateway.py": "gives up what nobody asks for",
        "driver/processes.py": "patience with those that are to end",
        "driver/publisher.py": "time of ingestion and of creation",
        "driver/quiet.py": "for how long a publisher has been silent",
        "driver/spark/feeds.py": "time of ingestion, and how long rows wait for a file",
        "driver/spark/standalone.py": "patience with those that start",
        "driver/rest.py": "patience with an orchestrator that is being restarted",
        "driver/subscription.py": "time limits",
        "driver/subscriptions.py": "time limits",
        "driver/supervisor.py": "time limits",
        "hibench/clusters.py": "patience with reports",
        "hibench/memory_probe.py": "measures",
        "hibench/meter.py": "measures",
        "hibench/open_loop.py": "sends at a fixed rate",
        "hibench/screen.py": "shows progress",
        "instance_manager/clients.py": "notices silence",
        "instance_manager/hosting.py": "lends operators their clock",
        "instance_manager/loop.py": "slices and ticks",
        "instance_manager/metrics.py": "reports twice a second",
        "orchestrator/metric_server.py": "ages of reports",
        "orchestrator/rest.py": "time limits",
        "orchestrator/service.py": "lends the pure state its clock",
    },
    "os.environ": {
        "cep/kernels/jit.py": "where compiled kernels are kept",
        "cep/peers.py": "whose processes may speak",
        "driver/gateway.py": "the token, which no command line should show",
        "driver/java.py": "JAVA_HOME and PATH",
        "driver/local.py": "the token, handed to the supervisor",
        "driver/role_health.py": "what a role is told by its environment its health check is told too",
        "driver/run_folder.py": "where it is",
        "driver/spark/daemons.py": "handed on to Spark",
        "driver/spark/session.py": "handed on to Spark",
        "driver/commands.py": "handed on to children",
        "driver/supervisor.py": "the token, which no command line should show",
        "hibench/cache.py": "where records are kept",
        "hibench/clusters.py": "the token, which no command line should show",
        "hibench/numa_report.py": "handed on to the processes that measure",
        "orchestrator/__main__.py": "the token, which no command line should show",
    },
}


@cache
def files() -> dict[str, Path]:
    """Module name -> file, of everything we ship."""
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path) -> Iterator[str]:
    """Full names of the modules that a file imports, wherever in it; `from cep import wire` is `cep.wire`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            module = node.module or ""
            yield from (f"{module}.{a.name}" if f"{module}.{a.name}" in files() else module for a in node.names)


def layer(module: str) -> str:
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] == "cep" else parts[0]


@pytest.mark.parametrize("module", sorted(files()))
def test_imports_point_one_way(module: str) -> None:
    ours = layer(module)
    for imported in imports(files()[module]):
        theirs = layer(imported)
        if imported.split(".")[0] not in PACKAGES or theirs == ours or ours == "cep":
            continue
        allowed = MAY_IMPORT[ours]
        assert theirs in allowed or theirs.split(".")[0] in allowed, f"{module} imports {imported}"
        only = ONLY.get((ours, theirs))
        assert only is None or imported in only, f"{module} imports {imported}; of {theirs} it may know {sorted(only)}"


def test_every_layer_is_listed() -> None:
    assert {layer(module) for module in files()} - {"cep"} == set(MAY_IMPORT)


@pytest.mark.parametrize("wanted", FEW)
def test_what_is_imported_in_few_places(wanted: str) -> None:
    found = {str(path.relative_to(ROOT)) for path in files().values() if _uses(path, wanted)}
    assert found == set(FEW[wanted])


def _uses(path: Path, wanted: str) -> bool:
    if wanted == "os.environ":
        found = (n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name))
        return any(n.value.id == "os" and n.attr in ("environ", "getenv") for n in found)  # type: ignore[attr-defined]
    return any(name.split(".")[0] == wanted for name in imports(path))


def test_no_local_imports_and_no_imports_for_types_only() -> None:
    """They hide cycles. The exceptions: the instance manager binds itself before it imports what touches memory, and Spark is loaded
    where it runs, while type checkers want to know what comes back."""
    found = []
    for module, path in files().items():
        for node in ast.walk(ast.parse(path.read_text())):
            inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.If)
            if inside and any(isinstance(each, ast.Import | ast.ImportFrom) for each in ast.walk(node)):
                found.append(module)
    allowed = {"instance_manager.__main__", "driver.engines"} | {
        m for m in found if m.startswith("hibench")
    }  # Spark is imported where it runs
    assert set(found) <= allowed


@pytest.mark.parametrize("module", [m for m, path in files().items() if "\n__all__ = " in path.read_text()])
def test_all_is_complete(module: str) -> None:
    """Every public name that a package's front page imports or a module defines is in it, sorted, and there."""
    loaded = importlib.import_module(module)
    listed = loaded.__all__
    assert sorted(listed, key=lambda name: (not name.isupper(), name)) == list(listed) or sorted(listed) == list(listed)
    assert [name for name in listed if not hasattr(loaded, name)] == []
    tree = ast.parse(files()[module].read_text())
    if "__getattr__" in vars(loaded):  # it loads its names when they are asked for
        return
    if files()[module].name == "__init__.py":
        public = {a.asname or a.name for n in tree.body if isinstance(n, ast.ImportFrom) and n.module != "__future__" for a in n.names}
    else:
        public = {n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef) and not n.name.startswith("_")}
    again = {a.asname or a.name for n in tree.body if isinstance(n, ast.ImportFrom) for a in n.names}
    assert public <= set(listed) <= public | again


#: A module takes 0.2 s.
PARTS = 6
ALONE = """
import json, os, sys, threading
import fastapi, httpx, jinja2, kazoo.client, matplotlib.figure, numba.extending, pandas, psutil  # not ours
import pyarrow.compute, pyspark.sql, rich.table, typer, uvicorn, yaml, zmq
for module in json.loads(sys.argv[1]):
    child = os.fork()
    if not child:
        os.chdir(sys.argv[2])
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


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.long) for part in range(1, PARTS))])
def test_every_module_imports_alone_and_does_nothing(part: int, tmp_path: Path) -> None:
    """In a child of its own: no thread, no file, no variable, and nothing is printed. The long mode has all parts, CI one of them."""
    modules = [module for module in files() if not module.endswith("__main__")][part::PARTS]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "CEP_KERNEL_CACHE": str(tmp_path / "kernels")}
    (tmp_path / "empty").mkdir()
    command = [sys.executable, "-c", ALONE, json.dumps(modules), str(tmp_path / "empty")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
    assert (done.stdout, done.stderr) == ("", "")
    assert not (tmp_path / "kernels").exists()
