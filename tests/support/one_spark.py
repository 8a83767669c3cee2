"""One Spark for all tests that run on it: a JVM that has just been started takes ten seconds of CPU until it is quick.

Those files are one share of the run (`tests/conftest.py`), one after the other in the same process, which has one Spark at a time. It is
started for the first of them and goes with the last.
"""

from __future__ import annotations

import contextlib

import pytest

from driver.spark.session import SESSIONS, Spark

MASTER = "local[2]"
FILES = ("tests/driver/spark/", "tests/hibench/engines/test_spark.py", "tests/hibench/report/test_tables.py")
#: Data are small, so less is compiled, and one thread collects garbage; what is compiled stays, and no process stands between Java and the
#: `chmod` that it starts for each file of a checkpoint.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m -Djdk.lang.Process.launchMechanism=VFORK"

#: Spark's own classes are sound: to prove that of each takes seven seconds. Garbage is looked for a third as often, which
#: takes two seconds less.
JAVA_OF_SPARK = "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote -Xmn512m -XX:MetaspaceSize=256m"

_open = contextlib.ExitStack()
_spark: list[Spark] = []


def one_spark() -> Spark:
    if not _spark:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("JAVA_TOOL_OPTIONS", QUICK_JAVA)
            patch.setenv("SPARK_SUBMIT_OPTS", JAVA_OF_SPARK)
            _spark.append(SESSIONS.acquire(MASTER))
        _open.callback(SESSIONS.release)
        _open.callback(_spark.clear)
    return _spark[0]


def end_spark() -> None:
    _open.close()
