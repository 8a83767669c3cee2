"""The commands for whoever opens a cluster to others: `cep token`, `cep keys`, `cep audit`."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Column, Table

from cep.errors import ClusterError
from cep.service.access import Role
from cep.service.token_file import add_token, read_tokens, remove_token
from driver.cluster import Cluster
from driver.configuration.table import URL
from driver.processes.certificates import DAYS, KeyMaker, ends, names_of
from driver.processes.key_folder import KeyFolder
from driver.processes.run_folder import run_folder
from driver.terminal import Authority, Token, Url, out

_PANEL = "Who may do what"

TokensFile = Annotated[
    Path | None,
    typer.Option("--tokens", envvar="CEP_TOKENS", help="The file of tokens that the cluster was given; default: $CEP_RUN/tokens."),
]
NameOfToken = Annotated[str, typer.Argument(help="By which the audit log, and you, know it.")]

token = typer.Typer(help="Tokens and their roles; a running cluster knows of a change with the next request.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Adds them to the command line."""
    app.add_typer(token, name="token", rich_help_panel=_PANEL)
    app.command(rich_help_panel=_PANEL)(keys)
    app.command(rich_help_panel=_PANEL)(audit)


@token.command()
def add(
    name: NameOfToken,
    role: Annotated[
        list[str], typer.Option(help="admin, deploy, publish:STREAM, subscribe:STREAM, read; `*` is any stream. May be repeated.")
    ],
    tokens: TokensFile = None,
) -> None:
    """Makes a token and prints it, this once: only its hash is kept."""
    file = _file(tokens)
    made = add_token(file, name, [Role.parse(each) for each in role], date.today().isoformat())
    print(made.text)


@token.command("list")
def list_tokens(
    tokens: TokensFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """Names all tokens in the file, with their roles."""
    found = read_tokens(_file(tokens))
    if as_json:
        print(json.dumps([{key: value for key, value in each.to_json().items() if key != "sha256"} for each in found], indent=2))
        return
    table = Table("token", Column("roles", overflow="fold"), "made")
    for each in found:
        table.add_row(each.name, " ".join(map(str, each.roles)), each.made)
    out.print(table)


@token.command()
def remove(name: NameOfToken, tokens: TokensFile = None) -> None:
    """Forgets a token: the next request with it is refused."""
    remove_token(_file(tokens), name)
    out.print(f"{name}: removed", highlight=False)


def keys(
    folder: Annotated[
        Path | None, typer.Option("--keys", envvar="CEP_KEYS", help="Where they are, for this user alone; default: $CEP_RUN/keys.")
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(help="A host name or address by which REST or ZooKeeper is asked for; localhost is one anyway. May be repeated."),
    ] = None,
    days: Annotated[int, typer.Option(min=1, max=3650, help="How long the certificates are good for.")] = DAYS,
    renew: Annotated[bool, typer.Option("--renew", help="Makes new certificates by the authority that is there.")] = False,
    rotate_members: Annotated[
        bool,
        typer.Option("--rotate-members", help="Only gives a running cluster's members a new key pair for their links."),
    ] = False,
    url: Url = URL,
    token: Token = None,
    ca: Authority = None,
) -> None:
    """Makes an authority, and certificates by it for REST, for ZooKeeper and for the cluster's processes; with --renew new ones, which REST
    takes up by itself."""
    if rotate_members:
        with Cluster(url, token, ca=ca) as cluster:
            out.print(f"the members' public key is {cluster.rotate_members_key()}", markup=False, highlight=False)
        return
    chosen = KeyFolder(_in_run_folder(folder, "keys", "--keys DIR").absolute())
    maker = KeyMaker(chosen)
    (maker.renew if renew else maker.make)(name or [], datetime.now(UTC), days)
    out.print(f"{chosen.server}: for {', '.join(names_of(chosen.server))}, until {ends(chosen.server):%Y-%m-%d}", highlight=False)
    out.print(f"clients are given {chosen.ca} (--ca, CEP_CA); all else in that folder is secret", highlight=False)


def audit(
    last: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="A line of JSON for each.")] = False,
    url: Url = URL,
    token: Token = None,
    ca: Authority = None,
) -> None:
    """Prints with which token what was deployed, stopped, moved or deleted, and what came of it."""
    with Cluster(url, token, ca=ca) as cluster:
        found = cluster.audit(last)
    if as_json:
        print(*map(json.dumps, found), sep="\n")
        return
    table = Table("when", "token", "from", "what", Column("about", overflow="fold"), Column("outcome", overflow="fold"))
    for line in found:
        table.add_row(*map(str, (line["at"], line["token"], line["from"], _what(line), line["about"], _outcome(line))))
    out.print(table)


def _what(line: dict[str, Any]) -> str:
    asked = " ".join(f"{key}={value}" for key, value in line["asked"].items() if key not in ("wait", "timeout", "node"))
    return f"{line['action']} {asked}".strip()


def _outcome(line: dict[str, Any]) -> str:
    return str(line["status"]) if line["error"] is None else f"{line['status']} {line['error']}: {line['detail']}"


def _file(tokens: Path | None) -> Path:
    return _in_run_folder(tokens, "tokens", "--tokens FILE")


def _in_run_folder(given: Path | None, name: str, option: str) -> Path:
    """Raises ClusterError: nothing says where it is."""
    if given is not None:
        return given
    folder = run_folder()
    if folder is None:
        raise ClusterError(f"say where it is: {option}, or the run folder in CEP_RUN")
    return folder.path / name
