"""ZooKeeper behind TLS: the real server, the real client, and those that have no certificate or another one's.

Tests `zookeeper.py`, `certificates.py`.
"""

from __future__ import annotations

import datetime
import logging
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from cep.errors import ClusterError
from cep.service.tls import Certificate
from cep.world.zookeeper import _TOLD, connect
from driver.processes.certificates import KeyMaker
from driver.processes.java import java_home
from driver.processes.key_folder import KeyFolder
from driver.processes.zookeeper import ZooKeeper, reserve_port, spark_jars
from tests.support.waiting import HANG_S, until

NOW = datetime.datetime.now(datetime.UTC)


def keys(folder: Path) -> KeyFolder:
    KeyMaker(KeyFolder(folder)).make((), NOW)
    return KeyFolder(folder)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    folder = tmp_path_factory.mktemp("zookeeper")
    with reserve_port() as port, (folder / "log").open("wb") as log:
        made = ZooKeeper(folder, port.getsockname()[1], keys=keys(folder / "keys"))
        process = subprocess.Popen(made.command(java_home(), spark_jars()), stdout=log, stderr=subprocess.STDOUT)
        try:
            until(made.serves)
            yield made
        finally:
            process.kill()
            process.wait(HANG_S)


def own(server: ZooKeeper) -> KeyFolder:
    assert server.keys is not None
    return server.keys


def test_who_has_a_certificate_is_let_in(server: ZooKeeper) -> None:
    client = connect(server.hosts, 10, tls=own(server).session)
    client.start(timeout=HANG_S)
    client.create("/kept", b"data")
    assert client.get("/kept")[0] == b"data"
    client.stop()
    client.close()


def is_let_in(hosts: str, tls: tuple[str, str, str] | None) -> bool:
    """Has it a session? Two attempts to connect are enough to see."""
    client = connect(hosts, 10, tls=tls)
    tried: list[str] = []
    told = logging.Handler()
    told.emit = lambda record: tried.append(record.getMessage())  # type: ignore[method-assign]
    kazoo = logging.getLogger("kazoo.client")
    before, kazoo.propagate = kazoo.level, False
    kazoo.setLevel(logging.DEBUG)
    kazoo.removeFilter(_TOLD)
    kazoo.addHandler(told)
    try:
        client.start_async()
        until(lambda: client.connected or sum("Connection dropped" in each for each in tried) >= 2)
        return bool(client.connected)
    finally:
        kazoo.removeHandler(told)
        kazoo.setLevel(before)
        kazoo.addFilter(_TOLD)
        kazoo.propagate = True
        client.stop()
        client.close()


def test_no_other_is(server: ZooKeeper, tmp_path: Path) -> None:
    other = keys(tmp_path / "other")
    mine = own(server)
    assert is_let_in(server.hosts, mine.session)
    assert not is_let_in(server.hosts, None)
    assert not is_let_in(server.hosts, (str(mine.ca), str(other.client), str(other.client_key)))  # a certificate of another authority
    assert not is_let_in(server.hosts, other.session)  # the server is none that it knows
    assert not is_let_in(server.hosts.replace("127.0.0.1", "127.0.0.2"), mine.session)


def test_a_server_of_another_name_is_not_believed(server: ZooKeeper, tmp_path: Path) -> None:
    """A certificate of the same authority, for a host that is not the one that was asked: a client's certificate is no server's."""
    mine = own(server)
    KeyMaker(mine).renew((), NOW)  # a server reads its own when it begins; a client at each attempt
    assert is_let_in(server.hosts, mine.session)
    (impostor := tmp_path / "impostor.pem").write_bytes(mine.client_key.read_bytes() + mine.client.read_bytes())
    assert is_believed(mine, mine.ca.parent / "server.pem") and not is_believed(mine, impostor)


def is_believed(keys: KeyFolder, pem: Path) -> bool:
    """Does a client with these keys give one that shows this certificate, and is no ZooKeeper, a whole handshake?"""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    found = list[bool]()

    def answer(listener: socket.socket) -> None:
        with suppress(OSError):  # the listener is closed
            while True:
                connection, _ = listener.accept()
                try:
                    context.wrap_socket(connection, server_side=True).close()
                    found.append(True)
                except OSError:
                    found.append(False)
                    connection.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=answer, args=(listener,), daemon=True).start()
        assert not is_let_in(f"127.0.0.1:{listener.getsockname()[1]}", keys.session)
        listener.shutdown(socket.SHUT_RDWR)
    assert found
    return any(found)


def test_files_that_are_not_there_are_named_before_anything_is_tried(server: ZooKeeper) -> None:
    mine = own(server)
    with pytest.raises(ClusterError, match=r"TLS with ZooKeeper cannot begin: .*/nowhere"):
        connect(server.hosts, 10, tls=(str(mine.ca), "/nowhere", str(mine.client_key)))


def test_a_certificate_that_has_expired_is_told_of_in_words_and_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    expired = KeyFolder(tmp_path / "keys")
    KeyMaker(expired).make((), NOW - datetime.timedelta(days=40), days=30)
    context = Certificate(str(expired.server), str(expired.server_key)).context()
    attempts: list[int] = []

    def turn_away(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                attempts.append(1)
                with suppress(OSError):
                    context.wrap_socket(connection, server_side=True)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=turn_away, args=(listener,))
        thread.start()
        client = connect(f"127.0.0.1:{listener.getsockname()[1]}", 10, tls=expired.session)
        client.start_async()
        until(lambda: len(attempts) >= 4)
        client.stop()
        client.close()
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(HANG_S)
    assert [record.getMessage() for record in caplog.records if "certificate has expired" in record.getMessage()][1:] == []
    assert "certificate has expired" in caplog.text


def test_it_says_nothing_without_tls(server: ZooKeeper) -> None:
    assert not ZooKeeper(server.folder, server.port).serves() and server.serves()
