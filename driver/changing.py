"""The commands that change a query while it runs: `cep move`, `cep scale`, `cep upgrade`."""

from __future__ import annotations

from typing import Annotated

import typer

from cep.errors import CepError
from driver.cluster import Cluster
from driver.configuration.table import URL
from driver.documents import Document, NameArgument, read_document
from driver.terminal import Authority, Token, Url, out


def register(app: typer.Typer) -> None:
    """Adds them to the command line."""
    for command in (move, scale, upgrade):
        app.command()(command)


def move(
    name: NameArgument,
    instance: Annotated[str, typer.Argument(help="Which of its instances, such as SQ2/0.")],
    im: Annotated[str, typer.Argument(help="The instance manager where it is to go on.")],
    url: Url = URL,
    token: Token = None,
    ca: Authority = None,
) -> None:
    """Moves an instance of a running query to another instance manager, with its state; answers do not change."""
    subquery, _, index = instance.partition("/")
    if not index.isdecimal():
        raise CepError(f"expected an instance as `cep status` names it, such as SQ2/0, got {instance!r}")
    with Cluster(url, token, ca=ca) as cluster:
        cluster.query(name).move(subquery, int(index), im)
        out.print(f"{name}: {instance} is on {im}")


def scale(
    name: NameArgument,
    sizes: Annotated[list[str], typer.Argument(help="Which subquery is to have how many instances, such as SQ2=4.")],
    url: Url = URL,
    token: Token = None,
    ca: Authority = None,
) -> None:
    """Gives subqueries of a running query that recovers another number of instances; answers do not change."""
    wanted = dict[str, int]()
    for each in sizes:
        subquery, _, instances = each.partition("=")
        if not instances.isdecimal():
            raise CepError(f"expected a subquery and how many instances it is to have, such as SQ2=4, got {each!r}")
        wanted[subquery] = int(instances)
    with Cluster(url, token, ca=ca) as cluster:
        cluster.query(name).scale(wanted)
        for subquery, count in wanted.items():
            out.print(f"{name}: {subquery} has {count} instance{'s' * (count != 1)}")


def upgrade(
    document: Document,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would become of each part; 1 if one is refused.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Operators that cannot keep their state begin with none.")] = False,
    url: Url = URL,
    token: Token = None,
    ca: Authority = None,
) -> None:
    """Puts a changed query in the place of the one of its name, which keeps the state of operators with the same name, while it runs."""
    read = read_document(document)
    with Cluster(url, token, ca=ca) as cluster:
        running = cluster.query(read["name"])
        report = running.upgrade(read, dry_run, fresh)
    out.print(report["text"])
    if not report["possible"]:
        raise typer.Exit(1)
