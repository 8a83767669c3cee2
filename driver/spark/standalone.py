"""A small Spark cluster on this machine: a master and workers out of the PySpark wheel, on loopback, gone when its owner is."""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from subprocess import Popen

from cep.errors import ClusterError
from driver.processes.process import ending, start, stop, tail
from driver.spark.daemons import MASTER, WORKER, daemon, daemon_environment

_PATIENCE_SECONDS = 120.0


class StandaloneSpark:
    """`with StandaloneSpark(workers=2) as cluster: deploy(query, engine="spark", master=cluster.master)`.

    The kernel kills master and workers when the thread that started them ends, however it ends, and an executor ends without its
    worker. Enter it in the main thread, before there are others.

    Args:
        workers: processes, each of which starts executors.
        cores: task slots of each. memory_mb: for the executors of each.

    Raises:
        ClusterError: one of them cannot start; with the end of its log.
    """

    def __init__(self, workers: int = 2, cores: int = 1, memory_mb: int = 1024) -> None:
        self.workers, self.cores, self.memory_mb = workers, cores, memory_mb
        self.master = ""
        self.processes: list[Popen[bytes]] = []
        self._closing = ExitStack()

    def __enter__(self) -> StandaloneSpark:
        with ExitStack() as undo:
            folder = Path(tempfile.mkdtemp(prefix="cep-standalone-"))
            undo.callback(shutil.rmtree, folder, ignore_errors=True)
            undo.callback(stop, self.processes)
            master = self._start(folder, "master", MASTER)
            self.master = _awaited(master, folder / "master.log", r"Starting Spark master at (spark://\S+)")
            made = [self._start_worker(folder, f"worker-{i}") for i in range(self.workers)]
            for i, worker in enumerate(made):
                _awaited(worker, folder / f"worker-{i}.log", r"(Successfully registered with master)")
            self._closing = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def _start_worker(self, folder: Path, name: str) -> Popen[bytes]:
        size = ("--cores", str(self.cores), "--memory", f"{self.memory_mb}m")
        return self._start(folder, name, WORKER, *size, "--work-dir", str(folder / name), self.master)

    def _start(self, folder: Path, name: str, class_: str, *arguments: str) -> Popen[bytes]:
        known = {**daemon_environment(), "SPARK_LOCAL_DIRS": str(folder / "local")}
        process = start(daemon(class_, "127.0.0.1", 0, *arguments), folder / f"{name}.log", known)
        self.processes.append(process)
        return process


def _awaited(process: Popen[bytes], log: Path, pattern: str) -> str:
    """What the pattern's group is in the log, once it stands there."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline:
        found = re.search(pattern, log.read_text(errors="replace"))
        if found is not None:
            return found[1]
        if process.poll() is not None:
            raise ClusterError(f"a process of a Spark cluster {ending(process)}:\n{tail(log)}")
        time.sleep(0.05)
    raise ClusterError(f"a process of a Spark cluster says nothing of {pattern!r} after {_PATIENCE_SECONDS:g} s:\n{tail(log)}")
