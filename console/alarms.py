"""What is not as it should be, worst first, as the page Now and the bar of every page have it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from cep.errors import counted
from console.rates import QueryRates
from console.watch import Sight
from console.words import ago, share, span

BLOCKED = 0.2
"""An edge that waits for credit for more than this share of the time is shown as blocked."""
BAD, ODD = "bad", "odd"


@dataclass(frozen=True, slots=True)
class Alarm:
    """`grade`: `bad`, something has failed or stands still; `odd`, something to look at. `to`: where more is said of it."""

    grade: str
    what: str
    to: str = ""


def alarms(sight: Sight) -> list[Alarm]:
    """All of them."""
    found = [*_of_cluster(sight), *_of_processes(sight)]
    for each in (each for each in sight.connectors if each["state"] == "failing"):
        found.append(Alarm(BAD, f"connector {each['name']} is failing: {each['error']}", "/connectors"))
    for query in sight.queries:
        found += _of_query(query, sight.rates.queries.get(query["name"], QueryRates(query["name"])), sight.at)
    return sorted(found, key=lambda alarm: alarm.grade != BAD)


def query_page(name: str) -> str:
    """The address of a query's page."""
    return f"/queries/{quote(name, safe='')}"


def _of_cluster(sight: Sight) -> Iterator[Alarm]:
    if sight.error:
        yield Alarm(BAD, sight.error)
    if no_room := sight.cluster.get("no_room"):
        yield Alarm(BAD, no_room)
    for each in sight.cluster.get("quarantined", ()):
        yield Alarm(BAD, f"set aside: {each['node']}: {each['reason']}")
    for host in sight.hosts:
        if host["clock_off"]:
            yield Alarm(ODD, f"the clock of host {host['name']} is {host['clock_ms']} ms off")
        if host["leaving"]:
            yield Alarm(ODD, f"host {host['name']} is leaving, {counted(host['instances'], 'instance')} on it yet")


def _of_processes(sight: Sight) -> Iterator[Alarm]:
    for report in sight.cluster.get("supervisors", ()):
        for child in report["children"]:
            last = child["last_deaths"][-1] if child["last_deaths"] else None
            if child["state"] != "up":
                how = f": {last['how']}" if last else ""
                yield Alarm(BAD, f"{child['name']} is {child['state']}{how}")
            elif last and sight.at - last["at"] < 600:
                yield Alarm(ODD, f"{child['name']} died {ago(sight.at - last['at'])} and is up again: {last['how']}")
            if child["held_by"]:
                yield Alarm(ODD, f"{child['name']} is held for {span(sight.at - child['held_by']['since'])}: {child['held_by']['what']}")


def _of_query(query: Mapping[str, Any], rates: QueryRates, now: float) -> Iterator[Alarm]:
    name, to = query["name"], query_page(query["name"])
    if query["state"] == "failed":
        cause = query["cause"] or {"subquery": "", "cause": "unknown"}
        yield Alarm(BAD, f"{name} has failed: {cause['subquery']}: {cause['cause']}", to)
    recovery = query["recovery"]
    if recovery and recovery["recovering"]:
        yield Alarm(BAD, f"{name} is recovering: {recovery['reason']}", to)
    if recovery and query["state"] == "running" and recovery["checkpoints"]["error"]:
        yield Alarm(ODD, f"{name}: its last checkpoint could not be taken: {recovery['checkpoints']['error']}", to)
    for flow in rates.flows:
        if flow.blocked > BLOCKED:
            yield Alarm(ODD, f"{name}: {flow.name} waits for credit {share(flow.blocked)} of the time", to)
    if rates.dead:
        yield Alarm(ODD, f"{name}: {counted(rates.dead, 'dead letter')}", to)
