"""The commands that look at what a cluster does and where its time goes: `cep metrics`, `cep top`, `cep trace`, `cep flame`."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer
from rich.live import Live

from cep.errors import Conflict
from cep.service.flame import record, targets
from driver.cluster import Cluster
from driver.configuration.table import URL
from driver.terminal import Authority, Token, Url, out
from driver.top import SortBy, TopView, view_between, view_table
from driver.trace import trace_between, trace_table

_AT_WORK = ("running", "draining")
TOP_S = 1.0  # between two frames
REPORTED_S = 1.0  # after this long what has happened has been reported


def register(app: typer.Typer) -> None:
    """Adds them to the command line."""
    for command in (metrics, top, trace, flame):
        app.command()(command)


def metrics(url: Url = URL, token: Token = None, ca: Authority = None) -> None:
    """Prints everything measured, as Prometheus reads it."""
    with Cluster(url, token, ca=ca) as cluster:
        print(cluster.metrics(), end="")


def top(
    name: Annotated[str | None, typer.Argument(help="One query; default: all.")] = None,
    once: Annotated[bool, typer.Option("--once", help="One frame, and no more.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable, a line for each frame.")] = False,
    sort: Annotated[SortBy, typer.Option(help="What comes first: the instances that have most of it.")] = SortBy.CPU,
    url: Url = URL,
    token: Token = None,
    ca: Authority = None,
) -> None:
    """Shows, each second, what every query, instance and operator does and costs. Ctrl-C ends it."""
    with Cluster(url, token, ca=ca) as cluster:
        if name is not None:
            cluster.query(name)  # raises NotFound
        frames = _frames(cluster, name, sort)
        if once or as_json:
            for shown in islice(frames, 1) if once else frames:
                print(json.dumps(shown.to_json()), flush=True) if as_json else out.print(view_table(shown))
            return
        with Live(console=out, screen=True, auto_refresh=False) as live:
            for shown in frames:
                live.update(view_table(shown, out.height // 8 + 1), refresh=True)


def trace(
    wanted: Annotated[
        str | None,
        typer.Argument(metavar="QUERY|IM", help="A query: all instance managers that it runs on; or one of those. Default: all."),
    ] = None,
    seconds: Annotated[float | None, typer.Option(min=0, help="What is reported in so long; default: what has been.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
    url: Url = URL,
    token: Token = None,
    ca: Authority = None,
) -> None:
    """Names what has held instance managers up: work that took more than a millisecond, where, why, how often, how long."""
    with Cluster(url, token, ca=ca) as cluster:
        chosen = None if wanted is None else _managers(cluster, wanted).keys()
        before = None
        if seconds is not None:
            threading.Event().wait(REPORTED_S)
            before = cluster.trace()
            threading.Event().wait(seconds)
        found = trace_between(before, cluster.trace(), chosen)
    print(json.dumps(found.to_json(), indent=2)) if as_json else out.print(trace_table(found))


def flame(
    wanted: Annotated[str, typer.Argument(metavar="QUERY|IM", help="A query: all instance managers that it runs on; or one of those.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="An .svg file; one for each if there are several.")],
    seconds: Annotated[float, typer.Option(min=1, help="For how long to look.")] = 5,
    native: Annotated[bool, typer.Option("--native", help="Show C libraries too; stops the process for every sample.")] = False,
    url: Url = URL,
    token: Token = None,
    ca: Authority = None,
) -> None:
    """Draws a flame graph of running instance managers, with py-spy."""
    with Cluster(url, token, ca=ca) as cluster:
        found = _managers(cluster, wanted)
        _check_at_work(cluster, wanted)
    for file, samples in record(found, seconds, output, native).items():
        out.print(f"{file}: {samples}")


def _managers(cluster: Cluster, wanted: str) -> dict[str, int]:
    """Instance manager -> process id: of a query, or the one of that name. Raises NotFound."""
    managers, names = cluster.instance_managers(), [each["name"] for each in cluster.queries()]
    placed = cluster.query(wanted).status()["placed"] if wanted in names else []
    return targets(wanted, managers, names, {place["im"] for place in placed})


def _check_at_work(cluster: Cluster, wanted: str) -> None:
    """Raises Conflict: it is a query that does nothing any more, or not yet."""
    state = next((each["state"] for each in cluster.queries() if each["name"] == wanted), "running")
    if state not in _AT_WORK:
        raise Conflict(f"query {wanted!r} is {state}, and nothing of it can be seen at work; name an instance manager to look at that")


def _frames(cluster: Cluster, name: str | None, sort: SortBy) -> Iterator[TopView]:
    """One each second."""
    before, second = cluster.figures(), threading.Event()
    while not second.wait(TOP_S):
        after = cluster.figures()
        yield view_between(before, after, cluster.instance_managers(), name, sort)
        before = after
