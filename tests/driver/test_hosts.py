"""What `cep hosts` prints."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from driver.hosts import clock_text, host_table, warnings

HOST: dict[str, Any] = {
    **{"name": "h2", "address": "10.0.0.2", "nodes": 2, "cores": 16, "instance_managers": ["h2.im-0", "h2.im-1"], "instances": 5},
    **{"load": 1.234, "clock_ms": -12, "clock_off": False, "since": 1000.0, "version": "1.0", "leaving": False},
}


def printed(*hosts: dict[str, Any]) -> str:
    console = Console(width=200)
    with console.capture() as said:
        console.print(host_table(list(hosts), 1000.0 + 7200))
    return said.get()


def test_a_line_for_each() -> None:
    said = printed(HOST, HOST | {"name": "h3", "leaving": True, "clock_ms": 3_600_000, "clock_off": True})
    assert all(each in said for each in ("10.0.0.2", "1.23", "-12 ms", "2 h ago", "h3 (leaving)", "+3600.0 s!"))
    assert "(this machine)" in printed(HOST | {"name": "", "since": None, "load": None, "clock_ms": None})


@pytest.mark.parametrize(("off", "text"), [(None, ""), (0, "+0 ms"), (1000, "+1000 ms"), (-1001, "-1.0 s!")])
def test_a_clock(off: int | None, text: str) -> None:
    assert clock_text(off) == text


def test_a_clock_that_is_off_is_warned_of() -> None:
    said = warnings([HOST, HOST | {"clock_ms": 3_600_000, "clock_off": True}])
    assert said == ["host h2: its clock is +3600.0 s off ZooKeeper's; set it"]
