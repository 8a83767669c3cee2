"""The commands about connectors: `cep connect`, `cep connectors`, `cep disconnect`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Column, Table

from cep.errors import CepError, NotFound, QueryError
from driver.cluster import Cluster
from driver.configuration.table import URL
from driver.documents import documents_in
from driver.rest import path
from driver.terminal import Authority, Token, Url, complain, out

WELL = ("running", "ended", "waiting", "starting")


def register(app: typer.Typer) -> None:
    """Adds them to the command line."""
    for command in (connect, connectors, disconnect):
        app.command()(command)


def connect(
    documents: Annotated[
        list[Path], typer.Argument(help="Connectors: JSON, or YAML if it ends in .yaml or .yml; one or several in a file.")
    ],
    url: Url = URL,
    token: Token = None,
    ca: Authority = None,
) -> None:
    """Declares connectors, which run from then on: each brings rows to a stream, or takes answers away. One that is wrong harms no
    other."""
    read = [(file, document) for file in documents for document in documents_in(file)]
    refused = False
    with Cluster(url, token, ca=ca) as cluster:
        for file, document in read:
            try:
                cluster.connect(document)
                out.print(f"{document['name']}: declared")
            except CepError as error:
                refused = True
                pointer = f" (at {error.pointer})" if isinstance(error, QueryError) and error.pointer else ""
                complain(f"{file}: connector {document.get('name')!r}: {error}{pointer}")
    if refused:
        raise typer.Exit(1)


def connectors(
    name: Annotated[
        str | None, typer.Argument(help="One of them, with the last records that it could make no rows of; default: all.")
    ] = None,
    kinds: Annotated[
        bool, typer.Option("--kinds", help="The connectors that there are to be declared, with their options, as JSON.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
    url: Url = URL,
    token: Token = None,
    ca: Authority = None,
) -> None:
    """Lists connectors: what each is at, how many rows it has brought or taken, how many wait, and what is wrong with it."""
    with Cluster(url, token, ca=ca) as cluster:
        if kinds:
            print(json.dumps(cluster.rest.get("/connectors:kinds"), indent=2))
            return
        found = cluster.connectors() if name is None else [_one(cluster, name)]
    if as_json:
        print(json.dumps(found, indent=2))
        return
    out.print(_connector_table(found) if found else "no connectors")
    for letter in found[0].get("letters", ()) if name is not None else ():
        out.print(f"{letter['place']}: {letter['reason']}: {letter['value']!r}")


def disconnect(
    name: Annotated[str, typer.Argument(help="The connector's name.")], url: Url = URL, token: Token = None, ca: Authority = None
) -> None:
    """Stops a connector for good. What it has brought or taken stays; declared again under the name it goes on where it was."""
    with Cluster(url, token, ca=ca) as cluster:
        try:
            cluster.disconnect(name)
        except NotFound as error:
            raise cluster.rest.nearest(error, "/connectors", name) from None
    out.print(f"{name}: stopped")


def trouble(connector: Mapping[str, Any]) -> str:
    """What `cep status` says of it; empty: it is well."""
    return "" if connector["state"] in WELL else f"connector {connector['name']} is {connector['state']}: {connector['error']}"


def _one(cluster: Cluster, name: str) -> dict[str, Any]:
    try:
        found = dict(cluster.rest.get(path("connectors", name)))
    except NotFound as error:
        raise cluster.rest.nearest(error, "/connectors", name) from None
    return found | {"letters": cluster.rest.get(path("connectors", name) + "/dead-letters")}


def _connector_table(found: list[dict[str, Any]]) -> Table:
    shown = Table("connector", "stream", "by", "state", "rows", "waiting", "dead", Column("what is wrong", overflow="fold"))
    for each in found:
        behind = "" if each["behind"] is None else f"{each['behind']:,}"
        way = f"{each['way']} {each['connector']}"
        counts = (f"{each['rows']:,}", behind, f"{each['dead_letters']:,}")
        shown.add_row(each["name"], each["stream"], way, each["state"], *counts, each["error"] or each["note"])
    return shown
