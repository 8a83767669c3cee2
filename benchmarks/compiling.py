"""How long it takes to make the fixed window ready to run, in a fresh process, its imports left out.

`python -m benchmarks.compiling [--cold]`: with nothing cached, or with what a process before has left.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.metering import say
from benchmarks.window import query, visits
from cep.dataflow.local import LocalRun
from cep.model.topology import Topology
from cep.plan.physical import Worker
from cep.plan.planner import plan

_LINES = "1700000010000,10.0.0.1\n1700000010001,10.0.0.2\n"


def compile_here(folder: Path) -> dict[str, float]:
    """Builds the instances of the query, as an instance manager does."""
    text = folder / "records.csv"
    text.write_text(_LINES)
    asked = query(visits(text), parallelism=1).build()
    worker = Worker("im", 0, 0, "ipc:///im")
    made = plan(asked, {}, [worker], Topology.one_node([0]), files={"visits": ((str(text), text.stat().st_size),)})
    wall, cpu = time.perf_counter(), time.process_time()
    LocalRun(made)
    return {"compile_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}


def _fresh(folder: Path) -> dict[str, float]:
    """In a process of its own, which keeps machine code in `folder`."""
    environment = os.environ | {"CEP_KERNEL_CACHE": str(folder / "kernels")}
    words = [sys.executable, "-m", "benchmarks.compiling", "--in", str(folder)]
    done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--in", dest="folder", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.folder is not None:
        return say(**compile_here(asked.folder))
    with tempfile.TemporaryDirectory() as folder:
        first = _fresh(Path(folder))
        return say(**(first if asked.cold else _fresh(Path(folder))))


if __name__ == "__main__":
    main()
