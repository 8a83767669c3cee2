"""What is wrong with the processes of a cluster, in words; from the orchestrator, or without one from the supervisors' own files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cep.service.reports import read_reports
from driver.processes.process import report_folders

HealthReport = Mapping[str, Any]
_BOUND = {"bound": True}
LONG_AGO_S = 600.0
"""A death so long ago is not told any more of a process that has been up since."""


def reports_at(url: str) -> list[HealthReport]:
    """Those of the clusters of this user on this machine whose orchestrator is at `url`: of the one that runs, or of those that did."""
    found: list[HealthReport] = [
        report for folder in report_folders() for report in read_reports(folder) if report.get("rest") == url.rstrip("/")
    ]
    return [report for report in found if is_alive(report)] or found


def is_alive(report: HealthReport) -> bool:
    """Is the supervisor there that wrote it?"""
    return Path(f"/proc/{report['pid']}").exists()


def has_orchestrator(reports: Sequence[HealthReport]) -> bool:
    """Does one run, as far as these know?"""
    children = [child for report in reports if is_alive(report) for child in report["children"]]
    return any(child["name"].startswith("orchestrator") and child["state"] == "up" for child in children)


def troubles(reports: Sequence[HealthReport], now: float) -> list[str]:
    """A line for each process that is down, or was not long ago. `now`: seconds since 1970."""
    full = [
        f"the disk of {report['full_disk']} is full: logs are lost, and ZooKeeper does not run without room"
        for report in reports
        if report.get("full_disk")
    ]
    return full + [line for report in reports for child in report["children"] for line in _of_child(child, report["hold_s"], now)]


def unbound(managers: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each instance manager that could not be bound to the core and node that it was to have, with the kernel's reason."""
    wanted = [each for each in managers if each["core"] is not None and not each.get("binding", _BOUND)["bound"]]
    return [f"{each['id']}: not bound to core {each['core']} and node {each['node']}: {each['binding']['note']}" for each in wanted]


def gone(report: HealthReport) -> str:
    """What to say of a supervisor that was killed."""
    return (
        f"{report['supervisor']} (process {report['pid']}) is gone, and all its processes with it; what is left is in {report.get('home')}"
    )


def _of_child(child: Mapping[str, Any], hold_s: float, now: float) -> Iterator[str]:
    limit = f"; ended at {hold_s:g} s" if hold_s else ""
    if child["held_by"] is not None:
        yield f"{child['name']}: held for {now - child['held_by']['since']:.0f} s by {child['held_by']['what']}{limit}"
    if child["state"] == "stopped":
        yield f"{child['name']}: stopped by a signal; `kill -CONT {child['pid']}` lets it go on"
    last = child["last_deaths"][-1] if child["last_deaths"] else None
    if last is None or (child["state"] != "waiting" and now - last["at"] > LONG_AGO_S):
        return
    times = "once" if child["deaths"] == 1 else f"{child['deaths']} times"
    how = f"has died {times}, last {_ago(now - last['at'])}: {last['how']}"
    if child["state"] != "waiting":
        yield f"{child['name']}: up again, {how}"
        return
    said = last["log"].splitlines()
    yield f"{child['name']}: down, is tried again in {max(0.0, child['next_try'] - now):.0f} s; {how}" + (
        f"; it said: {said[-1]}" if said else ""
    )


def _ago(seconds: float) -> str:
    return f"{max(0.0, seconds):.0f} s ago" if seconds < 120 else f"{seconds / 60:.0f} min ago"
