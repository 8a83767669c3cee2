"""Fixed window over Arrow batches that a process of its own publishes; the instance manager has a core to itself.

`python -m benchmarks.measured.published --times FILE --addresses FILE --records N --out FOLDER`
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.data import as_texts
from benchmarks.measured.window import query
from benchmarks.metering import metered, pin, say
from driver import Cluster, LocalCluster, stream

BATCH_ROWS = 1 << 16
_VISIT = pa.schema([("ip", pa.string()), ("ts", pa.timestamp("us", "UTC"))])


def publish(url: str, times: Path, addresses: Path) -> None:
    """Makes all batches, says so, and sends them when a line comes."""
    microseconds, numbers = np.fromfile(times, np.int64) * 1000, np.fromfile(addresses, np.uint32)
    starts = range(0, len(numbers), BATCH_ROWS)
    batches = [_batch(microseconds[at : at + BATCH_ROWS], numbers[at : at + BATCH_ROWS]) for at in starts]
    with Cluster(url) as cluster, cluster.publisher("visits") as out:
        print("ready", flush=True)
        sys.stdin.readline()
        for batch in batches:
            out.send(batch)


def _batch(microseconds: np.ndarray, numbers: np.ndarray) -> pa.RecordBatch:
    return pa.record_batch([as_texts(numbers), pa.array(microseconds).cast(_VISIT.field("ts").type)], schema=_VISIT)


def _publisher(url: str, *files: Path) -> subprocess.Popen[str]:
    """It has made its batches when this returns. Raises RuntimeError: it has not."""
    words = [sys.executable, "-m", "benchmarks.measured.published", "--publish", url, *map(str, files)]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    if process.stdout.readline() != "ready\n":
        raise RuntimeError(f"the publisher ended with status {process.wait()} before it was ready")
    return process


def main() -> None:
    if sys.argv[1:2] == ["--publish"]:
        url, times, addresses = sys.argv[2:]
        publish(url, Path(times), Path(addresses))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--times", "--addresses", "--out"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--records", type=int, required=True)
    asked = parser.parse_args()
    visits = stream("visits", ip=str, ts="timestamp[ms]", event_time="ts", disorder="0s")
    with LocalCluster(instances=1, data=[asked.out]) as cluster:
        running = cluster.deploy(query(visits, asked.out))
        publisher = _publisher(cluster.rest.url, asked.times, asked.addresses)
        assert publisher.stdin is not None
        for pid in (publisher.pid, os.getpid()):
            pin(pid, max(os.sched_getaffinity(0)))
        with metered(cluster) as used:
            print("go", file=publisher.stdin, flush=True)
            running.wait()
        publisher.wait(30)
        rows = running.status()["rows"]["answers"]
    say(answers=rows, records_per_instance_cpu_s=asked.records / used.of_instance_managers(), **used.rates(asked.records))
    return


if __name__ == "__main__":
    main()
