"""A private Spark: its own JVM, quiet, on loopback, writing only into a scratch folder that goes with it."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import STDOUT

import psutil
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from driver.java import java_home
from hibench.errors import EngineError

_LOG_LINES_SHOWN = 15
_FOREIGN = ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "PYSPARK_DRIVER_PYTHON")


@dataclass(frozen=True)
class LocalSpark:
    """A running session, the process id of its JVM, and the scratch folder that goes with it."""

    session: SparkSession
    jvm: int
    scratch: Path
    cores: int
    memory_mb: int


@contextlib.contextmanager
def local_spark(cores: int, settings: dict[str, str] | None = None) -> Iterator[LocalSpark]:
    """Spark in one JVM with `cores` task slots. Raises EngineError with the end of its log if it cannot start or fails.

    However the block is left (also by Ctrl-C), the JVM, its Python workers and the scratch folder are gone after it.
    """
    before, interrupt = _children(), signal.getsignal(signal.SIGINT)
    with tempfile.TemporaryDirectory(prefix="hibench-spark-", ignore_cleanup_errors=True) as folder, _quiet():
        scratch, memory_mb = Path(folder), min(8192, psutil.virtual_memory().total // 2**21)
        try:
            with _environment(scratch), open(scratch / "log", "wb") as log:
                conf = SparkConf(loadDefaults=False).setAll({**_conf(scratch, cores, memory_mb), **(settings or {})}.items())
                gateway = launch_gateway(conf, {"stdout": log, "stderr": STDOUT})
                context = SparkContext(conf=conf, gateway=gateway)
                _restore(interrupt)
                yield LocalSpark(SparkSession(context), gateway.proc.pid, scratch, cores, memory_mb)
            context.stop()
        except (PySparkException, Py4JError) as error:
            raise EngineError(f"Spark failed: {_brief(error)}\n{_tail(scratch / 'log')}") from error
        finally:
            _disconnect()
            _end(_children() - before)
            _forget()


def _conf(scratch: Path, cores: int, memory_mb: int) -> dict[str, str]:
    return {
        "spark.master": f"local[{cores}]",
        "spark.app.name": "hibench",
        "spark.driver.memory": f"{memory_mb}m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # -Xss16m: query.stop() beside a callback can overflow the default stack; the others keep /tmp clean
        "spark.driver.extraJavaOptions": f"-Xss16m -XX:-UsePerfData -Djava.io.tmpdir={scratch}",
        "spark.log.level": "ERROR",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }


@contextlib.contextmanager
def _environment(scratch: Path) -> Iterator[None]:
    """What spark-submit and its Python workers read from the environment, for as long as the JVM runs."""
    ours = {
        "JAVA_HOME": str(java_home(spark=True)),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "SPARK_LOCAL_DIRS": str(scratch / "local"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LAUNCHER_OPTS": "-XX:-UsePerfData",
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


def _restore(interrupt: object) -> None:
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
        SparkContext._active_spark_context._accumulatorServer.handle_error = lambda request, address: None
    if SparkContext._gateway is not None:
        SparkContext._gateway._gateway_client.is_connected = False
        SparkContext._gateway._gateway_client.close()


def _forget() -> None:
    """PySpark keeps its JVM in class attributes; without this the next session would talk to the dead one."""
    if SparkContext._gateway is not None:
        SparkContext._gateway.proc.stdin.close()
        SparkContext._gateway.proc.wait()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None


def _brief(error: Exception) -> str:
    """The first line of what Spark says and, of a Python traceback in it, the last: not the Java frames."""
    lines = [line for line in str(error).partition("JVM stacktrace:")[0].splitlines() if line.strip()]
    return "\n".join(dict.fromkeys([*lines[:1], *lines[-1:]])) or type(error).__name__


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-_LOG_LINES_SHOWN:])
