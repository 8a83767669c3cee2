"""A host that others reach, and one that joins it: what follows from an address, without any process.

Tests `joining.py`, `reach.py`, `site.py`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cep.config import HOSTS_SESSION_TIMEOUT_S, SESSION_TIMEOUT_S, ClusterConfig
from cep.errors import ClusterError
from cep.model.hosts import VERSION
from cep.model.topology import NumaNode, Topology
from cep.service.addresses import are_loopback
from driver.configuration.table import JOIN, ORCHESTRATOR, options_of
from driver.configuration.told import resolve
from driver.processes.joining import JoinConfig, check_membership, instance_managers, member_config
from driver.processes.reach import Reach, fixed_endpoint, own_name, rest_at
from driver.processes.roles import join_config, site_of
from driver.processes.site import keeps_host
from driver.processes.supervisor import LocalConfig
from orchestrator.joining import SAME

BEYOND = "192.0.2.1"  # of no machine


def orchestrator_site(tmp_path: Path, **flags: Any) -> ClusterConfig:
    """What an orchestrator is, that is told so."""
    told, mistakes = resolve(options_of(ORCHESTRATOR), ORCHESTRATOR, {"run": str(tmp_path), **flags}, {}, None)
    assert not mistakes
    return site_of(told).cluster()


def joined(where: str, **flags: Any) -> JoinConfig:
    told, mistakes = resolve(options_of(JOIN), JOIN, flags, {}, None)
    assert not mistakes
    return join_config(told, where)


# --- the first host


def test_rest_is_where_other_hosts_reach_it_unless_it_is_beyond_loopback_already(tmp_path: Path) -> None:
    assert {rest_at(BEYOND, host) for host in ("127.0.0.1", "::1", "localhost")} == {BEYOND} and rest_at(BEYOND, "192.0.2.7") == "192.0.2.7"
    at = orchestrator_site(tmp_path, listen="127.0.0.2", host_name="h7")
    assert (at.rest_host, at.host, at.address) == ("127.0.0.2", "h7", "127.0.0.2")
    alone = orchestrator_site(tmp_path, host_name="h7")
    assert (alone.rest_host, alone.host, alone.address) == ("127.0.0.1", "", None)


def test_an_address_of_ipv6_has_brackets_before_a_port() -> None:
    assert fixed_endpoint(Path("/run/in"), "h1", "2001:db8::1", 8764) == "link://h1@[2001:db8::1]:8764/run/in"
    assert fixed_endpoint(Path("/run/in"), "", "10.0.0.1", 1) == fixed_endpoint(Path("/run/in"), "h1", None, 1) == "ipc:///run/in"


def test_a_name_is_loopback_if_all_of_its_addresses_are() -> None:
    assert are_loopback(["127.0.0.1", "::1", "::1%lo"])
    assert not are_loopback(["127.0.0.1", BEYOND]) and not are_loopback([BEYOND]) and not are_loopback(["fe80::1%lo"])


def test_beyond_loopback_zookeeper_speaks_tls_whether_it_is_asked_or_not(tmp_path: Path) -> None:
    local = LocalConfig(address=BEYOND, keys="keys")
    assert local.reached().zookeeper_tls
    assert replace(local, address="127.0.0.1", zookeeper_tls=True).reached().zookeeper_tls
    assert not replace(local, address="127.0.0.1").reached().zookeeper_tls
    with pytest.raises(ClusterError, match="links at"):
        replace(local, keys=None).reached()
    with pytest.raises(ClusterError, match="ZooKeeper has to speak TLS"):
        orchestrator_site(tmp_path, listen=BEYOND, keys=str(tmp_path))
    assert orchestrator_site(tmp_path, listen=BEYOND, keys=str(tmp_path), zookeeper_tls=True).zookeeper_cert


def test_what_a_host_is_called_and_how_long_its_sessions_bear_silence() -> None:
    several = LocalConfig(address="127.0.0.1", host="h7")
    assert several.reached().host == "h7" and replace(several, host="").reached().host == own_name()
    assert several.reached().session_timeout_s == HOSTS_SESSION_TIMEOUT_S > SESSION_TIMEOUT_S
    assert replace(several, session_timeout_s=7.0).reached().session_timeout_s == 7.0
    alone = LocalConfig(host="h7").reached()
    assert alone.host == "" and alone.session_timeout_s == SESSION_TIMEOUT_S


def test_of_a_hosts_agents_one_says_that_it_is_there() -> None:
    nodes = (NumaNode(0, (), 1), NumaNode(1, (0, 1), 1), NumaNode(2, (2,), 1))
    there = Topology(nodes, ((10, 20, 20), (20, 10, 20), (20, 20, 10)))
    assert [keeps_host(there, node) for node in (None, 0, 1, 2)] == [True, False, True, False]


# --- one that joins


def test_where_it_joins() -> None:
    plain = joined("127.0.0.1:1, b:2", address="192.0.2.9", host_name="h2")
    assert (plain.url, plain.address, plain.name) == ("http://127.0.0.1:1,http://b:2", "192.0.2.9", "h2")
    assert joined("127.0.0.1:1,http://127.0.0.1:2", ca="ca.crt").url == "https://127.0.0.1:1,http://127.0.0.1:2"
    assert joined("127.0.0.1").address == "127.0.0.1", "from which it reaches the cluster"
    with pytest.raises(ClusterError, match="the orchestrator's address"):
        joined("127.0.0.1:99999")


def test_another_version_and_links_without_keys_are_not_joined() -> None:
    major = int(VERSION.partition(".")[0])
    for version in (f"{major}.0", f"{major}.99"):
        check_membership({"version": version, "files": {"members": "{}"}}, BEYOND)
    with pytest.raises(ClusterError, match="version"):
        check_membership({"version": f"{major + 1}.0", "files": {"members": "{}"}}, BEYOND)
    with pytest.raises(ClusterError, match=f"links at {BEYOND} can be reached"):
        check_membership({"version": VERSION, "files": {}}, BEYOND)


def test_its_instance_managers_share_its_memory(tmp_path: Path) -> None:
    """One for each core, and again from the first; each knows how many they are: what its share is."""
    cluster = ClusterConfig(str(tmp_path), "z:1", BEYOND, 0, "", "", reports=str(tmp_path))
    config, topology = JoinConfig("http://10.0.0.1:8765", None, None, "h2", BEYOND, instances=3), Topology.one_node([4, 6])
    found = instance_managers(config, cluster, topology, Reach())
    assert [(each.id, each.core, each.node) for each in found] == [("h2.im-4", 4, 0), ("h2.im-6", 6, 0), ("h2.im-4.1", 4, 0)]
    assert [each.neighbours for each in found] == [3, 3, 3]
    found = instance_managers(replace(config, instances=None), replace(cluster, numa=False), topology, Reach())
    assert [(each.core, each.neighbours) for each in found] == [(None, 2), (None, 2)]


def test_what_its_processes_are_told(tmp_path: Path) -> None:
    """Its own name, address and folders; the cluster's secrets for its owner alone."""
    first = ClusterConfig("/there", "z:1", "10.0.0.1", 8765, "link://h1@10.0.0.1:4/in", "", host="h1", checkpoint_folder="/shared")
    same = {key: value for key, value in first.to_json().items() if key in SAME} | {"rest_url": "https://10.0.0.1:8765"}
    membership = {"version": VERSION, "host": "h1", "cluster": same, "files": {"zookeeper_secret": "s3cret", "members": "{}"}}
    config = JoinConfig("https://10.0.0.1:8765", None, None, "h2", BEYOND, given={"checkpoint_folder": "/mounted", "data": ("/d",)})
    told = member_config(membership, config, tmp_path, tmp_path / "reports")
    assert (told.host, told.address, told.home, told.data, told.checkpoint_folder) == ("h2", BEYOND, str(tmp_path), ("/d",), "/mounted")
    assert (told.zookeeper, told.metrics_in, told.rest) == ("z:1", "link://h1@10.0.0.1:4/in", "https://10.0.0.1:8765")
    secrets = [Path(str(each)) for each in (told.zookeeper_secret, told.members)]
    assert [each.read_text() for each in secrets] == ["s3cret", "{}"] and {each.stat().st_mode & 0o777 for each in secrets} == {0o600}
    assert member_config(membership, replace(config, given={}), tmp_path, tmp_path).checkpoint_folder == "/shared"
