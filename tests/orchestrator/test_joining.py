"""What a host is told that wants to join, and why it may not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cep.config import ClusterConfig
from cep.errors import ClusterError, Conflict, QueryError
from cep.model.hosts import VERSION
from cep.transport.curve import new_pair
from orchestrator.joining import FILES, SAME, membership
from tests.orchestrator.state.test_evacuations import host


@pytest.fixture
def config(tmp_path: Path) -> ClusterConfig:
    (tmp_path / "secret").write_text("s3cret")
    own = ClusterConfig(str(tmp_path), "10.0.0.1:2181", "10.0.0.1", 8765, "link://h1@10.0.0.1:4000/run/metrics-in", "ipc:///run/out")
    return replace(own, zookeeper_secret=str(tmp_path / "secret"), host="h1", address="10.0.0.1", modules=("mine",))


def test_what_it_is_told(config: ClusterConfig) -> None:
    told = membership(config, {}, "h2", VERSION)
    assert told["host"] == "h1" and told["cluster"].keys() == {*SAME, "rest_url"} and told["files"] == {"zookeeper_secret": "s3cret"}
    assert told["cluster"]["metrics_in"] == config.metrics_in and told["cluster"]["modules"] == ["mine"]
    assert {*SAME, *FILES} <= {*ClusterConfig.__dataclass_fields__}


def test_the_members_key_is_that_of_now(config: ClusterConfig, tmp_path: Path) -> None:
    (tmp_path / "members").write_text("the first one")
    pair = new_pair()
    told = membership(replace(config, members=str(tmp_path / "members")), {}, "h2", VERSION, pair)
    assert json.loads(told["files"]["members"]) == {"public": pair.public, "secret": pair.secret.text}


def test_two_hosts_of_one_name(config: ClusterConfig) -> None:
    with pytest.raises(Conflict, match=r"there is a host 'h2' already, at 127\.0\.0\.1, process 7: give this one another name"):
        membership(config, {"h2": host("h2")}, "h2", VERSION)
    with pytest.raises(Conflict, match="there is a host 'h1' already"):
        membership(config, {}, "h1", VERSION)


def test_versions(config: ClusterConfig) -> None:
    major, _, minor = VERSION.partition(".")
    membership(config, {}, "h2", f"{major}.{int(minor) + 1}")
    with pytest.raises(Conflict, match=rf"version '{int(major) + 1}\.0' cannot join a cluster of version '{VERSION}'"):
        membership(config, {}, "h2", f"{int(major) + 1}.0")


@pytest.mark.parametrize("name", ["", "-x", "a b", "x" * 64, "a/b", "h1\n"])
def test_what_no_host_can_be_called(config: ClusterConfig, name: str) -> None:
    with pytest.raises(QueryError, match="a host is called by letters"):
        membership(config, {}, name, VERSION)


def test_a_cluster_of_one_machine(config: ClusterConfig) -> None:
    with pytest.raises(Conflict, match="cep up --listen ADDRESS"):
        membership(replace(config, host="", address=None), {}, "h2", VERSION)


def test_a_secret_that_cannot_be_read(config: ClusterConfig) -> None:
    with pytest.raises(ClusterError, match="which a host that joins needs, cannot be read"):
        membership(replace(config, zookeeper_secret="/nowhere/secret"), {}, "h2", VERSION)
