"""Many small queries: every one of them takes the tuples that are published, and answers them when it says so."""

from __future__ import annotations

import os

import pytest

from benchmarks.measured import many
from benchmarks.measured.many import Processes
from benchmarks.measured.small_queries import STRUCTURES, answer_after, small_query
from numa_cep import testing

S_NS = 1_000_000_000


@pytest.mark.parametrize("structure", range(0, STRUCTURES, 7))
@pytest.mark.parametrize("variant", [1, 40])
def test_the_tuples_pass_every_filter(structure: int, variant: int) -> None:
    query = small_query(structure, variant)
    with testing.run(query) as run:
        for second in range(4):
            run.send(f"{query.name}.in", many._tuple(second, second * S_NS))
        found = run.answers(f"{query.name}.out")
    behind = answer_after(structure)
    assert behind is None or len(found) == 4 - behind


def test_latencies_are_said_in_ms() -> None:
    found = many._percentiles([i * 1_000_000 for i in range(1, 102)])
    assert found == {"answers": 101, "p50": 51.0, "p95": 96.0, "p99": 100.0, "p99.9": 100.9}
    assert many._percentiles([]) == {"answers": 0}


def test_what_processes_use_is_added_up_by_kind() -> None:
    class OneProcess:
        """A cluster all of whose parts are this process."""

        def processes(self) -> list[tuple[str, int]]:
            return [(name, os.getpid()) for name in ("im-0", "im-1", "zookeeper")]

    processes = Processes(OneProcess())  # type: ignore[arg-type]  # it asks nothing else of a cluster
    memory = processes.memory()
    assert memory.keys() == {"instance managers", "zookeeper"}
    assert memory["instance managers"] == pytest.approx(2 * memory["zookeeper"], rel=0.1)
    before = {"instance managers": 1.0, "zookeeper": 2.0}
    used = processes.share(before, 2.0)
    assert used["zookeeper"] == pytest.approx((processes.cpu_s()["zookeeper"] - 2.0) / 2.0, abs=0.1)
