"""A cluster as one machine of it sees it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cep.errors import ClusterError
from cep.model.topology import NumaNode, Topology
from driver.processes.run_folder import RunFolder
from driver.processes.site import Site, managers_of

TWO_NODES = Topology((NumaNode(0, (0, 1), 1 << 30), NumaNode(1, (2, 3), 1 << 30)), ((10, 20), (20, 10)))


SITE = Site(RunFolder(Path("/run/x")), "zookeeper:2181")


def test_instance_managers_are_called_after_their_cores() -> None:
    assert [(m.id, m.core, m.node) for m in managers_of(SITE, TWO_NODES)] == [
        ("im-0", 0, 0),
        ("im-1", 1, 0),
        ("im-2", 2, 1),
        ("im-3", 3, 1),
    ]
    assert [m.endpoint for m in managers_of(SITE, TWO_NODES, node=1)] == ["ipc:///run/x/im-2", "ipc:///run/x/im-3"]
    assert [(m.id, m.core) for m in managers_of(SITE, TWO_NODES, node=1, count=3)] == [("im-2", 2), ("im-3", 3), ("im-2.1", 2)]


def test_a_node_that_is_not_there_is_named() -> None:
    with pytest.raises(ClusterError, match=r"--node 7: .* it has nodes 0 \(cores 0-1\), 1 \(cores 2-3\)"):
        managers_of(SITE, TWO_NODES, node=7)


def test_no_configuration_carries_the_token(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.prepare(os.getuid(), os.getgid())
    assert run.token() not in str(Site(run, "z:1").cluster().to_json())
