"""Imports point one way, and what is dangerous everywhere is imported in few places. That every module can be imported alone is tested
where the wheel is (`test_wheel.py`)."""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.syntax import statements

PACKAGES = ("cep", "instance_manager", "orchestrator", "driver", "console", "numa_cep", "hibench", "connectors")

#: Layer -> the layers it may import. A layer is a package, or under `cep` a subpackage or a module.
MAY_IMPORT: dict[str, set[str]] = {
    # the pure engine
    "cep.errors": set(),
    "cep.secret": set(),
    "cep.config": {"cep.errors", "cep.secret"},
    "cep.model": {"cep.errors"},
    "cep.machine": {"cep.model"},
    "cep.numa": {"cep.errors", "cep.machine", "cep.model"},
    "cep.values": set(),
    "cep.kernels": {"cep.errors", "cep.model", "cep.values"},
    "cep.plan": {"cep.errors", "cep.model"},
    "cep.elements": {"cep.errors", "cep.kernels", "cep.values"},
    "cep.compile": {"cep.errors", "cep.model", "cep.kernels", "cep.elements", "cep.values"},
    "cep.transport.ipc": set(),
    "cep.transport.peers": set(),
    "cep.transport.admission": {"cep.errors", "cep.kernels"},
    "cep.transport.wire": {
        "cep.errors",
        "cep.model",
        "cep.kernels",
        "cep.elements",
        "cep.transport.ipc",
        "cep.transport.admission",
    },
    "cep.dataflow": {
        "cep.transport.admission",
        "cep.transport.wire",
        "cep.errors",
        "cep.model",
        "cep.kernels",
        "cep.plan",
        "cep.elements",
        "cep.compile",
        "cep.values",
        "cep.service.mark",
        "cep.world",
    },
    "cep.transport": {"cep.transport.ipc", "cep.transport.peers", "cep.transport.wire", "cep.errors", "cep.secret"},
    "cep.service.mark": set(),
    "cep.service": {"cep.config", "cep.errors", "cep.model", "cep.secret", "cep.transport", "cep.transport.peers", "cep.world"},
    # the world, behind protocols
    "cep.world": {"cep.errors"},
    # the processes around it, which never import each other
    "instance_manager": {"cep"},
    # a text of SQL becomes a query where POST /queries takes it, and documents of connectors are checked where they are declared
    "orchestrator": {"cep", "driver.streaming_sql", "connectors"},
    "driver": {"cep", "driver.builder", "driver.rest", "driver.streaming_sql", "driver.top", "driver.trace"},
    "driver.rest": {"cep", "driver"},
    "driver.top": {"cep"},
    "driver.trace": {"cep"},
    "console": {
        "cep.config",
        "cep.errors",
        "cep.service",
        "driver.rest",
        "driver.top",
        "driver.trace",
    },  # REST is all that it knows of a cluster
    "driver.builder": {"cep"},
    "driver.streaming_sql": {"cep", "driver.builder"},  # makes what the builder makes, and knows of no cluster
    "numa_cep": {"cep", "driver", "connectors"},
    # what authors of connectors write against, and the connectors, know nothing of the engine
    "connectors": set(),
    "connectors.running": {"cep", "driver", "connectors"},
    "hibench": {"cep", "driver"},
}

#: Module -> the files that may import it, each with its reason.
FEW: dict[str, dict[str, str]] = {
    "zmq": {
        "cep/transport/accounts.py": "names the type, and asks which connections there are",
        "cep/transport/called.py": "names the type",
        "cep/transport/calling.py": "names the type",
        "cep/transport/zeromq.py": "the carrier of links between hosts",
        "cep/transport/curve.py": "makes keys, and writes them",
        "orchestrator/metrics/server.py": "takes reports and answers questions",
        "orchestrator/metrics/client.py": "asks it",
    },
    "kazoo": {
        "cep/world/zookeeper.py": "`Coordination` over it",
    },
    "numba": {
        "cep/kernels/machine/instructions.py": "intrinsics: unaligned words, libc's memcmp, functions of the C library",
        "cep/kernels/machine/pipeline.py": "how kernels are compiled",
        "cep/kernels/machine/user_code.py": "compiles users' functions, which are no kernels",
    },
    "subprocess": {
        "cep/service/flame.py": "runs the profiler",
        "driver/processes/java.py": "asks a java for its version",
        "driver/local.py": "starts the supervisor",
        "driver/processes/process.py": "starts what must not outlive it",
        "driver/spark/session.py": "Spark in a process of its own",
        "driver/spark/standalone.py": "names the type",
        "driver/processes/loaders.py": "a child is as its own are",
        "hibench/numa/report.py": "measures memory from processes that are bound",
    },
    "time": {
        "cep/world/clock.py": "`Clock` over it",
        "cep/world/usage.py": "`Usage` over it",
        "cep/service/serving.py": "which connection has been idle for longest",
        "cep/service/mark.py": "since when a thread is at something",
        "cep/transport/connections.py": "patience with peers",
        "cep/transport/local.py": "looks for messages for a while",
        "cep/transport/called.py": "how long a key may speak",
        "cep/transport/linked.py": "looks for messages for a while, and tells links the time",
        "driver/processes/children.py": "pauses between the deaths of a process",
        "driver/cli.py": "how long ago a process has died",
        "driver/hosts.py": "how long ago a host has joined",
        "console/watch.py": "asks each second, and not when no page looks",
        "driver/processes/joining.py": "time limits",
        "driver/processes/role_health.py": "how long ago a file was touched",
        "driver/processes/events.py": "waits until a time",
        "driver/gateway.py": "gives up what is not asked for",
        "driver/gateway_keys.py": "forgets keys",
        "driver/streams/frames.py": "how long a program waits for rows",
        "driver/processes/process.py": "patience with those that are to end",
        "driver/sql_console.py": "how long a query ran whose plan is shown with what it cost",
        "driver/spark/feeds.py": "time of ingestion, and how long rows wait for a file",
        "driver/spark/standalone.py": "patience with those that start",
        "driver/rest.py": "patience with an orchestrator that is being restarted",
        "driver/processes/supervisor.py": "time limits",
        "hibench/engines/cep_engine.py": "patience with reports",
        "hibench/engines/clusters.py": "patience with reports",
        "hibench/numa/memory_probe.py": "measures",
        "hibench/runs/meter.py": "measures",
        "connectors/running/figures.py": "since when a connector is at something",
        "connectors/running/pauses.py": "pauses between failures",
        "connectors/running/source_run.py": "how often it looks for new columns",
        "connectors/running/sink_run.py": "how often it commits",
        "connectors/conformance/source_suite.py": "patience with what is tested",
        "hibench/searching/open_loop.py": "sends at a fixed rate",
        "hibench/screen.py": "shows progress",
    },
    "os.environ": {
        "cep/kernels/jit.py": "where compiled kernels are kept, and whether they are compiled",
        "cep/kernels/machine/pipeline.py": "which pipeline compiles kernels: it is decided when the first is",
        "cep/transport/peers.py": "whose processes may speak",
        "driver/gateway.py": "the token, which no command line should show",
        "driver/processes/java.py": "JAVA_HOME and PATH",
        "driver/configuration/told.py": "what a role is told",
        "driver/local.py": "the token, handed to the supervisor",
        "driver/processes/role_health.py": "what a role is told by its environment its health check is told too",
        "driver/processes/run_folder.py": "where it is",
        "driver/spark/daemons.py": "handed on to Spark",
        "driver/spark/session.py": "handed on to Spark",
        "driver/commands.py": "handed on to children",
        "driver/processes/supervisor.py": "the token, which no command line should show",
        "hibench/records/cache.py": "where records are kept",
        "hibench/engines/clusters.py": "the token, which no command line should show",
        "hibench/numa/report.py": "handed on to the processes that measure",
        "instance_manager/__main__.py": "which pipeline compiles kernels, before any is declared",
        "orchestrator/rest_process.py": "the token, which no command line should show",
        "connectors/running/__main__.py": "likewise",
        "connectors/running/secrets.py": "secrets that documents refer to",
        "console/__main__.py": "likewise",
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


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def nodes_where(path: Path, *words: str) -> Iterator[ast.AST]:
    """All of a file in whose text one of `words` is: few are."""
    text = path.read_text()
    return ast.walk(parsed(path)) if any(word in text for word in words) else iter(())


@pytest.fixture(scope="module", autouse=True)
def forgotten() -> Iterator[None]:
    """What was parsed: looking for garbage among it takes time of the tests behind these."""
    yield
    parsed.cache_clear()


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Full names of the modules that a file imports, wherever in it; `from cep.transport import wire` is `cep.transport.wire`."""
    found: list[str] = []
    for node in statements(parsed(path)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            module = node.module or ""
            found += [f"{module}.{a.name}" if f"{module}.{a.name}" in files() else module for a in node.names]
    return tuple(found)


def layer(module: str) -> str:
    """The longest that is listed."""
    parts = module.split(".")
    names = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((name for name in names if name in MAY_IMPORT), parts[0])


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_point_one_way(package: str) -> None:
    ours = {module: path for module, path in files().items() if module.split(".")[0] == package}
    assert [(module, each) for module, path in ours.items() for each in imports(path) if not _may_import(module, each)] == []


def _may_import(module: str, imported: str) -> bool:
    ours, theirs = layer(module), layer(imported)
    if imported.split(".")[0] not in PACKAGES or theirs == ours or ours == "cep":
        return True
    return theirs in MAY_IMPORT[ours] or theirs.split(".")[0] in MAY_IMPORT[ours]


def test_nothing_that_is_shipped_imports_the_benchmarks() -> None:
    assert not [module for module, path in files().items() if any(each.startswith("benchmarks") for each in imports(path))]


def test_every_layer_is_listed() -> None:
    assert {layer(module) for module in files()} - {"cep"} == set(MAY_IMPORT)


@pytest.mark.parametrize("wanted", FEW)
def test_what_is_imported_in_few_places(wanted: str) -> None:
    found = {str(path.relative_to(ROOT)) for path in files().values() if _uses(path, wanted)}
    assert found == set(FEW[wanted])


def _uses(path: Path, wanted: str) -> bool:
    if wanted == "os.environ":
        found = (n for n in nodes_where(path, "environ", "getenv") if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name))
        return any(n.value.id == "os" and n.attr in ("environ", "getenv") for n in found)  # type: ignore[attr-defined]
    return any(name.split(".")[0] == wanted for name in imports(path))


#: What of rich reads square brackets as markup, and a console of one's own, which may.
MARKUP = {"Console", "from_markup", "render_markup", "rich_print"}


def test_what_is_printed_is_text() -> None:
    """A console that reads no markup is made at one place (`driver.terminal.plain_console`), and none is told to read it."""
    calls = [
        (str(path.relative_to(ROOT)), call)
        for package in (*PACKAGES, "benchmarks", "simulation")
        for path in (ROOT / package).rglob("*.py")
        for call in nodes_where(path, "markup", *MARKUP)
        if isinstance(call, ast.Call)
    ]
    assert {file for file, call in calls if _called(call) in MARKUP} == {"driver/terminal.py"}
    assert not [file for file, call in calls for each in call.keywords if each.arg == "markup" and ast.unparse(each.value) != "False"]


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def test_no_local_imports_and_no_imports_for_types_only() -> None:
    """They hide cycles. The exceptions: the instance manager binds itself before it imports what touches memory, the orchestrator looks for
    no garbage meanwhile, and Spark is loaded where it runs, while type checkers want to know what comes back."""
    found = []
    for module, path in files().items():
        for node in statements(parsed(path)):
            inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.If)
            if inside and any(isinstance(each, ast.Import | ast.ImportFrom) for each in statements(node)):
                found.append(module)
    allowed = {"instance_manager.__main__", "orchestrator.__main__", "driver.engines"} | {
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
    tree = parsed(files()[module])
    if "__getattr__" in vars(loaded):  # it loads its names when they are asked for
        return
    if files()[module].name == "__init__.py":
        public = {a.asname or a.name for n in tree.body if isinstance(n, ast.ImportFrom) and n.module != "__future__" for a in n.names}
    else:
        public = {n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef) and not n.name.startswith("_")}
    again = {a.asname or a.name for n in tree.body if isinstance(n, ast.ImportFrom) for a in n.names}
    assert public <= set(listed) <= public | again


def test_what_runs_no_kernel_starts_without_numba() -> None:
    """It takes a quarter of a second of a process's start."""
    modules = "orchestrator.rest_process, orchestrator.metrics.server, driver.cli, driver.local"
    command = [sys.executable, "-c", f"import sys, {modules}; print(*{{'numba', 'llvmlite'}} & set(sys.modules))"]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=100)
    assert (done.stdout, done.stderr) == ("\n", "")
