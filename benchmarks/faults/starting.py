"""What it takes to start instance managers: `python -m benchmarks.faults.starting --instances 4`; a line of JSON for each cluster.

Clusters with loaders and without take turns. CPU and memory (a shared page counted in parts) are of instance managers and loaders together;
`back_s` is from the death of one until the orchestrator has its next process.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import time

import psutil

from driver import LocalCluster


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instances", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    for _ in range(arguments.rounds):
        for loaders in (False, True):
            print(json.dumps(_measured(arguments.instances, loaders)), flush=True)


def _measured(instances: int, loaders: bool) -> dict[str, object]:
    begun = time.monotonic()
    with LocalCluster(instances, loaders=loaders) as cluster:
        ready_s = time.monotonic() - begun
        processes = [psutil.Process(pid) for name, pid in cluster.processes() if name.startswith(("im-", "loader-"))]
        cpu_s = sum(sum(each.cpu_times()[:2]) for each in processes)
        memory = sum(each.memory_full_info().pss for each in processes)
        begun, dead = time.monotonic(), dict(cluster.processes())["im-0"]
        os.kill(dead, signal.SIGKILL)
        while not any(each["id"] == "im-0" and each["pid"] != dead for each in cluster.instance_managers()):
            time.sleep(0.01)
        back_s = time.monotonic() - begun
    figures = {"ready_s": ready_s, "cpu_s": cpu_s, "back_s": back_s}
    return {"instances": instances, "loaders": loaders, "memory_mib": memory >> 20} | {name: round(it, 2) for name, it in figures.items()}


if __name__ == "__main__":
    main()
