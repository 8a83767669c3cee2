"""A Unix socket listens to the processes of its own user, of root, and of the users that are named; others are refused with a line."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from cep.service.serving import served
from cep.transport import peers, wire
from cep.transport.local import LocalSockets
from cep.transport.wire import Header
from tests.support.waiting import HANG_S, until

STRANGER = 54_321
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
_SPEAK = """
import os, socket, sys
os.setuid(int(sys.argv[2]))
with socket.socket(socket.AF_UNIX) as speaking:
    speaking.connect(sys.argv[1])
    speaking.sendall(bytes.fromhex(sys.argv[3]))
    print(speaking.recv(1))
"""


@pytest.fixture
def sockets(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalSockets]:
    """In a folder that every user may enter, as their user's own would not be."""
    folder = Path(f"/tmp/cep-peers-{os.getpid()}")
    folder.mkdir(mode=0o755)
    made = LocalSockets(f"ipc://{folder}/s")
    (folder / "s").chmod(0o777)
    peers.welcome.cache_clear()
    yield made
    made.close()
    folder.rmdir()
    peers.welcome.cache_clear()


def speak(sockets: LocalSockets, uid: int) -> subprocess.Popen[str]:
    return say(sockets.endpoint.removeprefix("ipc://"), uid, b"\0" * 8 + Header(wire.BEAT, 7).pack())


def say(path: str, uid: int, message: bytes) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _SPEAK, path, str(uid), message.hex()]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@needs_root
def test_another_user_is_refused(sockets: LocalSockets, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), speak(sockets, STRANGER) as speaking:
        until(lambda: sockets.receive() is not None or speaking.poll() is not None)
        assert sockets.receive() is None
    assert f"of user {STRANGER} is refused at" in caplog.text and "CEP_UIDS" in caplog.text


@needs_root
def test_a_user_who_is_named_is_heard(sockets: LocalSockets, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(peers.UIDS_VARIABLE, f"7, {STRANGER}")
    with speak(sockets, STRANGER) as speaking:
        header, _ = until(sockets.receive)
        assert header.channel == 7
        speaking.kill()


@needs_root
def test_root_hears_the_user_in_whose_folder_it_listens() -> None:
    """A program of root on the host of a cluster in containers: its socket is that cluster's user's."""
    folder = Path(f"/tmp/cep-owner-{os.getpid()}")
    folder.mkdir(mode=0o755)
    os.chown(folder, STRANGER, STRANGER)
    made = LocalSockets(f"ipc://{folder}/s")
    try:
        assert os.stat(folder / "s").st_uid == STRANGER
        for uid, heard in ((STRANGER, True), (STRANGER + 1, False)):
            (folder / "s").chmod(0o777)
            with speak(made, uid) as speaking:
                got = until(lambda: made.receive() or speaking.poll() is not None)
                assert (got is not True) == heard
                speaking.kill()
    finally:
        made.close()
        folder.rmdir()


def test_ones_own_processes_are_heard(sockets: LocalSockets) -> None:
    with speak(sockets, os.getuid()) as speaking:
        header, _ = until(sockets.receive)
        assert header.channel == 7
        speaking.kill()


def test_who_comes_over_the_network_has_no_user() -> None:
    with socket.socket() as connection:
        assert peers.may_speak(connection)


@pytest.fixture
def http(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """What the gateway is served by, on a socket that every user may reach."""
    folder = Path(tempfile.mkdtemp(prefix="cep-http-", dir="/tmp"))
    folder.chmod(0o755)
    peers.welcome.cache_clear()
    server = uvicorn.Server(uvicorn.Config(_answer, http=served(16), uds=f"{folder}/s", log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    until(lambda: server.started)
    (folder / "s").chmod(0o777)
    yield f"{folder}/s"
    server.should_exit = True
    thread.join()
    (folder / "s").unlink(missing_ok=True)
    folder.rmdir()
    peers.welcome.cache_clear()


async def _answer(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"yes"})


@needs_root
def test_the_gateway_answers_no_other_user(http: str) -> None:
    request = b"GET / HTTP/1.1\r\nHost: gateway\r\n\r\n"
    with say(http, STRANGER, request) as stranger, say(http, os.getuid(), request) as own:
        assert own.communicate(timeout=HANG_S)[0].strip() == "b'H'"
        assert "b'H'" not in stranger.communicate(timeout=HANG_S)[0]
