"""Records of runs that were never run: two instance managers on two nodes, a fixed window, three seconds."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from hibench.numa.machine import Machine, MemoryNode
from hibench.runs.answers import AnswerSums
from hibench.runs.meter import ProcessUse
from hibench.runs.record import TABLES, Placed, RunRecord
from hibench.runs.result import LatencyPercentiles, RunResult

MACHINE = Machine(
    cpu="A processor",
    cores_online=4,
    cores_usable=4,
    memory_bytes=16 << 30,
    kernel="Linux 6.1 x86_64",
    python="3.11.2",
    libraries={"numa-cep": "0.1.0", "pyspark": "4.1.0"},
    numa_nodes=(MemoryNode(0, "0-1", (10, 21)), MemoryNode(1, "2-3", (21, 10))),
)
ANSWERS = AnswerSums(rows=40, events=3_000, checksum="0123456789abcdef")
RESULT = RunResult(
    engine="cep",
    numa="on",
    events=3_000,
    seconds=3.0,
    events_per_second=1_000.0,
    cpu_seconds=1.5,
    events_per_cpu_second=2_000.0,
    peak_anonymous_bytes=300 << 20,
    answers=ANSWERS.rows,
    checksum=ANSWERS.checksum,
    latency_ms=LatencyPercentiles(1.0, 2.0, 3.0, samples=40),
    settings={"instance managers": 2},
    processes=(ProcessUse("im-0", 11, 0.7, 150 << 20), ProcessUse("im-1", 12, 0.8, 150 << 20)),
    expected=ANSWERS,
)
PLAN = {
    "subqueries": [
        {"name": "SQ1", "operators": ["pick"], "stateful": False, "streams": ["visits"], "pre_aggregates": ["window"], "parallelism": 2},
        {"name": "SQ2", "operators": ["window", "stamp"], "stateful": True, "streams": [], "pre_aggregates": [], "parallelism": 2},
    ],
    "edges": [
        {"name": "visits>visits", "source": "visits", "producer": "visits", "target": "SQ1", "consumer": "visits", "port": 0}
        | {"balancer": "round-robin", "fields": [], "table": None, "partial": False, "late": False},
        {"name": "pick>window", "source": "SQ1", "producer": "pick", "target": "SQ2", "consumer": "window", "port": 0}
        | {"balancer": "route-key", "fields": ["ip"], "table": None, "partial": True, "late": False},
        {"name": "stamp>per_ip", "source": "SQ2", "producer": "stamp", "target": "", "consumer": "per_ip", "port": 0}
        | {"balancer": "point-to-point", "fields": [], "table": None, "partial": False, "late": False},
    ],
    "instances": [{"subquery": f"SQ{s}", "index": i, "im": f"im-{i}", "replica": 0} for s in (1, 2) for i in (0, 1)],
    "workers": [{"im": "im-0", "node": 0, "core": 0}, {"im": "im-1", "node": 1, "core": 2}],
    "buckets": 4096,
    "numa": True,
    "cost": 42.0,
    "notes": ["a note"],
}

_STEPS = ["pick", "pick", "window"], ["operator"] * 3, [1_000, 2_000, 40], [60_000_000, 40_000_000, 1_000_000]


def table(name: str, *columns: Any) -> pa.Table:
    """A table of a record, from its columns in order."""
    return pa.table([pa.array(column) for column in columns], names=TABLES[name].names).cast(TABLES[name])


def tables() -> dict[str, pa.Table]:
    """Every table of a record; 40 latencies from 1 ms up, each standing for two answers."""
    latencies_us = np.arange(1_000, 41_000, 1_000)
    created = 1_700_000_000_000_000 + np.linspace(0, 3_000_000, len(latencies_us)).astype(np.int64)
    anonymous = [1 << 20, 1 << 20, 5 << 20, 6 << 20]
    return {
        "latency": table("latency", created, created + latencies_us, np.full(len(created), 2)),
        "windows": table("windows", [0, 1_000_000, 2_000_000], [1_000] * 3, [1_000] * 3, [14, 13, 13], [14, 13, 13]),
        "timeline": table("timeline", [0.0, 0.0, 1.5, 1.5], ["im-0", "im-1"] * 2, [0.0, 0.0, 0.7, 0.8], anonymous, [0, 0, 9, 9]),
        "operators": table("operators", ["SQ1", "SQ1", "SQ2"], [0, 1, 1], ["im-0", "im-1", "im-1"], *_STEPS),
        "pages": table("pages", ["im-0", "im-1", "im-1", "client"], [0, 1, 1, None], [0, 0, 1, 0], [1_000, 250, 750, 500]),
    }


def record(**changes: Any) -> RunRecord:
    """A record with everything in it, but for `changes`."""
    whole = RunRecord(
        workload="fixed-window",
        mode="paper",
        began="2026-11-22T01:12:03+00:00",
        result=RESULT,
        machine=MACHINE,
        dataset={"events": 3_000, "keys": "zipf:100", "bytes": 600_000},
        window_ms=1_000,
        rate=1_000,
        series="2026-11-22T011200-fixed-window",
        command="hibench run fixed-window --events 3000 --rate 1000",
        plan=PLAN,
        explanation="query fixed-window\n  visits",
        placed=(Placed("im-0", 0, 0), Placed("im-1", 1, 2)),
        tables=tables(),
    )
    return replace(whole, **changes)
