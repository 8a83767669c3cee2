"""A secret is shown by nothing that does not ask for it."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from cep.config import ClusterConfig, InstanceManagerConfig, argument
from cep.errors import ClusterError
from cep.secret import Secret
from cep.service.keys import read_pair
from cep.transport.curve import new_pair
from driver.processes.supervisor import LocalConfig

TEXT = "hush-hush-hush"
CLUSTER = ClusterConfig("", "", "127.0.0.1", 0, "", "", token=Secret(TEXT))


def test_whatever_is_made_of_it_is_not_it() -> None:
    secret = Secret(TEXT)
    for shown in (repr(secret), str(secret), f"{secret}", f"{secret:>20}", f"{[secret]}", repr({"token": secret})):
        assert TEXT not in shown and "***" in shown
    with pytest.raises(TypeError):
        pickle.dumps(secret)
    with pytest.raises(TypeError):
        json.dumps({"token": secret})
    assert secret.text == TEXT and copy.deepcopy(secret) is secret


def test_it_is_equal_to_the_same_secret_alone() -> None:
    assert Secret(TEXT) == Secret(TEXT) and hash(Secret(TEXT)) == hash(Secret(TEXT))
    assert Secret(TEXT) != Secret("other") and Secret(TEXT) != TEXT
    assert Secret(TEXT) and not Secret("")


@pytest.mark.parametrize("config", [CLUSTER, InstanceManagerConfig(CLUSTER, "im-0", None, None, "ipc:///x")])
def test_no_configuration_shows_the_token(config: ClusterConfig | InstanceManagerConfig) -> None:
    for shown in (repr(config), str(config), argument(config), json.dumps(config.to_json()), repr(asdict(config))):
        assert TEXT not in shown
    read = ClusterConfig.from_json({**CLUSTER.to_json(), "token": TEXT})
    assert read == CLUSTER and ClusterConfig.from_json(CLUSTER.to_json()) == replace(CLUSTER, token=None)


def test_nor_does_that_of_a_local_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CEP_TOKEN", TEXT)
    config = LocalConfig.from_json({})
    assert config.token == Secret(TEXT) and TEXT not in repr(config)


def test_nor_a_key_pair() -> None:
    pair = new_pair()
    assert pair.secret.text not in repr(pair) and pair.public in repr(pair)


def test_a_cluster_file_with_a_secret_names_the_file_alone(tmp_path: Path) -> None:

    (tmp_path / "members.key").write_text(json.dumps({"public": TEXT, "secret": TEXT}))
    with pytest.raises(ClusterError, match=r"members.key holds no key pair") as refused:
        read_pair(tmp_path / "members.key")
    assert TEXT not in str(refused.value)
