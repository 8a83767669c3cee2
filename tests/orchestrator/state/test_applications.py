"""What belongs to an application in the pure core: kept, taken over by the next leader, refused where it is another's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cep.config import node
from cep.errors import Conflict, NotFound
from driver import stream
from orchestrator.records import ApplicationRecord, Now
from orchestrator.state import applications
from orchestrator.state.cluster_state import ClusterState
from orchestrator.state.events import DeclareStream, Event, ForgetApplication, KeepApplication, Put, UndeclareStream

NOW = Now(1000.0, 50_000.0)
SHOP = ApplicationRecord("shop", ("visits",), ("per-ip",))


def do(state: ClusterState, nodes: dict[str, Any], *events: Event) -> None:
    for event in events:
        for command in state.handle(event, NOW):
            if isinstance(command, Put):
                nodes[command.path] = json.loads(json.dumps(command.value))
            else:
                del nodes[command.path]  # type: ignore[union-attr]


def test_it_is_kept_and_taken_over() -> None:
    state, nodes = ClusterState(6.0), dict[str, Any]()
    do(state, nodes, KeepApplication(SHOP))
    after = ClusterState(6.0)
    assert after.restore(nodes, NOW) == []
    assert after.applications["shop"] == SHOP
    do(after, nodes, KeepApplication(ApplicationRecord("shop")), ForgetApplication("shop"))
    assert nodes == {}
    with pytest.raises(NotFound, match=r"there is no application 'shop'"):
        do(after, nodes, ForgetApplication("shop"))


def test_what_is_anothers_is_refused() -> None:
    state = ClusterState(6.0)
    do(state, {}, KeepApplication(SHOP))
    for kind, called in (("streams", "stream 'visits'"), ("queries", "query 'per-ip'")):
        other = ApplicationRecord("other", **{kind: getattr(SHOP, kind)})
        with pytest.raises(Conflict, match=f"{called} belongs to application 'shop'"):
            do(state, {}, KeepApplication(other))
    do(state, {}, KeepApplication(ApplicationRecord("other", ("per-ip",), ("visits",))))  # kinds have names of their own


def test_one_that_has_something_stays() -> None:
    state, nodes = ClusterState(6.0), dict[str, Any]()
    do(state, nodes, DeclareStream(stream("visits", ip="string")), KeepApplication(SHOP))
    with pytest.raises(Conflict, match=r"application 'shop' still has stream 'visits'; delete them first"):
        do(state, nodes, ForgetApplication("shop"))
    do(state, nodes, UndeclareStream("visits"), ForgetApplication("shop"))
    assert nodes == {}


def test_there_are_at_most_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applications, "APPLICATIONS_MAX", 1)
    state = ClusterState(6.0)
    do(state, {}, KeepApplication(SHOP), KeepApplication(SHOP))
    with pytest.raises(Conflict, match=r"1 applications, expected at most 1"):
        do(state, {}, KeepApplication(ApplicationRecord("other")))


@pytest.mark.parametrize("path, value", [(node("applications", "else"), SHOP.to_json()), (node("applications", "shop"), {"name": 3})])
def test_what_makes_no_sense_is_set_aside(path: str, value: Any) -> None:
    state = ClusterState(6.0)
    state.restore({path: value}, NOW)
    assert list(state.quarantine.nodes) == [path] and state.applications.by_name == {}
