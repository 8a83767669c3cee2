"""The commands of applications: `cep apply`, `cep diff`, `cep applications`, `cep schema`; `cep delete -f` is in `driver.cli`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from cep.errors import CepError, counted
from cep.service.yaml_documents import load_yaml
from driver.applications.change import Change
from driver.cluster import Cluster
from driver.configuration.table import URL
from driver.terminal import Authority, Token, Url, compiling_shown, out

File = Annotated[Path, typer.Argument(help="The file of an application, YAML.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="A variable's value in place of that in the file, such as rate=1m.")]

_DONE = {
    "create": "created",
    "extend": "has more columns",
    "adopt": "was there, and belongs to it now",
    "redeclare": "declared otherwise",
    "upgrade": "upgraded",
    "fresh": "upgraded, without some of what it knew",
    "replace": "begun anew",
    "restart": "begun anew",
    "remove": "removed",
}
_TO_DO = {
    "create": "to be created",
    "extend": "gets more columns",
    "adopt": "is there, and will belong to it",
    "redeclare": "to be declared otherwise",
    "upgrade": "to be upgraded",
    "fresh": "to be upgraded, without some of what it knows",
    "replace": "to begin anew, without what it knows",
    "restart": "to begin anew",
    "remove": "to be removed",
    "refused": "refused",
}
_SIGNS = {"create": "+", "remove": "-", "refused": "!"}


def register(app: typer.Typer) -> None:
    """Adds them to the command line."""
    for command in (apply, diff, applications, schema):
        app.command()(command)


def apply(
    file: File,
    values: Set = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only says what would change.")] = False,
    anew: Annotated[bool, typer.Option("--anew", help="Queries that cannot be upgraded may begin anew, without what they know.")] = False,
    url: Url = URL,
    token: Token = None,
    ca: Authority = None,
) -> None:
    """Makes the cluster have the streams, queries and connectors that a file declares: creates, changes and removes what differs."""
    with Cluster(url, token, ca=ca) as cluster:
        applying = _applying(cluster, file, values)
        if dry_run:
            _say(applying.changes, _TO_DO)
        try:
            applying.check(anew)
        except CepError:
            if not dry_run:
                _say(applying.changes, _TO_DO)
            raise
        changed = 0
        changes = iter(()) if dry_run else applying.run(anew)
        while (change := _next(cluster, changes)) is not None:
            out.print(_line(change, _DONE))
            changed += 1
    if not dry_run:
        out.print(f"{applying.name}: {counted(changed, 'change')}")


def _next(cluster: Cluster, changes: Iterator[Change]) -> Change | None:
    with compiling_shown(cluster.rest, "applying"):
        return next(changes, None)


def diff(file: File, values: Set = None, url: Url = URL, token: Token = None, ca: Authority = None) -> None:
    """Says what `cep apply` would change, and exits with 1 if there is something."""
    with Cluster(url, token, ca=ca) as cluster:
        applying = _applying(cluster, file, values)
    _say(applying.changes, _TO_DO)
    if applying.changes:
        raise typer.Exit(1)
    out.print(f"{applying.name}: no changes")


def applications(
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
    url: Url = URL,
    token: Token = None,
    ca: Authority = None,
) -> None:
    """Lists the applications, and the streams, queries and connectors of each."""
    with Cluster(url, token, ca=ca) as cluster:
        found = cluster.applications()
        states = {each["name"]: each["state"] for each in cluster.queries()}
        at = {each["name"]: each["state"] for each in cluster.connectors()}
    if as_json:
        print(json.dumps(found, indent=2))
        return
    for each in found:
        out.print(each["name"])
        for name in each["streams"]:
            out.print(f"  stream {name}")
        for name in each["queries"]:
            out.print(f"  query {name}: {states.get(name, 'is not there')}")
        for name in each["connectors"]:
            out.print(f"  connector {name}: {at.get(name, 'is not there')}")
    if not found:
        out.print("no applications")


def schema(
    connectors: Annotated[bool, typer.Option("--connectors", help="With the options of the connectors that the cluster has.")] = False,
    url: Url = URL,
    token: Token = None,
    ca: Authority = None,
) -> None:
    """Prints the JSON schema of an application's file, for editors."""
    kinds: list[dict[str, Any]] = []
    if connectors:
        with Cluster(url, token, ca=ca) as cluster:
            kinds = cluster.rest.get("/connectors:kinds")
    print(json.dumps(import_module("driver.applications.schema").application_schema(kinds), indent=2))


def _applying(cluster: Cluster, file: Path, values: list[str] | None) -> Any:
    return import_module("driver.applications.applying").Applying(cluster, file, variables_of(values or ()))


def variables_of(values: Sequence[str]) -> dict[str, Any]:
    """`name=value`, whose value is read as YAML does."""
    found: dict[str, Any] = {}
    for each in values:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise CepError(f"--set: expected NAME=VALUE, got {each!r}")
        try:
            read = load_yaml(value)
        except ValueError:
            read = value
        found[name] = read if isinstance(read, int | float | bool) else value
    return found


def _say(changes: Sequence[Change], words: dict[str, str]) -> None:
    for change in changes:
        out.print(_line(change, words))
        for line in change.lines:
            out.print(f"      {line}")


def _line(change: Change, words: dict[str, str]) -> str:
    why = f": {change.why}" if change.why else ""
    return f"{_SIGNS.get(change.action, '~')} {change.kind} {change.name}: {words[change.action]}{why}"
