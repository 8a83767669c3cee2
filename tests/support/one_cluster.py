"""One cluster for all tests that leave one as it was: starting one takes four seconds of CPU.

These files are one share of the run (`tests/conftest.py`), one after the other in the same process. Each gets a cluster without queries
and streams, and fails where it has ended, or changed, what others rely on. A test that kills processes, needs other settings,
or looks at the figures of a whole cluster starts one of its own.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from urllib.parse import quote

from cep.errors import Conflict, NotFound
from driver import LocalCluster
from driver.gateway import PUBLISHER
from tests.support import functions_of_users, user_functions
from tests.support.waiting import until

FILES = (
    *(f"tests/cluster/test_{name}.py" for name in ("generated", "files", "quiet", "many", "cluster", "queries", "streams_that_grow")),
    *(f"tests/driver/test_{name}.py" for name in ("gateway", "flame", "cli", "changing", "sql_command")),
    "tests/benchmarks/faults/test_fuzz.py",
    "tests/benchmarks/measured/test_published.py",
    "tests/hibench/test_bench.py",
    "tests/hibench/workloads/test_workload.py",
    "tests/orchestrator/rest/test_openapi.py",
    "tests/project/test_streams_that_grow_page.py",
)
MODULES = (user_functions, functions_of_users)

_open = contextlib.ExitStack()
_cluster: list[LocalCluster] = []
_processes: set[tuple[str, int]] = set()


def one_cluster(data: Path) -> LocalCluster:
    """Two instance managers, each at its core; sources may be files under `data`."""
    if not _cluster:
        _cluster.append(_open.enter_context(LocalCluster(instances=2, data=[data], modules=MODULES)))
        _open.callback(_processes.clear)
        _open.callback(_cluster.clear)
        _processes.update(_cluster[0].processes())
    return _cluster[0]


def leave_clean(cluster: LocalCluster) -> None:
    """Forgets queries and streams. Where something else is not as it was, the next file gets a new cluster."""
    try:
        until(lambda: _is_empty(cluster))
        assert _processes <= set(cluster.processes()), "a process of the cluster of all has ended"
        assert cluster.info()["quarantined"] == []
    except BaseException:
        end_cluster()
        raise


def _is_empty(cluster: LocalCluster) -> bool:
    for query in cluster.queries():
        with contextlib.suppress(Conflict, NotFound):  # another reads what it puts out
            cluster.query(query["name"]).delete()
    for stream in cluster.rest.get("/streams"):
        if PUBLISHER in [each["name"] for each in stream["publishers"]]:  # it stays open, unless it is told to end
            cluster.rest.post(f"/streams/{quote(stream['name'], safe='')}/records?end=true", [])
        with contextlib.suppress(Conflict, NotFound):  # another publisher is about to go
            cluster.undeclare(stream["name"])
    return not cluster.queries() and not cluster.rest.get("/streams")


def end_cluster() -> None:
    _open.close()
