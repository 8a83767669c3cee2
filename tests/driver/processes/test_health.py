"""What is wrong with the processes of a cluster, in words."""

from __future__ import annotations

import os
from typing import Any

import pytest

from driver.processes.health import LONG_AGO_S, gone, has_orchestrator, is_alive, troubles, unbound

NOW = 10_000.0
NO_PROCESS = 2**22 - 1


def child(**changes: Any) -> dict[str, Any]:
    """One that is up and always was."""
    well = {"name": "im-0", "pid": 7, "state": "up", "deaths": 0, "last_deaths": [], "held_by": None, "next_try": 0.0}
    return well | changes


def died(ago_s: float, log: str = "") -> list[dict[str, Any]]:
    return [{"at": NOW - ago_s, "how": "killed by signal 9", "log": log}]


def report(*children: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"supervisor": "a cluster", "pid": os.getpid(), "home": "/h", "hold_s": 30.0, "children": children, **changes}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, None),
        (
            {"held_by": {"since": NOW - 12, "what": "operator 'x' of query 'q'"}},
            "im-0: held for 12 s by operator 'x' of query 'q'; ended at 30 s",
        ),
        ({"state": "stopped"}, "im-0: stopped by a signal; `kill -CONT 7` lets it go on"),
        ({"deaths": 1, "last_deaths": died(5)}, "im-0: up again, has died once, last 5 s ago: killed by signal 9"),
        ({"deaths": 3, "last_deaths": died(300)}, "im-0: up again, has died 3 times, last 5 min ago: killed by signal 9"),
        ({"deaths": 3, "last_deaths": died(LONG_AGO_S + 1)}, None),
        (
            {"state": "waiting", "deaths": 2, "last_deaths": died(LONG_AGO_S + 1, "one\nno room"), "next_try": NOW + 4},
            "im-0: down, is tried again in 4 s; has died 2 times, last 10 min ago: killed by signal 9; it said: no room",
        ),
    ],
)
def test_a_line_for_each_process_that_is_down_or_was_not_long_ago(changes: dict[str, Any], said: str | None) -> None:
    assert troubles([report(child(), child(**changes))], NOW) == ([] if said is None else [said])


def test_a_full_disk_is_said_first() -> None:
    (disk, stopped) = troubles([report(child(state="stopped"), full_disk="/var/cep")], NOW)
    assert disk.startswith("the disk of /var/cep is full") and stopped.startswith("im-0: stopped")


def test_where_nothing_ends_what_is_held_no_limit_is_said() -> None:
    held = child(held_by={"since": NOW - 2, "what": "its own loop"})
    assert troubles([report(held, hold_s=0.0)], NOW) == ["im-0: held for 2 s by its own loop"]


def test_a_supervisor_that_is_gone_knows_of_no_orchestrator() -> None:
    there, over = report(child(name="orchestrator-1")), report(child(name="orchestrator-1"), pid=NO_PROCESS)
    assert (is_alive(there), is_alive(over)) == (True, False)
    assert (has_orchestrator([over, there]), has_orchestrator([over]), has_orchestrator([report(child())])) == (True, False, False)
    assert not has_orchestrator([report(child(name="orchestrator-1", state="waiting"))])
    assert gone(over) == f"a cluster (process {NO_PROCESS}) is gone, and all its processes with it; what is left is in /h"


def test_what_is_not_bound_is_told() -> None:
    bound = {"id": "im-0", "core": 0, "node": 0, "binding": {"bound": True, "note": ""}}
    refused = {"id": "im-1", "core": 1, "node": 0, "binding": {"bound": False, "note": "set_mempolicy answers EPERM"}}
    asked_for_nothing = {"id": "im-2", "core": None, "node": None, "binding": {"bound": False, "note": "not bound to one core"}}
    assert unbound([bound, refused, asked_for_nothing]) == ["im-1: not bound to core 1 and node 0: set_mempolicy answers EPERM"]
