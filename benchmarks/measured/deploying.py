"""How long `deploy` of the fixed window takes in a fresh cluster whose kernels are cached on disk, and again once they are loaded.

`python -m benchmarks.measured.deploying`
"""

from __future__ import annotations

import time

from benchmarks.measured.window import query
from benchmarks.metering import say
from driver import LocalCluster, stream

INSTANCES = 2


def main() -> None:
    visits = stream("visits", ip=str, ts="timestamp[ms]", event_time="ts", disorder="0s")
    took = []
    with LocalCluster(instances=INSTANCES) as cluster:
        for _ in range(2):
            start = time.perf_counter()
            running = cluster.deploy(query(visits))
            took.append(time.perf_counter() - start)
            running.delete()
    say(deploy_s=took[0], deploy_again_s=took[1])


if __name__ == "__main__":
    main()
