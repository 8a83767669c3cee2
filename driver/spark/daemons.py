"""The long-lived processes of a Spark cluster, a master and workers: how they are started, alone or as roles in containers."""

from __future__ import annotations

import os
from collections.abc import Mapping

from driver.processes.java import java_home
from driver.processes.run_folder import RunFolder
from driver.processes.zookeeper import spark_jars

MASTER, WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
_FOREIGN = ("SPARK_HOME", "SPARK_CONF_DIR", "SPARK_MASTER_HOST", "SPARK_WORKER_DIR")


def daemon(class_: str, host: str, port: int, *arguments: str) -> list[str]:
    """The command of a daemon that listens at `port` of `host`, 0: any free one; its pages at any port of SPARK_LOCAL_IP."""
    script = spark_jars().parent / "bin" / "spark-class"
    return [str(script), class_, "--host", host, "--port", str(port), "--webui-port", "0", *arguments]


def daemon_environment(run: RunFolder | None = None) -> Mapping[str, str]:
    """What it needs in its environment beside ours. With a run folder, whose secret all its clients have to know."""
    ours = {
        "JAVA_HOME": str(java_home(spark=True)),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:-UsePerfData -Dspark.master.rest.enabled=false",
        "SPARK_LAUNCHER_OPTS": "-XX:-UsePerfData",
    }
    known = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
    return known | ours | ({"SPARK_CONF_DIR": str(run.spark)} if run else {})
