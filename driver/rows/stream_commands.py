"""The commands that look at streams and their rows: `cep streams`, `cep tail`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Annotated, Any

import typer
from rich.table import Column, Table

from cep.errors import NotFound
from cep.model.times.iso_instants import instant_text
from driver.builder.query import Query
from driver.cluster import Cluster
from driver.configuration.table import URL
from driver.rest import path
from driver.rows.json_rows import lines, shown_rows
from driver.streams.subscription import Subscription
from driver.terminal import Authority, Token, Url, out

KEEP_S = 10.0
"""How long rows are held for a `tail` that was killed."""


def register(app: typer.Typer) -> None:
    """Adds them to the command line."""
    for command in (streams, tail):
        app.command()(command)


def streams(
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
    url: Url = URL,
    token: Token = None,
    ca: Authority = None,
) -> None:
    """Lists all streams: who publishes or puts out each, which queries read it, how many rows it has had, and its watermark."""
    with Cluster(url, token, ca=ca) as cluster:
        figures = cluster.figures()
        found = [each | stream_flow(each, figures) for each in cluster.rest.get("/streams")]
    if as_json:
        print(json.dumps(found, indent=2))
    elif found:
        out.print(_table(found))
    else:
        out.print("no streams")


def stream_flow(stream: Mapping[str, Any], figures: Mapping[str, Any]) -> dict[str, Any]:
    """`rows` that came out of its query, or that the query took which has most of them; and the `watermark` there. None: nothing is
    reported."""
    step, queries = ("output", [stream["fed_by"]]) if stream["fed_by"] is not None else ("read", stream["read_by"])
    flows = [flow for query in queries if (flow := _flow(stream["name"], step, query, figures["instances"])) is not None]
    rows, watermark = max(flows, key=lambda flow: flow[0], default=(None, None))
    return {"rows": rows, "watermark": None if watermark is None else instant_text(watermark)}


def _flow(name: str, step: str, query: str, instances: Iterable[Mapping[str, Any]]) -> tuple[int, int | None] | None:
    """Rows, and the least watermark of the instances where they pass."""
    found = [
        (each["rows_in"], instance["watermark"])
        for instance in instances
        if instance["query"] == query
        for each in instance["operators"]
        if (each["name"], each["step"]) == (name, step)
    ]
    if not found:
        return None
    known = [watermark for _, watermark in found if watermark is not None]
    return sum(rows for rows, _ in found), min(known) if len(known) == len(found) else None


def _table(found: Iterable[Mapping[str, Any]]) -> Table:
    shown = Table("stream", *(Column(name, overflow="fold") for name in ("comes from", "read by")), "rows", "watermark")
    for each in found:
        rows = "" if each["rows"] is None else f"{each['rows']:,}"
        shown.add_row(each["name"], _origin(each), ", ".join(each["read_by"]), rows, each["watermark"] or "")
    return shown


def _origin(stream: Mapping[str, Any]) -> str:
    if stream["fed_by"] is not None:
        return f"query {stream['fed_by']}"
    if stream.get("files"):
        return f"files {', '.join(stream['files']['paths'])}"
    return ", ".join(each["name"] for each in stream["publishers"]) or "no publisher"


def tail(
    stream: Annotated[str, typer.Argument(help="A stream that a query puts out, or that is published.")],
    rows: Annotated[int | None, typer.Option("-n", "--rows", min=1, help="Ends after so many.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="A line of JSON for each row.")] = False,
    url: Url = URL,
    token: Token = None,
    ca: Authority = None,
) -> None:
    """Shows the rows of a stream as they come, from now on, a line each, until it ends or Ctrl-C.

    It slows no query: rows that come faster than they can be shown are dropped."""
    with Cluster(url, token, ca=ca) as cluster, _rows_of(cluster, stream) as answers:
        for line in islice(_json_lines(answers) if as_json else _columns(answers), rows if rows is None or as_json else rows + 1):
            print(line, flush=True)


@contextmanager
def _rows_of(cluster: Cluster, stream: str) -> Iterator[Subscription]:
    """Raises NotFound: there is no such stream."""
    try:
        query = cluster.rest.get(path("streams", stream))["fed_by"]
    except NotFound as error:
        raise cluster.rest.nearest(error, "/streams", stream) from None
    if query is not None:
        with cluster.query(query).subscribe(stream, on_slow="drop", keep_s=KEEP_S) as answers:
            yield answers
        return
    passing = f"tail-{os.getpid()}-{stream}"
    running = cluster.deploy(Query(passing).source(stream).output(f"{passing}.rows"), start=False)
    try:
        with running.subscribe(f"{passing}.rows", on_slow="drop", keep_s=KEEP_S) as answers:
            running.start()
            yield answers
    finally:
        with suppress(NotFound):
            running.delete()


def _json_lines(answers: Subscription) -> Iterator[str]:
    for batch in answers:
        yield from lines(batch)


def _columns(answers: Subscription) -> Iterator[str]:
    """The names of the columns, then a line for each row, as wide as the first batch needs."""
    widths: list[int] | None = None
    for batch in answers:
        shown = [[_cell(value) for value in row] for row in shown_rows(batch)]
        if widths is None:
            names = batch.schema.names
            widths = [max(map(len, column)) for column in zip(names, *shown, strict=True)]
            yield _line(names, widths)
        yield from (_line(row, widths) for row in shown)


def _cell(value: Any) -> str:
    return "NULL" if value is None else value if isinstance(value, str) else json.dumps(value)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
