"""Whether a role works, for a container's health check: `python -m driver.processes.role_health ROLE`; 0 and a word, or 1 and why not.

Asked every few seconds on every machine, so it imports next to nothing. What a role is told by its environment, this is told too.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
import sys
import time
import tomllib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from cep.config import EVERYWHERE
from cep.errors import ClusterError
from cep.service.reports import read_reports
from driver.processes.key_folder import KeyFolder
from driver.processes.reach import KEEPER, rest_at
from driver.processes.run_folder import RunFolder, run_folder
from driver.processes.zookeeper import HOST, is_ok

_PATIENCE_S = 4.0
HEARD_S = 15.0
"""A process for connectors asks each second, and one whose orchestrator was killed asks the other."""

T = TypeVar("T", int, str, bool)


def zookeeper() -> str:
    """It answers."""
    answers = is_ok(
        _at(_told("zookeeper_host", HOST)), _told("zookeeper_port", 2181), _PATIENCE_S, _keys() if _told("zookeeper_tls", False) else None
    )
    return _expected("imok" if answers else "another answer", "imok")


def orchestrator() -> str:
    """It leads, or stands by for one that does."""
    rest_host, address = _told("rest_host", HOST), _told("listen", "")
    connection = _connection(_at(rest_at(address, rest_host) if address else rest_host), _told("rest_port", 8765))
    with closing(connection):
        connection.request("GET", "/health", headers={"Authorization": f"Bearer {_run().token()}"})
        answer = json.loads(connection.getresponse().read())
    _expected(answer["zookeeper"], "connected")
    return str(answer["role"])


def _at(host: str) -> str:
    """How a process that listens there is reached from this machine."""
    return EVERYWHERE.get(host, host)


def _connection(host: str, port: int) -> http.client.HTTPConnection:
    """With TLS where REST has it: its certificate is for 127.0.0.1 too, as `cep keys` makes them."""
    keys = _keys()
    if keys is None and not _told("tls_cert", ""):
        return http.client.HTTPConnection(host, port, timeout=_PATIENCE_S)
    authority = _told("ca", "") or (str(keys.ca) if keys else None)
    return http.client.HTTPSConnection(host, port, timeout=_PATIENCE_S, context=ssl.create_default_context(cafile=authority))


def _keys() -> KeyFolder | None:
    named = _told("keys", "")
    return KeyFolder(Path(named)) if named else None


def metric_server() -> str:
    """It listens."""
    return _listens("metrics-in")


def gateway() -> str:
    """It listens."""
    return _listens("gateway")


def instance_managers() -> str:
    """All that its agent keeps up are up, and listen."""
    name = sys.argv[2] if len(sys.argv) > 2 else "instance-managers"
    children = [child for report in read_reports(_run().reports) if report["supervisor"] == name for child in report["children"]]
    if not children:
        raise ClusterError(f"no report of {name!r} in {_run().reports}")
    for child in children:
        _expected(f"{child['name']} is {child['state']}", f"{child['name']} is up")
        if child["name"] != KEEPER:  # which asks, and is asked nothing
            _listens(child["name"])
    return f"{len(children)} up"


def run_connectors() -> str:
    """An orchestrator has answered it just now."""
    silent_s = time.time() - _run().heard(socket.gethostname()).stat().st_mtime
    return _expected("heard" if silent_s < HEARD_S else f"not heard for {silent_s:.0f} s", "heard")


def spark_master() -> str:
    """It listens."""
    socket.create_connection((socket.gethostname(), 7077), _PATIENCE_S).close()
    return "listens"


ROLES: dict[str, Callable[[], str]] = {
    role.__name__.replace("_", "-"): role
    for role in (zookeeper, orchestrator, metric_server, gateway, instance_managers, run_connectors, spark_master)
}


def _told(name: str, default: T) -> T:
    """An option, as the role has it of its environment or file (`driver.configuration`, which takes longer to import)."""
    if given := os.environ.get(f"CEP_{name.upper()}"):
        return type(default)(given.lower() in ("1", "true", "yes", "on") if isinstance(default, bool) else given)
    file = os.environ.get("CEP_CONFIG")
    return type(default)(tomllib.loads(Path(file).read_text("utf-8-sig")).get(name, default) if file else default)


def _run() -> RunFolder:
    folder = run_folder()
    if folder is None:
        raise ClusterError("expected the run folder in CEP_RUN")
    return folder


def _listens(name: str) -> str:
    with closing(socket.socket(socket.AF_UNIX)) as connection:
        connection.settimeout(_PATIENCE_S)
        connection.connect(str(Path(_run().path) / name))
    return "listens"


def _expected(got: str, expected: str) -> str:
    if got != expected:
        raise ClusterError(f"expected {expected!r}, got {got!r}")
    return got


def main(arguments: list[str]) -> int:
    try:
        print(ROLES[arguments[0]]())
    except (ClusterError, OSError, ValueError, LookupError, http.client.HTTPException) as error:
        print(f"{type(error).__name__}: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
