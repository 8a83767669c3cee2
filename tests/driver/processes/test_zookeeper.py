"""The ZooKeeper of a cluster: what it keeps, its port, its jars."""

from __future__ import annotations

import re
import socket
import subprocess
from pathlib import Path

import pytest
from kazoo.client import KazooClient, KazooState

from driver.processes.java import java_home
from driver.processes.zookeeper import ZooKeeper, patient, reserve_port, spark_jars
from tests.support.control_plane import Keeper
from tests.support.waiting import HANG_S, until


class TestZooKeeper:
    def test_killed_and_started_again_it_has_its_data_its_port_and_its_sessions(self, zookeeper: Keeper) -> None:
        states: list[str] = []
        client = KazooClient(zookeeper.server.hosts, timeout=5.0)
        client.add_listener(states.append)
        client.start(timeout=HANG_S)
        client.create("/kept", b"data")
        client.create("/mine", b"", ephemeral=True)
        session = client.client_id
        zookeeper.kill()
        until(lambda: states[-1] == KazooState.SUSPENDED)
        assert not zookeeper.server.serves()
        zookeeper.start()
        until(lambda: states[-1] == KazooState.CONNECTED)
        assert zookeeper.server.serves()
        assert client.get("/kept")[0] == b"data"
        assert client.client_id == session and client.get("/mine")[1].ephemeralOwner == session[0]
        client.stop()
        client.close()

    def test_a_reserved_port_is_given_to_no_other(self) -> None:
        with reserve_port() as holder, pytest.raises(OSError, match="in use"):
            _bind(holder.getsockname()[1])

    def test_there_is_no_answer_where_no_server_is(self, zookeeper: Keeper) -> None:
        with reserve_port() as holder:
            silent = type(zookeeper.server)(zookeeper.server.folder, holder.getsockname()[1])
            assert not silent.serves()

    def test_it_says_what_ended_it(self, tmp_path: Path) -> None:
        with reserve_port() as holder:
            server = ZooKeeper(tmp_path, holder.getsockname()[1])
            command = server.command(java_home(), spark_jars())
            (tmp_path / "data" / "version-2").mkdir()
            (tmp_path / "data" / "version-2" / "log.1").write_bytes(b"a log without what it goes on from")
            ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=HANG_S)
        assert ran.returncode and re.match(r"\d{4}/.* ERROR .*\n.*IOException: No snapshot found", ran.stdout)

    def test_its_jars_come_with_pyspark(self) -> None:
        assert list(spark_jars().glob("zookeeper-3*.jar"))


def _bind(port: int) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))


def test_servers_are_tried_often_enough_within_a_session() -> None:
    assert patient("a:1").split(",") == ["a:1"] * 4
    assert patient("a:1,b:1,c:1").split(",") == ["a:1", "b:1", "c:1"] * 2
