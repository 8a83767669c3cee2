"""What metering costs (`cep/dataflow/meter.py`): `python -m benchmarks.measured.metering_cost FILE [--pairs 8]`.

1. Alone, per operator and batch: a chain of operators that only pass one-row batches on, each with its watermark.
2. Of a whole run, by multiplication: that, times the batches of all operators of the fixed window over FILE (uservisits records, comma
   separated: milliseconds, IP address), as a share of the run's CPU time.
3. Of a whole run, by comparison: the same in alternating pairs, off and on, in one thread (`cep.dataflow.local`).

*off* is a meter without a clock, with which nothing is wrapped (`cep.dataflow.metering`). All figures are CPU time of this thread;
intervals are from the second smallest to the second largest of the pairs.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np

from cep.dataflow import metering
from cep.dataflow.local import LocalRun
from cep.dataflow.meter import Meter
from cep.dataflow.nodes import Node, Walk
from cep.dataflow.operators.operator import PassOperator
from cep.elements import Batch
from cep.kernels.jit import warm
from cep.model.topology import Topology
from cep.plan.physical import PhysicalPlan, Worker
from cep.plan.planner import plan
from driver import TIME, Query, col, count, files, first, last

OPERATORS, BATCHES = 8, 2000


def on() -> Meter:
    return Meter(time.perf_counter_ns)


def alone_ns(meter: Meter) -> float:
    """CPU time of passing one batch and one watermark through one operator."""
    nodes = [Node(PassOperator(str(i))) for i in range(OPERATORS)]
    nodes[0].feed(None)
    for node, consumer in pairwise(nodes):
        node.consumers.append((consumer, "in"))
        consumer.feed("in")
    for number, node in enumerate(nodes, 1):
        node.number = number
        metering.measure(node, meter)
    walk = Walk(metering.emitting(meter))
    batch = Batch({}, np.zeros(1, np.int64))
    began = time.thread_time_ns()
    for watermark in range(BATCHES):
        for work in (walk.push(nodes[0], None, batch), walk.advance(nodes[0], None, watermark)):
            for _ in work:
                pass
    return (time.thread_time_ns() - began) / BATCHES / OPERATORS


def fixed_window(file: Path, parallelism: int) -> PhysicalPlan:
    fields = {"ts": "timestamp[ms]", "ip": str}
    visits = files("visits", fields, paths=str(file), event_time="ts", disorder="0s")
    query = Query("cost").source(visits).map("pick", ip=col("ip"), ts=col("ts"))
    query = query.aggregate("window", TIME("30s"), by="ip", visits=count(), start=first("ts"), end=last("ts")).output("per_ip")
    machine = Topology.one_node(range(parallelism))
    workers = [Worker(f"im-{core}", 0, core, "x") for core in range(parallelism)]
    built = query.options(parallelism=parallelism).build()
    return plan(built, {}, workers, machine, files={"visits": ((str(file), file.stat().st_size),)})


def run_ns(planned: PhysicalPlan, meter: Meter) -> tuple[int, int]:
    """CPU time of a run, and the batches that all its operators and outputs took in."""
    run = LocalRun(planned, meter=meter)
    warm()
    began = time.thread_time_ns()
    run.run()
    took = time.thread_time_ns() - began
    accounts = [each.account for i in run.instances for each in i.nodes] + [each.account for i in run.instances for each in i.outputs]
    return took, sum(account.batches for account in accounts)


def pairs(measure: Callable[[Meter], float], count: int) -> list[tuple[float, float]]:
    """(off, on), alternating."""
    return [(measure(Meter()), measure(on())) for _ in range(count)]


def interval(values: list[float]) -> str:
    """Median, and from the second smallest to the second largest."""
    values = sorted(values)
    return f"{statistics.median(values):.4g} [{values[1]:.4g}, {values[-2]:.4g}]"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("file", type=Path)
    arguments.add_argument("--pairs", type=int, default=8)
    arguments.add_argument("--parallelism", type=int, default=1)
    given = arguments.parse_args()
    alone = [metered - plain for plain, metered in pairs(alone_ns, max(12, given.pairs))]
    print(f"alone, ns per operator and batch: {interval(alone)}")
    planned = fixed_window(given.file, given.parallelism)
    run_ns(planned, Meter())  # compiles, and warms the file
    found = [(run_ns(planned, Meter()), run_ns(planned, on())) for _ in range(given.pairs)]
    cpu_ns, batches = found[0][0]
    share = statistics.median(alone) * batches / cpu_ns
    print(f"{batches} batches of {cpu_ns / 1e9:.2f} s CPU: by multiplication {100 * share:.4f} %")
    print(f"on/off, CPU time of whole runs: {interval([metered[0] / plain[0] for plain, metered in found])}")


if __name__ == "__main__":
    main()
