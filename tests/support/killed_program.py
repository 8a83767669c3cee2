"""A program that publishes until it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence

from driver.cluster import Cluster

PROGRAM = """
import sys

from driver import Cluster

publisher, row = Cluster(sys.argv[1]).publisher(sys.argv[2], name="p"), 0
while True:
    publisher.send([{"t": i * 10, "key": i % 7} for i in range(row, row + 500)])
    row += 500
    print(row, flush=True)
"""


def killed_after(cluster: Cluster, stream_name: str, rows: int, others: Sequence[int] = ()) -> int:
    """A program publishes and is killed, `others` with it; so many rows were accepted, as it has said."""
    program = subprocess.Popen([sys.executable, "-c", PROGRAM, cluster.rest.url, stream_name], stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    said = next(row for row in map(int, program.stdout) if row >= rows)
    for pid in (program.pid, *others):
        os.kill(pid, signal.SIGKILL)
    rest, _ = program.communicate()
    return max([said, *map(int, rest.split())])
