"""Instance managers as copies of one process: it has loaded, at their node, all that they need, and waits for word of each to be made.

To load it takes a second and a half of CPU and eighty megabytes, for each that is started by itself; a copy takes some milliseconds, and
shares the memory until it writes there. What a copy writes is on its own node, and so is the rest: there is such a process for each node.

Rules:
1. It has one thread of Python, and copies itself only between requests: no lock is held then.
2. A copy is a child of the process that asked for it (`driver.processes.loaders`, which adopts it), in a process group of its
   own, and the kernel kills it when that process ends.
3. A request is a JSON document, `{"name", "config", "log"}`; the answer `{"name", "pid"}`, or `{"name", "error"}`. The end of requests
   ends it.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from typing import Any

from cep.world.parents import be_called, die_with

REQUEST_BYTES_MAX = 1 << 17


def copy_on_request(handle: int) -> dict[str, Any] | None:
    """Answers requests that come at the socket `handle`. Returns in each copy with the request that it was made for, and at their end, in
    the process itself, with None."""
    asker = os.getppid()
    with socket.socket(fileno=handle) as requests:
        requests.send(b"{}")  # it is there
        while received := requests.recv(REQUEST_BYTES_MAX):
            request: dict[str, Any] = json.loads(received)
            waits, goes = os.pipe()  # what has not been told of ends: there may be another one of its name by then
            answer: dict[str, Any] = {"name": request["name"]}
            try:
                answer["pid"] = _copy(asker)
            except OSError as error:
                answer["error"] = str(error)
            if answer.get("pid") == 0:
                os.close(goes)
                _settle(request, waits)
                return request
            requests.send(json.dumps(answer).encode())
            os.write(goes, b"!")
            os.close(waits)
            os.close(goes)
    return None


def _copy(asker: int) -> int:
    """0 in the copy; here its process id, once it is the asker's child. Raises OSError: the machine has no room for a process."""
    heard, told = os.pipe()
    try:
        between = os.fork()
    except OSError:
        os.close(heard)
        os.close(told)
        raise
    if between == 0:
        os.close(heard)
        _begin_copy(told, asker)
        os.close(told)
        return 0
    os.close(told)
    with os.fdopen(heard, "rb") as said:
        os.waitpid(between, 0)
        pid = said.read()
    if not pid:
        raise OSError("no second process could be made")
    return int(pid)


def _begin_copy(told: int, asker: int) -> None:
    """Goes on in a child of the calling process, which ends: so the asker is the next that the child belongs to."""
    between = os.getpid()
    try:
        if pid := os.fork():
            os.write(told, str(pid).encode())
            os._exit(0)
    except OSError:
        os._exit(1)
    while os.getppid() == between:
        os.sched_yield()
    die_with(asker)


def _settle(request: dict[str, Any], waits: int) -> None:
    if not os.read(waits, 1):
        os._exit(1)
    os.close(waits)
    os.setpgid(0, 0)
    if (numbers := sys.modules.get("numpy.random")) is not None:
        numbers.seed()  # for users' functions: copies would draw the same numbers. Python's and Numba's own begin anew by themselves
    be_called(request["name"])
    if request["log"] is not None:
        log = os.open(request["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
