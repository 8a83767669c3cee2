"""Clusters of many test files: starting one takes five seconds of CPU.

The files of one are one share of the run (`tests/conftest.py`), one after the other in the same process. Each gets a cluster without
queries and streams, and fails where it has ended, or changed, what others rely on; instance managers may be killed, for they come back.
The queries of one test are gone before the next begins, for a query whose rows have all come may still be running.
A test that kills others, needs other settings, or looks at the figures of a whole cluster starts one of its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import pytest

from cep.errors import Conflict, NotFound
from driver import LocalCluster
from driver.gateway import PUBLISHER
from tests.support import functions_of_users, functions_that_stall, user_functions
from tests.support.functions_of_scripts import Greatest, poisoned, rewarded
from tests.support.waiting import until

MODULES = (user_functions, functions_of_users)
HOLD_S = 3.0  # what is planted to hold an instance manager for a moment holds it for less, on a busy machine too


class OneCluster:
    """The cluster of some files: each instance manager at its core. `settings`: of LocalCluster, over those of all."""

    def __init__(self, instances: int, *files: str, **settings: Any) -> None:
        self.instances, self.files, self.settings = instances, files, {"modules": MODULES, "pause_max_s": 0.25} | settings
        self._open = contextlib.ExitStack()
        self._cluster: LocalCluster | None = None
        self._processes: set[tuple[str, int]] = set()

    def get(self, data: Path) -> LocalCluster:
        """The one that runs, or a new one; sources may be files under `data`."""
        if self._cluster is None:
            self._cluster = self._open.enter_context(LocalCluster(self.instances, data=[data], **self.settings))
            self._processes = _without_managers(self._cluster)
        return self._cluster

    @contextlib.contextmanager
    def queries_of_a_test(self) -> Iterator[None]:
        """Those that are started within are deleted behind it."""
        cluster = self._cluster
        assert cluster is not None
        before = {query["name"] for query in cluster.queries()}
        yield
        if cluster.supervisor.poll() is None:  # one test kills the whole
            until(lambda: not _delete_queries(cluster, before))

    def leave_clean(self) -> None:
        """Forgets queries and streams. Where something else is not as it was, the next file gets a new cluster."""
        cluster = self._cluster
        assert cluster is not None
        try:
            until(lambda: _is_empty(cluster))
            until(lambda: self._are_back(cluster))
            assert self._processes <= _without_managers(cluster), "a process of the cluster of all has ended"
            assert cluster.info()["quarantined"] == []
        except BaseException:
            self.end()
            raise

    def _are_back(self, cluster: LocalCluster) -> bool:
        """All instance managers: one that was killed right before may be known yet."""
        known = [each["pid"] for each in cluster.instance_managers()]
        return len(known) == self.instances and all(map(lives, known))

    def end(self) -> None:
        """Nothing is left of one that lived."""
        cluster, self._cluster = self._cluster, None
        processes = None if cluster is None or cluster.supervisor.poll() is not None else cluster.processes()
        self._open.close()
        if cluster is not None and processes is not None:
            assert cluster.supervisor.returncode == 0 and not Path(cluster.home).exists()
            until(lambda: not any(lives(pid) for _, pid in processes))


ONE_CLUSTERS = {
    "two": OneCluster(
        2,
        *(f"tests/cluster/test_{name}.py" for name in ("generated", "files", "quiet", "many", "cluster", "queries", "streams_that_grow")),
        *(f"tests/driver/test_{name}.py" for name in ("gateway", "flame", "previews", "cli", "changing", "sql_command", "top")),
        *("tests/benchmarks/faults/test_fuzz.py", "tests/benchmarks/measured/test_published.py", "tests/hibench/test_bench.py"),
        "tests/hibench/workloads/test_workload.py",
        *("tests/console/test_pages.py", "tests/driver/processes/test_console.py"),
        "tests/orchestrator/rest/test_openapi.py",
        *("tests/project/test_streams_that_grow_page.py", "tests/project/test_readme.py"),
        *(f"tests/cluster/test_{name}.py" for name in ("tokens", "moves", "connectors", "partitioned")),
        *("tests/orchestrator/state/test_connectors.py", "tests/driver/applications/test_commands.py"),
    ),
    # Of one instance manager, which is held up, and ends. The last file may leave words in its log that are no JSON.
    "one": OneCluster(
        1,
        "tests/driver/test_trace.py",
        *(f"tests/cluster/test_{name}.py" for name in ("functions", "logs", "held")),
        modules=(*MODULES, functions_that_stall),
        functions=(rewarded, Greatest, poisoned),
        hold_s=HOLD_S,
        log="json",
    ),
    # What is silent counts as dead early. The second file kills the others too, and the third ends it.
    "impatient": OneCluster(
        2, *(f"tests/cluster/test_{name}.py" for name in ("frozen", "kill", "away")), session_timeout_s=3.0, grace_s=3.0
    ),
    "three": OneCluster(3, *(f"tests/cluster/test_{name}.py" for name in ("recovery", "instances", "scaling", "patterns"))),
}


def one_cluster_of(test: str) -> OneCluster | None:
    """The one that the file of `test` shares."""
    return next((each for each in ONE_CLUSTERS.values() if test.startswith(each.files)), None)


def uncompiled(instances: int, **settings: Any) -> LocalCluster:
    """A cluster whose processes run kernels as their source: for few rows that takes less time than to load Numba. In this process, which
    may load it, the variable does not stay."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NUMBA_DISABLE_JIT", "1")
        return LocalCluster(instances, **settings)


def lives(pid: int) -> bool:
    """A process that has been killed, and that its parent has not noticed yet, does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _without_managers(cluster: LocalCluster) -> set[tuple[str, int]]:
    return {(name, pid) for name, pid in cluster.processes() if not name.startswith("im-")}


def _delete_queries(cluster: LocalCluster, kept: Collection[str] = ()) -> list[str]:
    """Those that were there and are not `kept`: one that another reads is not gone yet."""
    names = [query["name"] for query in cluster.queries() if query["name"] not in kept]
    for name in names:
        with contextlib.suppress(Conflict, NotFound):  # another reads what it puts out
            cluster.query(name).delete()
    return names


def _is_empty(cluster: LocalCluster) -> bool:
    _delete_queries(cluster)
    for stream in cluster.rest.get("/streams"):
        for publisher in stream["publishers"]:
            name, of = (quote(each["name"], safe="") for each in (stream, publisher))
            if publisher["name"] == PUBLISHER:  # it stays open, unless it is told to end
                cluster.rest.post(f"/streams/{name}/records?end=true", [])
            else:  # of a program that was killed
                cluster.rest.delete(f"/streams/{name}/publishers/{of}")
        with contextlib.suppress(Conflict, NotFound):  # another publisher is about to go
            cluster.undeclare(stream["name"])
    return not cluster.queries() and not cluster.rest.get("/streams")
