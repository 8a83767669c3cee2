"""`cep`: a local cluster in the foreground, and the few things one does with any cluster."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Column, Table

from cep.errors import CepError, ClusterError, counted
from cep.model.limits import UNIT_HINT
from driver import changing, connecting, door, hosts, log_lines, looking, sql_command
from driver.applications import commands
from driver.cluster import Cluster, Running
from driver.configuration import commands as config_commands
from driver.configuration import table
from driver.configuration.flags import CONFIG, role_command
from driver.configuration.told import Told, named_file, tell
from driver.documents import NameArgument, documents_in, is_document, read_document
from driver.local import LocalCluster
from driver.processes import roles
from driver.processes.command_line import main as main
from driver.processes.health import HealthReport, gone, has_orchestrator, is_alive, reports_at, troubles, unbound
from driver.processes.run_folder import token_or_run_folders
from driver.processes.supervisor import LocalConfig
from driver.rows import publishing, stream_commands
from driver.terminal import Authority, Token, Url, compiled_now, compiling_shown, complain, out, with_pointer

CHECK_S = 0.5  # between two looks at whether the cluster is there

# typer makes an option of each parameter of a command: hence so many.
app = typer.Typer(no_args_is_help=True, pretty_exceptions_show_locals=False)
roles.register(app)
app.add_typer(config_commands.app, name="config")


def _say_version(wanted: bool) -> None:
    if wanted:
        out.print(f"cep {version('numa-cep')}")
        raise typer.Exit


VersionFlag = Annotated[bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Says which version this is.")]


@app.callback()
def cep(context: typer.Context, config: Annotated[str | None, CONFIG] = None, says_version: VersionFlag = False) -> None:
    """Continuous queries over fast streams on one large machine."""
    if context.invoked_subcommand in table.ROLES or context.invoked_subcommand == "config" or named_file(config) is None:
        return
    told = tell(table.CLIENTS, {}, config)
    context.default_map = {name: {"url": told["url"], "token": told["token"], "ca": told["ca"]} for name in _client_commands(context)}


def _client_commands(context: typer.Context) -> Iterator[str]:
    commands: dict[str, Any] = getattr(context.command, "commands", {})
    return (name for name in commands if name not in table.ROLES)


def up(told: Told) -> None:
    """Starts a local cluster in the foreground; Ctrl-C takes it down."""
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    with LocalCluster(**_tidy(told.fields_of(LocalConfig))) as cluster:
        out.print(f"REST at {cluster.rest.url} (documentation at {cluster.rest.url}/docs), logs in {cluster.home}")
        if cluster.facts["console"]:
            out.print(f"console at {cluster.facts['console']}")
        for manager in cluster.instance_managers():
            out.print(_manager_line(manager))
        out.print("Ctrl-C takes it down.")
        while not stopped.wait(CHECK_S):
            cluster.check()


def _tidy(fields: dict[str, Any]) -> dict[str, Any]:
    """The token is the run folder's where none is given."""
    return fields | {"token": token_or_run_folders(fields["token"])}


app.command()(role_command(table.UP, up))


@app.command()
def deploy(
    documents: Annotated[list[Path], typer.Argument(help="Queries: JSON, or YAML if it ends in .yaml or .yml; one or several in a file.")],
    start: Annotated[bool, typer.Option(help="Run it at once; otherwise it is only made ready.")] = True,
    url: Url = table.URL,
    token: Token = None,
    ca: Authority = None,
) -> None:
    """Deploys queries and waits until they run. One that cannot be deployed harms no other; the exit status says that there was one."""
    read = [(path, document) for path in documents for document in documents_in(path)]
    with Cluster(url, token, ca=ca) as cluster, compiling_shown(cluster.rest, "deploying"):
        outcomes = cluster.deploy_all([document for _, document in read], start=start)
    for (path, document), outcome in zip(read, outcomes, strict=True):
        if isinstance(outcome, CepError):
            complain(f"{path}: {_refusal(document.get('name'), outcome)}")
        else:
            out.print(f"{outcome.name}: {'running' if start else 'ready'}")
    if any(isinstance(outcome, CepError) for outcome in outcomes):
        raise typer.Exit(1)


@app.command()
def explain(
    query: Annotated[str, typer.Argument(help="A file with a query, JSON or YAML; or the name of a deployed one.")],
    draw: Annotated[Path | None, typer.Option("--draw", help="A folder for pictures of its patterns, an .svg file each.")] = None,
    url: Url = table.URL,
    token: Token = None,
    ca: Authority = None,
) -> None:
    """Prints the plan that a query would get now, deploying nothing; or that of a deployed one, and what was observed of it."""
    with Cluster(url, token, ca=ca) as cluster:
        document = read_document(Path(query)) if is_document(query) else None
        out.print(cluster.query(query).explain() if document is None else cluster.explain(document))
        if draw is not None:
            pictures = cluster.query(query).pictures() if document is None else cluster.pictures(document)
            draw.mkdir(parents=True, exist_ok=True)
            for name, picture in pictures.items():
                (draw / f"{name}.svg").write_text(picture)
                out.print(f"drawn: {draw / name}.svg")


@app.command()
def status(
    name: Annotated[str | None, typer.Argument(help="One query; default: all.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
    url: Url = table.URL,
    token: Token = None,
    ca: Authority = None,
) -> None:
    """Says in which state every query is, what each of its instances waits for, and what is wrong with the cluster."""
    own = reports_at(url)
    if own and not has_orchestrator(own):
        _tell_without(own, "no orchestrator runs")
        raise typer.Exit(1)
    try:
        _tell(name, as_json, url, token, ca)
    except ClusterError as error:
        if own:
            _tell_without(own, str(error))
            raise typer.Exit(1) from None
        raise


def _tell(name: str | None, as_json: bool, url: str, token: str | None, ca: str | None) -> None:
    with Cluster(url, token, ca=ca) as cluster:
        names = [name] if name else [summary["name"] for summary in cluster.queries()]
        found = [cluster.query(each).status() for each in names]
        info = cluster.info()
        wrong = [*troubles(info["supervisors"], time.time()), *map(_set_aside, info["quarantined"]), *filter(None, [info["no_room"]])]
        wrong += unbound(cluster.instance_managers())
        wrong += filter(None, map(connecting.trouble, cluster.connectors()))
        wrong += compiled_now(cluster.figures()["managers"])
    if as_json:
        print(json.dumps(found, indent=2))
    elif found:
        out.print(_status_table(found))
        for note in _notes(found):
            out.print(note)
    else:
        out.print("no queries")
    for line in () if as_json else wrong:
        out.print(line)


def _tell_without(reports: Sequence[HealthReport], why: str) -> None:
    """What the supervisors' own files say, where no orchestrator can be asked."""
    complain(f"{why}; the supervisor says:")
    dead = [gone(report) for report in reports if not is_alive(report)]
    for line in dead or troubles(reports, time.time()):
        out.print(line)


@app.command()
def stop(
    name: NameArgument,
    drain: Annotated[bool, typer.Option("--drain", help="End its sources instead, so that open windows fire.")] = False,
    url: Url = table.URL,
    token: Token = None,
    ca: Authority = None,
) -> None:
    """Stops a query."""
    with Cluster(url, token, ca=ca) as cluster:
        running = cluster.query(name)
        running.stop(drain)
        out.print(f"{name}: {running.status()['state']}")


@app.command()
def delete(
    name: Annotated[str | None, typer.Argument(help="The query's name; or, with an option, a stream's or an application's.")] = None,
    stream: Annotated[bool, typer.Option("--stream", help="It is the name of a declared stream.")] = False,
    application: Annotated[bool, typer.Option("--application", help="It is that of an application, whose queries and streams go.")] = False,
    file: Annotated[Path | None, typer.Option("-f", "--file", help="The application that is declared in this file.")] = None,
    values: commands.Set = None,
    url: Url = table.URL,
    token: Token = None,
    ca: Authority = None,
) -> None:
    """Stops a query and forgets it; or a stream that no query reads, or an application with all that belongs to it."""
    if file is not None and name is None:
        reading = import_module("driver.applications.reading")
        name, application = reading.read_application(file, commands.variables_of(values or ())).name, True
    elif file is not None or name is None or (stream and application) or values:
        raise CepError("expected the name of a query, --stream NAME, --application NAME or -f FILE, which may have --set")
    with Cluster(url, token, ca=ca) as cluster:
        if application:
            for kind, each in import_module("driver.applications.applying").remove(cluster, name):
                out.print(f"{kind} {each}: deleted")
        elif stream:
            cluster.undeclare(name)
        else:
            Running(cluster, name).delete()
        out.print(f"{name}: deleted")


@app.command()
def dead_letters(
    name: NameArgument,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
    url: Url = table.URL,
    token: Token = None,
    ca: Authority = None,
) -> None:
    """Prints what of its input a query could not use: how much, and the last of it."""
    with Cluster(url, token, ca=ca) as cluster:
        found = cluster.query(name).dead_letters()
    if as_json:
        print(json.dumps(found, indent=2))
        return
    counts = ", ".join(f"{operator} {count:,}" for operator, count in found["counts"].items() if count)
    out.print(counted(found["total"], "dead letter") + (f": {counts}" if counts else ""))
    if found["letters"]:
        out.print(_letter_table(found["letters"]))


changing.register(app)
looking.register(app)
stream_commands.register(app)
publishing.register(app)
log_lines.register(app)
hosts.register(app)
connecting.register(app)
door.register(app)
sql_command.register(app)
commands.register(app)


def _refusal(name: object, error: CepError) -> str:
    """Why a query was not deployed, which the message names once."""
    query, said = f"query {name!r}", with_pointer(error)
    return said if said.startswith(query) else f"{query}: {said}"


def _manager_line(manager: dict[str, Any]) -> str:
    binding = manager["binding"]
    place = f"core {manager['core']}, node {manager['node']}" if binding["bound"] else "not bound"
    return f"  {manager['id']}: pid {manager['pid']}, {place}" + (f" ({binding['note']})" if binding["note"] else "")


def _recovery(found: dict[str, Any] | None) -> str:
    """Of a query that recovers: how often it has and why, how often it takes a checkpoint, what that costs, and how old the last one is."""
    if found is None:
        return ""
    taken, last = found["checkpoints"], found["checkpoints"]["last"]
    if found["recovering"]:
        since = f"the checkpoint of {last['age_s']:.1f} s ago" if last else "the beginning"
        return f" (attempt {found['attempts']}) from {since}: {found['reason']}"
    every = f"; a checkpoint every {taken['interval_s']:g} s"
    slower = f" ({taken['asked_s']:g} s asked for)" if taken["interval_s"] > taken["asked_s"] else ""
    wrong = f"; the last one could not be taken: {taken['error']}" if taken["error"] else ""
    times = f"; recovered {found['attempts']} times, lately from: {found['reason']}" if found["attempts"] else ""
    size = f", the last {last['age_s']:.1f} s ago of {last['bytes']:,} bytes, in {taken['took_us'] / 1000:g} ms" if last else ", none yet"
    size += ", and nothing has happened since" if last and taken["rests"] else ""
    return f"{every}{slower}{size}{wrong}{times}"


def _status_table(found: list[dict[str, Any]]) -> Table:
    table = Table("query", "state", "instance", "on", "rows", Column("waits for", overflow="fold"))
    for query in found:
        cause = query["cause"]
        recovery = query.get("recovery")
        state = "recovering" if recovery and recovery["recovering"] else query["state"]
        state += f": {cause['subquery']}: {cause['cause']}" if cause else _recovery(recovery)
        for place in query["placed"]:
            metrics = place.get("metrics") or {}
            where = f"{place['im']} (core {place['core']}, node {place['node']})" if place["core"] is not None else place["im"]
            rows = f"{metrics.get('rows_in', 0):,} → {metrics.get('rows_out', 0):,}"
            table.add_row(query["name"], state, f"{place['subquery']}/{place['instance']}", where, rows, place.get("waits_for") or "")
    return table


def _set_aside(node: dict[str, str]) -> str:
    return f"set aside: {node['node']}: {node['reason']}"


def _letter_table(letters: list[dict[str, Any]]) -> Table:
    facts = ("reason", "source", "position", "record")
    table = Table("operator", *(Column(name, overflow="fold") for name in facts))
    for letter in letters:
        table.add_row(*(letter.get(name, "") for name in ("operator", *facts)))
    return table


def _notes(found: list[dict[str, Any]]) -> list[str]:
    """What there is to know of their plans, what the queries have not used of their input, and what is slow in them, and why, each once."""
    placed = ((query["name"], place.get("metrics") or {}) for query in found for place in query["placed"])
    slow = (f"{name}: {note}" for name, metrics in placed for note in metrics.get("notes", ()))
    planned = (f"{query['name']}: {note}" for query in found for note in query.get("plan", {}).get("notes", ()))
    return list(dict.fromkeys((*planned, *(note for query in found for note in _unused(query)), *slow)))


def _unused(query: dict[str, Any]) -> Iterator[str]:
    """Its late rows and dead letters, where there are any."""
    name, unused = query["name"], query.get("unused") or {}
    if late := unused.get("late", 0):
        yield f"{name}: {counted(late, 'late row')}, further behind than their stream's disorder allows"
    if odd := unused.get("odd_times", 0):
        yield f"{name}: {counted(odd, 'row')} with event times outside the years that their stream allows; {UNIT_HINT}"
    if dead := unused.get("dead_letters", 0):
        yield f"{name}: {counted(dead, 'dead letter')}; `cep dead-letters {name}` shows the last of them"
