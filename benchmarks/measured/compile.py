"""How long the machine code of the fixed window takes: compiled into an empty cache, and loaded from it. Prints one JSON line.

    python -m benchmarks.measured.compile

The clock covers `build` of all instances of the plan and the parsers of their files, in a fresh process in which Numba is imported and
has compiled something trivial, and in which is loaded what an instance manager loads when it starts: from asking a running instance manager
for its instances until they are ready. An instance manager pays for Numba itself (half a second) when it starts. `cpu` is of that
process: beside wall it says how busy the machine was.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LINES = "".join(f"{1_000 * i},10.0.{i % 7}.{i % 251},x\n" for i in range(1_000))


def main() -> None:
    """Cold, then from cache three times, each in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "visits.csv")
        path.write_text(LINES)
        cold, *cached = [_process(folder, path) for _ in range(4)]
    loaded = sorted(cached, key=lambda each: each["wall_s"])[1]
    shares = dict(sorted(cold["kernels_s"].items(), key=lambda each: -each[1]))
    print(
        json.dumps(
            {"cold_s": cold["wall_s"], "cold_cpu_s": cold["cpu_s"], "cached_ms": round(1e3 * loaded["wall_s"], 1), "kernels_s": shares}
        )
    )


def _process(folder: str, path: Path) -> dict[str, Any]:
    environment = os.environ | {"CEP_KERNEL_CACHE": str(Path(folder, "cache"))}
    command = [sys.executable, "-m", "benchmarks.measured.compile", str(path)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def measure(path: str) -> None:
    """Prints what one process took."""
    import numba

    from cep.dataflow.local import LocalRun
    from cep.kernels.jit import warm
    from cep.kernels.lateness import LATENESS

    numba.njit("int64(int64)")(lambda x: x + 1)
    warm(*LATENESS)
    plan = _plan(path)
    with _timed() as kernels:
        wall, cpu = time.perf_counter(), time.process_time()
        LocalRun(plan)
        taken = {"wall_s": round(time.perf_counter() - wall, 4), "cpu_s": round(time.process_time() - cpu, 4)}
    print(json.dumps(taken | {"kernels_s": kernels}))


def _plan(path: str) -> Any:
    from cep.model.expr import ColumnRef, col
    from cep.model.functions import count, first, last
    from cep.model.operators import Aggregate, Map
    from cep.model.query import Options, Output, Query
    from cep.model.schema import Schema
    from cep.model.streams import Stream, TextFiles
    from cep.model.topology import NumaNode, Topology
    from cep.model.windows import TIME
    from cep.plan.physical import Worker
    from cep.plan.planner import plan

    stream = Stream("visits", Schema.of({"ts": "timestamp[ms]", "ip": str}), ColumnRef("ts"), 0, TextFiles((path,)))
    pick = Map("pick", "visits", (("ip", col("ip")), ("ts", col("ts"))))
    window = Aggregate("window", "pick", TIME("30s"), ("ip",), (("n", count()), ("since", first("ts")), ("until", last("ts"))))
    query = Query("fixed-window", (stream,), (pick, window), (Output("answers", "window"),), None, Options(parallelism=1))
    topology = Topology((NumaNode(0, (0,), 0),), ((10,),))
    return plan(query, {}, [Worker("im-0", 0, 0, "here")], topology, files={"visits": ((path, os.path.getsize(path)),)})


@contextmanager
def _timed() -> Iterator[dict[str, float]]:
    """Seconds until each kernel was ready, by name; those of one name together."""
    from cep.kernels.jit import Kernel

    kernels: dict[str, float] = {}
    ready = Kernel.ready

    def timed(kernel: Kernel) -> Any:
        start = time.perf_counter()
        try:
            return ready(kernel)
        finally:
            kernels[kernel.__name__] = round(kernels.get(kernel.__name__, 0.0) + time.perf_counter() - start, 4)

    Kernel.ready = timed  # type: ignore[method-assign, assignment]  # measured where it is called
    try:
        yield kernels
    finally:
        Kernel.ready = ready  # type: ignore[method-assign]  # as it was


if __name__ == "__main__":
    measure(sys.argv[1]) if len(sys.argv) > 1 else main()
