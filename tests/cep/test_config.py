"""What the processes of a cluster agree on: its configuration as a word of a command line, and names of nodes."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import pytest

from cep.config import RECOVER_FORMS, ClusterConfig, InstanceManagerConfig, agreed, argument, instance_node, node, query_of_node
from cep.errors import ClusterError
from cep.model.query import RECOVER

CLUSTER = ClusterConfig("/home", "z:1", "127.0.0.1", 8080, "ipc:///in", "ipc:///out", data=("/a", "/b"), modules=("m",))


@pytest.mark.parametrize("config", [CLUSTER, InstanceManagerConfig(CLUSTER, "im-0", 1, 0, "ipc:///im-0", "/page", neighbours=3)])
def test_a_process_is_told_what_it_was_made_for(config: ClusterConfig | InstanceManagerConfig) -> None:
    word = argument(config)
    assert " " not in word
    assert type(config).from_json(json.loads(word)) == config


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({**CLUSTER.to_json(), "colour": 1}, "not a cluster configuration: .*colour"),
        ({"home": "/"}, "not a cluster configuration: .*zookeeper"),
    ],
)
def test_another_versions_configuration_is_refused_by_field(document: dict[str, object], said: str) -> None:
    with pytest.raises(ClusterError, match=said):
        ClusterConfig.from_json(document)
    with pytest.raises(ClusterError, match=said):
        InstanceManagerConfig.from_json({"id": "x", "core": None, "node": None, "endpoint": "ipc:///x", "cluster": document})


def test_one_of_an_instance_manager_has_one_of_its_cluster() -> None:
    with pytest.raises(ClusterError, match="not the configuration of an instance manager: 'cluster'"):
        InstanceManagerConfig.from_json({"id": "x"})


def test_where_things_are_unless_it_is_said() -> None:
    assert CLUSTER.checkpoints == "/home/checkpoints"
    assert replace(CLUSTER, checkpoint_folder="/shared").checkpoints == "/shared"
    assert CLUSTER.rings is None and replace(CLUSTER, reports="/tmp/reports").rings is None
    assert replace(CLUSTER, reports="/dev/shm/reports").rings == "/dev/shm/reports/sent"


def test_what_stops_just_before_its_heartbeat_doubts_that_it_counts_before_others_do() -> None:
    config = replace(CLUSTER, session_timeout_s=6.0)
    longest_without_heartbeat_s = config.session_timeout_s / 3  # as kazoo has it
    assert config.lease_s < config.session_timeout_s - longest_without_heartbeat_s


def test_no_client_is_given_up_sooner_than_a_process() -> None:
    assert replace(CLUSTER, grace_s=3.0, session_timeout_s=6.0).silence_s == 6.0
    assert replace(CLUSTER, grace_s=30.0, session_timeout_s=6.0).silence_s == 30.0


@pytest.mark.parametrize(
    ("changes", "url"),
    [
        ({}, "http://127.0.0.1:8080"),
        ({"rest_host": "0.0.0.0"}, "http://127.0.0.1:8080"),
        ({"rest_host": "::", "tls_cert": "c", "tls_key": "k"}, "https://[::1]:8080"),
        ({"rest_host": "::", "rest_url": "https://cep.example"}, "https://cep.example"),
    ],
)
def test_how_rest_is_reached(changes: dict[str, str], url: str) -> None:
    assert replace(CLUSTER, **changes).rest == url  # type: ignore[arg-type]  # texts, all of them


def test_tls_with_zookeeper_takes_three_files() -> None:
    assert replace(CLUSTER, ca="a").zookeeper_credentials is None
    with pytest.raises(ClusterError, match="an authority, a certificate and its key"):
        _ = replace(CLUSTER, ca="a", zookeeper_cert="c").zookeeper_credentials
    assert replace(CLUSTER, ca="a", zookeeper_cert="c", zookeeper_key="k").zookeeper_credentials == ("a", "c", "k")


def test_what_a_role_shares_with_all_others() -> None:
    @dataclass
    class Role:
        home: str = "/home"
        numa: bool = False
        only_mine: int = 1

    assert agreed(Role()) == {"home": "/home", "numa": False}
    assert agreed(Role(), "numa") == {"home": "/home"}


def test_names_may_hold_any_character() -> None:
    assert node("plans", "per ip~1") == "/cep/plans/per ip~1"
    paths = [node("plans", name) for name in ("a/b", "a%2Fb", ".", "..", "ü")]
    assert len(set(paths)) == len(paths)
    assert all(path.removeprefix("/cep/plans/") not in ("", ".", "..") and path.count("/") == 3 for path in paths)
    assert query_of_node(instance_node("a~b/c", "SQ1", 12)) == "a~b/c"


def test_a_query_may_say_what_a_cluster_may_or_leave_it_to_that() -> None:
    """Two lists, for neither module may import the other."""
    assert ("auto", *RECOVER_FORMS) == RECOVER
