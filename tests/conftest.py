"""Hypothesis for the whole test run. `-m long` (or HYPOTHESIS_PROFILE=long) draws many more examples than the ordinary run.

A failing example is printed whole, the seed of its schedule with it, and with a line (`@reproduce_failure`) that replays it.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any

import hypothesis.core
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.vendor import pretty
from xdist.scheduler import LoadFileScheduling

from cep.compile.user.functions import allowed
from cep.kernels.jit import interpreted
from driver import LocalCluster
from driver.spark.session import Spark
from tests.strategies.constants import forget_ours, trust_strategies
from tests.support import cells
from tests.support.control_plane import Keeper, keeper
from tests.support.one_cluster import ONE_CLUSTERS, one_cluster_of
from tests.support.one_spark import FILES as SPARK_FILES
from tests.support.one_spark import end_spark, one_spark
from tests.support.paths import ROOT

#: Two cores are shared by many, so nothing has a deadline; a large query takes a while to draw, and one failure to shrink.
CALM: dict[str, Any] = {
    "deadline": None,
    "report_multiple_bugs": False,
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}

#: The examples are the same every time, by each test's own text: a commit that passed passes again. New ones are sought by the other two.
settings.register_profile("ci", max_examples=12, derandomize=True, database=None, **CALM)
settings.register_profile("random", max_examples=40, **CALM)
settings.register_profile("long", max_examples=5_000, **CALM)
#: As in CI, but what is found is not shrunk, and the examples are the same every time.
settings.register_profile("planted", max_examples=100, phases=[Phase.generate], derandomize=True, database=None, **CALM)


def pytest_configure(config: pytest.Config) -> None:
    wanted = "long" if config.getoption("markexpr") == "long" else "ci"
    profile = os.environ.get("HYPOTHESIS_PROFILE", wanted)
    settings.load_profile(profile)
    if settings.get_profile(profile).derandomize:
        forget_ours()
        trust_strategies()


def pytest_runtest_setup() -> None:
    """Schemathesis puts a printer that prints nothing in the place of Hypothesis's, for all tests of the process: failing examples would be
    empty."""
    hypothesis.core.RepresentationPrinter = pretty.RepresentationPrinter  # type: ignore[attr-defined]


#: The files that take longest begin first, so that none of them is left alone at the end.
FIRST = (
    *SPARK_FILES,
    *(file for each in ONE_CLUSTERS.values() for file in each.files),
    *("tests/cluster/test_kill.py", "tests/cluster/", "tests/driver/processes/"),
    *(
        "tests/hibench/",
        "tests/simulation/",
        "tests/cep/dataflow/movement/",
        "tests/project/",
        "tests/benchmarks/",
        "tests/driver/",
        "tests/properties/",
        "tests/cep/compile/",
    ),
)


class Scheduling(LoadFileScheduling):
    """Tests of a file are done by one process, and so are all that share a Spark, or a cluster."""

    def _split_scope(self, nodeid: str) -> str:
        shared = {"spark": SPARK_FILES} | {f"cluster of {name}": each.files for name, each in ONE_CLUSTERS.items()}
        return next((name for name, files in shared.items() if nodeid.startswith(files)), str(super()._split_scope(nodeid)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling | None:
    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """What is collected stays until the end: looking for garbage among it takes a third of the time."""
    gc.disable()
    sys.dont_write_bytecode = False  # pytest takes longer to make its own of a test than to load it
    worker = getattr(session.config, "workerinput", None)
    if worker is not None and session.config.args == session.config.getini("testpaths"):
        _share_the_reading(int(worker["workerid"].removeprefix("gw")), worker["workercount"])


def _share_the_reading(number: int, count: int) -> None:
    """Each of the processes that collect all tests begins with a share of its own, and finds the bytecode of the others'."""
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in sorted(ROOT.glob("tests/**/test_*.py"))]
    first = len(names) * number // count
    for name in names[first:] + names[:first]:
        with suppress(BaseException):  # it is collected all the same, and then told
            import_module(name)


def pytest_collection_finish() -> None:
    """A process has a gigabyte of objects by its end, most of them kernels, which stay: garbage is looked for seldom."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Processes take files in this order (`--no-loadscope-reorder`)."""
    items.sort(key=lambda item: next((place for place, begins in enumerate(FIRST) if item.nodeid.startswith(begins)), len(FIRST)))


@pytest.fixture(scope="session", autouse=True)
def users_modules() -> Iterator[None]:
    """The modules of users' functions that this process would have been started with."""
    with allowed("tests.support.user_functions", "tests.support.functions_of_users"):
        yield


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    """As it was: a role of the command line becomes its process, and what it was told stands in its environment."""
    before = dict(os.environ)
    yield
    if os.environ != before:
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture
def as_python() -> Iterator[None]:
    """Kernels run as their source: for few rows that takes less time than to compile them."""
    with interpreted():
        yield


@pytest.fixture(scope="module", name="one_spark")
def the_spark_of_all() -> Spark:
    return one_spark()


@pytest.fixture(scope="module", name="cluster")
def the_cluster_of_many(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    shared = one_cluster_of(request.node.nodeid)
    assert shared is not None, "a file that shares a cluster stands in tests/support/one_cluster.py"
    yield shared.get(tmp_path_factory.getbasetemp())
    shared.leave_clean()


@pytest.fixture(autouse=True)
def queries_of_one_test(request: pytest.FixtureRequest) -> Iterator[None]:
    shared = one_cluster_of(request.node.nodeid)
    if shared is None or "cluster" not in request.fixturenames:
        yield
        return
    request.getfixturevalue("cluster")
    with shared.queries_of_a_test():
        yield


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """A process has one Spark at a time, and later tests may start another; a cluster that no test needs takes time of the others."""
    if nextitem is None or not nextitem.nodeid.startswith(SPARK_FILES):
        end_spark()
    for each in ONE_CLUSTERS.values():
        if nextitem is None or not nextitem.nodeid.startswith(each.files):
            each.end()


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keeper]:
    """A real one; each test takes a tree of its own in it (`fresh`)."""
    with keeper(tmp_path_factory.mktemp("zookeeper")) as kept:
        yield kept


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A process that runs a share of the tests tells the one that began them what it has executed."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["executed"] = cells.to_json()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    cells.add_json(getattr(node, "workeroutput", {}).get("executed", []))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Which cells of operator, window and balancer the properties executed, and how often."""
    if cells.executed:
        terminalreporter.section("executions by operator, window and balancer")
        terminalreporter.write_line("\n".join(cells.table()))
