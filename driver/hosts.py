"""The commands about the hosts of a cluster: `cep hosts`, `cep evacuate`. Joining is a role (`driver.processes.roles`)."""

from __future__ import annotations

import json
import time
from typing import Annotated, Any

import typer
from rich.table import Table

from cep.errors import CepError
from cep.model.hosts import CLOCK_OFF_MS
from driver.cluster import Cluster
from driver.configuration import table
from driver.terminal import Authority, Token, Url, out

_PATIENCE_S = 25.0  # what has not gone after 20 s fails


def register(app: typer.Typer) -> None:
    """Adds them to the command line."""
    for command in (hosts, evacuate):
        app.command()(command)


def hosts(
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
    url: Url = table.URL,
    token: Token = None,
    ca: Authority = None,
) -> None:
    """Lists the hosts of the cluster: what is there and what it has to do, and whether its clock is right."""
    with Cluster(url, token, ca=ca) as cluster:
        found = cluster.hosts()
    if as_json:
        print(json.dumps(found, indent=2))
        return
    out.print(host_table(found, time.time()))
    for line in warnings(found):
        out.print(line, markup=False, highlight=False)


def evacuate(
    host: Annotated[str, typer.Argument(help="The host that is to be left.")],
    url: Url = table.URL,
    token: Token = None,
    ca: Authority = None,
) -> None:
    """Moves what is on a host elsewhere, and places nothing there from then on. What cannot move, or has not within 20 s, fails by name."""
    with Cluster(url, token, ca=ca) as cluster:
        there = queries_on(cluster, host)
        left = cluster.evacuate(host, _PATIENCE_S)
        failed = [(name, cause["cause"]) for name in there if (cause := cluster.query(name).status()["cause"]) is not None]
    for name, cause in failed:
        out.print(f"{name}: failed: {cause}", markup=False, highlight=False)
    if left:
        raise CepError(f"host {host!r} still has {', '.join(left)}")
    out.print(
        f"{host}: nothing is left there; moved elsewhere: {', '.join(sorted(there - dict(failed).keys())) or 'nothing'}", highlight=False
    )
    if failed:
        raise typer.Exit(1)


def queries_on(cluster: Cluster, host: str) -> set[str]:
    """Those that have an instance there, and are not over."""
    there = {im for each in cluster.hosts() if each["name"] == host for im in each["instance_managers"]}
    live = (each["name"] for each in cluster.queries() if each["state"] in ("deploying", "ready", "running", "draining"))
    return {name for name in live if there & {place["im"] for place in cluster.query(name).status()["placed"]}}


def host_table(found: list[dict[str, Any]], now: float) -> Table:
    """`now`: seconds since 1970."""
    shown = Table("host", "address", "nodes", "cores", "instance managers", "instances", "load", "clock", "since")
    for each in found:
        name = each["name"] or "(this machine)"
        since = "" if each["since"] is None else _ago(now - each["since"])
        load = "" if each["load"] is None else f"{each['load']:.2f}"
        numbers = (str(each["nodes"]), str(each["cores"]), str(len(each["instance_managers"])), str(each["instances"]))
        shown.add_row(
            name + (" (leaving)" if each["leaving"] else ""), each["address"], *numbers, load, clock_text(each["clock_ms"]), since
        )
    return shown


def clock_text(clock_ms: int | None) -> str:
    """How far a clock is off."""
    if clock_ms is None:
        return ""
    return f"{clock_ms:+d} ms" if abs(clock_ms) <= CLOCK_OFF_MS else f"{clock_ms / 1000:+.1f} s!"


def warnings(found: list[dict[str, Any]]) -> list[str]:
    """A line for each host whose clock should be set."""
    off = (each for each in found if each["clock_off"])
    return [f"host {each['name']}: its clock is {each['clock_ms'] / 1000:+.1f} s off ZooKeeper's; set it" for each in off]


def _ago(seconds: float) -> str:
    seconds = max(0.0, seconds)
    units = ((86_400, "d"), (3600, "h"), (60, "min"))
    return next((f"{seconds / size:.0f} {unit} ago" for size, unit in units if seconds >= 2 * size), f"{seconds:.0f} s ago")
