"""`python -m connectors.running '<config>'`: runs connectors until SIGTERM.

It ends without closing its publishers, as one that is killed does: the next one goes on under their names, and nothing that is late by then
would have been on time.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import signal
import socket
import sys
import uuid
from pathlib import Path

import pyarrow as pa

from cep.config import TOKEN_VARIABLE, ClusterConfig
from cep.service.logs import begin_logging
from connectors.running.fleet import Fleet
from connectors.running.secrets import WithoutSecrets
from driver.cluster import Cluster
from driver.processes.run_folder import RunFolder

NOTES = "connectors"


def main(arguments: list[str]) -> int:
    config = ClusterConfig.from_json(json.loads(arguments[0]))
    begin_logging("connectors", config.log)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(WithoutSecrets(handler.formatter or logging.Formatter()))
    pa.set_cpu_count(1)
    cluster = Cluster(config.rest, os.environ.get(TOKEN_VARIABLE), ca=config.ca)
    place, notes = f"{config.host or socket.gethostname()}:{config.home}", Path(config.home) / NOTES
    notes.mkdir(exist_ok=True)
    fleet = Fleet(cluster, notes, place, uuid.uuid4().hex, RunFolder(Path(config.home)).heard(socket.gethostname()))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: fleet.close())
    gc.freeze()  # records come and go by the thousand: what is here is not looked through for each of them
    gc.set_threshold(50_000, 50, 50)
    fleet.run()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
