"""Which rings are swept: those of processes that have ended, for queries that are over, and no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cep.world.rings import Owner, Ring, Rings
from orchestrator.ring_sweep import SWEEP_S, RingSweep
from orchestrator.state.events import StopQuery
from tests.orchestrator.state.test_cluster_state import Cluster, query

GONE = Owner("here", 1, "0")


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.see()
    for name in ("on", "over"):
        made.submit(query(name, name))
    made.do(StopQuery("over"))
    made.all_say("stopped", "over")
    return made


def kept(folder: Path, cluster: Cluster, **about: Any) -> Rings:
    """What a process has kept for a query and has left."""
    document = {"query": "on", "epoch": cluster.state.queries["on"].epoch} | about
    Ring(folder, "r", GONE, 1 << 30).log(1, 0, document).append(0, b"head", b"body")
    return Rings(folder, lambda owner: owner == GONE)


def test_what_is_kept_for_a_query_that_goes_on_stays(tmp_path: Path, cluster: Cluster) -> None:
    rings = kept(tmp_path, cluster)
    RingSweep(rings).look(cluster.state, cluster.now)
    assert rings.logs("r")


@pytest.mark.parametrize("about", [{"query": "over"}, {"query": "forgotten"}, {"epoch": 0}])
def test_what_nothing_will_ask_for_goes(tmp_path: Path, cluster: Cluster, about: dict[str, Any]) -> None:
    rings = kept(tmp_path, cluster, **about)
    RingSweep(rings).look(cluster.state, cluster.now)
    assert not rings.all()


def test_nothing_goes_while_something_cannot_be_read(tmp_path: Path, cluster: Cluster) -> None:
    """It may be the query."""
    rings = kept(tmp_path, cluster, query="forgotten")
    cluster.state.quarantine.set_aside("/cep/queries/forgotten", "no JSON")
    RingSweep(rings).look(cluster.state, cluster.now)
    assert rings.logs("r")


def test_it_looks_again_after_a_while(tmp_path: Path, cluster: Cluster) -> None:
    sweep = RingSweep(rings := Rings(tmp_path, lambda owner: owner == GONE))
    sweep.look(cluster.state, cluster.now)
    kept(tmp_path, cluster, query="forgotten")
    sweep.look(cluster.state, cluster.now)
    assert rings.all() and sweep.due == cluster.now.steady + SWEEP_S
    sweep.due = cluster.now.steady
    sweep.look(cluster.state, cluster.now)
    assert not rings.all()
