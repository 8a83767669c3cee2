"""What is wrong with the processes of a cluster, in words."""

from __future__ import annotations

from driver.processes.health import unbound


def test_what_is_not_bound_is_told() -> None:
    bound = {"id": "im-0", "core": 0, "node": 0, "binding": {"bound": True, "note": ""}}
    refused = {"id": "im-1", "core": 1, "node": 0, "binding": {"bound": False, "note": "set_mempolicy answers EPERM"}}
    asked_for_nothing = {"id": "im-2", "core": None, "node": None, "binding": {"bound": False, "note": "not bound to one core"}}
    assert unbound([bound, refused, asked_for_nothing]) == ["im-1: not bound to core 1 and node 0: set_mempolicy answers EPERM"]
