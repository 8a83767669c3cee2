"""A private Spark: its own JVM, quiet, on loopback, writing only into a scratch folder that goes with it.

`private_spark` is one for a block; `SESSIONS` lends the one that a process may have at a time to callers that ask for its master.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import re
import signal
import socket
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import STDOUT
from types import FrameType
from typing import Any

import psutil
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from cep.errors import ClusterError
from driver.processes.java import java_home
from driver.processes.run_folder import run_folder

_LOG_LINES_SHOWN = 15
_STREAMING = "org.apache.spark.sql.execution.streaming"
#: For speed: no planning anew of every micro-batch, no statistics, state in the JVM's own memory.
FAST = {
    # or for every function that an expression calls the JVM would be asked three times, and told the line of ours that calls it
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.stateStore.providerClass": f"{_STREAMING}.state.HDFSBackedStateStoreProvider",
    # the other one starts a `chmod` for each file: two thirds of all processes of a run with state
    "spark.sql.streaming.checkpointFileManagerClass": f"{_STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager",
}
#: What the answers depend on.
MEANING = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    # where two branches of a query are shuffled alike, Spark would shuffle once, and lose the watermark of the second branch
    "spark.sql.exchange.reuse": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}
_FOREIGN = ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "PYSPARK_DRIVER_PYTHON")


@dataclass(frozen=True)
class Spark:
    """A running session, the process id of its JVM, and the scratch folder that goes with it. `cores` are its task slots."""

    session: SparkSession
    jvm: int
    scratch: Path
    cores: int
    memory_mb: int


@contextlib.contextmanager
def private_spark(
    master: str, cores: int, settings: dict[str, str] | None = None, name: str = "cep", folder: str | None = None
) -> Iterator[Spark]:
    """Spark in one JVM of its own with `cores` task slots, or one that drives a cluster with so many.

    Args:
        settings: Spark's, over FAST, MEANING and what keeps it private.
        name: of the application, and the beginning of its scratch folder's.
        folder: where the scratch folder is made; a cluster on several machines needs one that all of them see.

    Raises:
        ClusterError: it cannot start, or fails; with the end of its log.

    However the block is left (also by Ctrl-C), the JVM, its Python workers and the scratch folder are gone after it.
    """
    before, interrupt = _children(), signal.getsignal(signal.SIGINT)
    with tempfile.TemporaryDirectory(prefix=f"{name}-spark-", dir=folder, ignore_cleanup_errors=True) as made, _quiet():
        scratch, memory_mb = Path(made), min(8192, psutil.virtual_memory().total // 2**21)
        try:
            with _environment(scratch, master), open(scratch / "log", "wb") as log:
                conf = SparkConf(loadDefaults=False).setAll(
                    [*_conf(master, name, scratch, cores, memory_mb).items(), *(settings or {}).items()]
                )
                launch: Any = launch_gateway  # which has no types
                gateway = launch(conf, {"stdout": log, "stderr": STDOUT})
                context = SparkContext(conf=conf, gateway=gateway)
                _restore(interrupt)
                yield Spark(SparkSession(context), gateway.proc.pid, scratch, cores, memory_mb)
            context.stop()
        except (PySparkException, Py4JError) as error:
            raise ClusterError(f"Spark failed: {error_summary(error)}\n{_tail(scratch / 'log')}") from error
        finally:
            _disconnect()
            _end(_children() - before)
            _forget()


MASTERS_VARIABLE = "CEP_SPARK_MASTERS"


class Sessions:
    """The Spark of this process: PySpark has one context at a time. It is started for the first caller and goes with the last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: tuple[str, Spark] | None = None
        self._users = 0
        self._close = contextlib.ExitStack()

    def acquire(self, master: str, folder: str | None = None) -> Spark:
        """The one with this master; `release` it. Raises ClusterError: another one is open, or it cannot start."""
        check_master(master)
        with self._lock:
            if self._open is None:
                spark = self._close.enter_context(private_spark(master, cores_of(master), folder=folder))
                self._open = master, spark
                atexit.register(self._end)
            elif self._open[0] != master:
                raise ClusterError(f"Spark runs already with master {self._open[0]!r}, here {master!r}; a process has one: close the other")
            self._users += 1
            return self._open[1]

    def release(self) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                self._end()

    def _end(self) -> None:
        atexit.unregister(self._end)
        self._open = None
        self._close.close()


SESSIONS = Sessions()


def check_master(master: str) -> None:
    """Raises ClusterError: the operator of this machine has named the masters that programs may use, and this is none of them."""
    named = [each for each in os.environ.get(MASTERS_VARIABLE, "").split(",") if each]
    if named and master not in named:
        raise ClusterError(f"Spark's master {master!r} is none of those that {MASTERS_VARIABLE} names: {', '.join(named)}")


def cores_of(master: str) -> int:
    """Task slots of `local[n]`; of others as many as this machine has cores for us: how finely state is cut."""
    asked = re.fullmatch(r"local\[(\d+)\]", master)
    return int(asked[1]) if asked else 1 if master == "local" else len(os.sched_getaffinity(0))


def _conf(master: str, name: str, scratch: Path, cores: int, memory_mb: int) -> dict[str, str]:
    return {
        **FAST,
        **MEANING,
        "spark.master": master,
        "spark.app.name": name,
        "spark.driver.memory": f"{memory_mb}m",
        "spark.driver.host": _address(master),
        "spark.driver.bindAddress": _address(master),
        # -Xss16m: query.stop() beside a callback can overflow the default stack; the others keep /tmp clean
        "spark.driver.extraJavaOptions": f"-Xss16m -XX:-UsePerfData -Djava.io.tmpdir={scratch}",
        "spark.log.level": "ERROR",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }


def _address(master: str) -> str:
    """Ours, as the cluster at `master` sees us; no packet is sent to find it out. Raises ClusterError: there is no such host."""
    found = re.fullmatch(r"spark://(.+):(\d+)", master)
    if found is None:
        return "127.0.0.1"
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
            way.connect((found[1], int(found[2])))
            return str(way.getsockname()[0])
    except OSError as error:
        raise ClusterError(f"Spark's master {master}: {error.strerror}") from None


def _secret() -> dict[str, str]:
    """Where the processes of a Spark cluster of ours read how they know each other; on a command line all users would see it."""
    folder = run_folder()
    return {"SPARK_CONF_DIR": str(folder.spark)} if folder else {}


@contextlib.contextmanager
def _environment(scratch: Path, master: str) -> Iterator[None]:
    """What spark-submit and its Python workers read from the environment, for as long as the JVM runs."""
    ours = {
        "JAVA_HOME": str(java_home(spark=True)),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "SPARK_LOCAL_DIRS": str(scratch / "local"),
        "SPARK_LOCAL_IP": _address(master),
        "SPARK_LAUNCHER_OPTS": "-XX:-UsePerfData",
        **(_secret() if master.startswith("spark://") else {}),
    }
    before = {name: os.environ.get(name) for name in (*ours, *_FOREIGN)}
    for name in _FOREIGN:
        os.environ.pop(name, None)
    os.environ.update(ours)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """PySpark warns of a pandas newer than it knows, and nothing here uses pandas; py4j logs what it also raises."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        yield


def _restore(interrupt: Callable[[int, FrameType | None], Any] | int | None) -> None:
    """SparkContext installs its own Ctrl-C handler in the main thread; ours also takes the rest down."""
    with contextlib.suppress(ValueError):  # not the main thread: then it installed none
        signal.signal(signal.SIGINT, interrupt)


def _children() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


def _end(processes: set[psutil.Process]) -> None:
    """SIGKILL: everything the processes could want to tidy up lies in the scratch folder."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, timeout=10)


def _disconnect() -> None:
    """Before the JVM is killed: py4j's finalizers and PySpark's accumulator thread would each print a traceback."""
    if SparkContext._active_spark_context is not None:
        accumulators: Any = SparkContext._active_spark_context._accumulatorServer
        accumulators.handle_error = lambda request, address: None
    if SparkContext._gateway is not None:
        client = SparkContext._gateway._gateway_client
        client.is_connected = False
        for connection in list(client.deque):  # py4j would close what a thread still reads from, and wait for it
            with contextlib.suppress(OSError, AttributeError):
                connection.socket.shutdown(socket.SHUT_RDWR)
        client.close()


def _forget() -> None:
    """PySpark keeps its JVM in class attributes; without this the next session would talk to the dead one."""
    if SparkContext._gateway is not None:
        SparkContext._gateway.proc.stdin.close()
        SparkContext._gateway.proc.wait()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None


def error_summary(error: Exception) -> str:
    """The first line of what Spark says and, of a Python traceback in it, the last: not the Java frames."""
    lines = [line for line in str(error).partition("JVM stacktrace:")[0].splitlines() if line.strip()]
    return "\n".join(dict.fromkeys([*lines[:1], *lines[-1:]])) or type(error).__name__


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-_LOG_LINES_SHOWN:])
