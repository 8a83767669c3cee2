"""How the processes of a machine are reached."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from cep.errors import ClusterError
from cep.transport.endpoints import HOST_NAME, Endpoint
from driver.processes.reach import Reach, address_towards, check_reach, checked_name, own_name


def test_alone_it_has_unix_sockets() -> None:
    assert Reach().endpoint(Path("/run/im-0")) == "ipc:///run/im-0"


def test_each_process_has_a_port_that_is_held() -> None:
    reach = Reach("h2", "127.0.0.1")
    found = [Endpoint.parse(reach.endpoint(Path(f"/run/im-{i}"))) for i in range(3)]
    ports = {int(each.address.rpartition(":")[2]) for each in found}
    assert {each.host for each in found} == {"h2"} and len(ports) == 3
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", min(ports)))
    reach.close()


def test_an_address_that_is_not_ours() -> None:
    with pytest.raises(ClusterError, match=r"no port can be had at 192\.0\.2\.1"):
        Reach("h2", "192.0.2.1").endpoint(Path("/run/im-0"))


def test_links_that_others_reach_have_keys() -> None:
    assert check_reach("127.0.0.1", False) is False and check_reach("192.0.2.1", True) is True
    with pytest.raises(ClusterError, match=r"links at 192\.0\.2\.1 can be reached from other machines.*cep keys"):
        check_reach("192.0.2.1", False)
    with pytest.raises(ClusterError, match=r"address 'no\.such\.name\.invalid'"):
        check_reach("no.such.name.invalid", True)


def test_names_and_addresses() -> None:
    assert HOST_NAME.fullmatch(own_name()) and checked_name("h-2.x") == "h-2.x" and address_towards("127.0.0.1", 1) == "127.0.0.1"
    with pytest.raises(ClusterError, match="got 'a b'"):
        checked_name("a b")
