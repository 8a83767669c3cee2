"""What REST tells of the state: pure functions from `ClusterState` to JSON values."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any
from weakref import WeakKeyDictionary

from cep.errors import Conflict, NotFound
from cep.model import streams as stream_documents
from cep.model.hosts import VERSION, Host
from cep.model.schema import Schema
from cep.model.topology import Topology
from cep.plan.channels import ChannelId
from cep.plan.checkpoints import recovers
from cep.plan.moving import first_table, heads, planned_table
from cep.plan.physical import Edge, Feed, Instance, PhysicalPlan
from cep.plan.route import Route
from cep.plan.sources import source_of
from cep.plan.upgrading import Upgrade
from cep.plan.validate import validate
from orchestrator.records import QueryRecord, Status, Unused
from orchestrator.state import evacuations
from orchestrator.state.cluster_state import ClusterState
from orchestrator.state.life_cycle import LIFE_CYCLE, READABLE, is_over
from orchestrator.state.losses import missing
from orchestrator.state.query_status import operators, rows_out

_PRODUCING = frozenset(("ready", "running", "draining", "recovering"))
_AT_WORK = frozenset(("running", "draining"))
_OBSERVED = ("rows_in", "rows_out", "bypassed")
_NOT_READING = frozenset(("ended", "stopped", "failed"))
_AT_HOME = frozenset(("ready", "running", "paused", "ended"))


def summaries(state: ClusterState) -> list[dict[str, Any]]:
    """Of all queries, by name."""
    return [summary(state, state.queries[name]) for name in sorted(state.queries)]


def summary(state: ClusterState, record: QueryRecord) -> dict[str, Any]:
    """One line of the list of queries."""
    plan = state.plans[record.name]
    return {
        "name": record.name,
        "state": record.state,
        "cause": None if record.cause is None else record.cause.to_json(),
        "start": record.start,
        "times": dict(record.times),
        "subqueries": len(plan.subqueries),
        "instances": len(plan.instances),
        "rows": rows_out(state, record),
        "recovery": _recovery(state, record),
        "lease_s": record.lease_s,
    }


def detail(state: ClusterState, record: QueryRecord) -> dict[str, Any]:
    """Everything about one query that is not a measurement."""
    plan = state.plans[record.name]
    return summary(state, record) | {
        "document": dict(record.document),
        "epoch": record.epoch,
        "attempt": record.attempt,
        "recovers": recovers(plan),
        "plan": {
            "subqueries": [{"name": s.name, "operators": list(s.operators), "stateful": s.stateful} for s in plan.subqueries],
            "cost": plan.cost,
            "notes": list(plan.notes),
        },
        "placed": [_placed(state, record, instance) for instance in plan.instances],
        "outputs": outputs(plan, record),
        "operators": operators(state, record) if is_over(record.state) else {},
        "unused": None if record.unused is None else _unused(record.unused),
        "schemas": output_schemas(plan),
        "tables": [_table(state, record, head) for head in _dealt_anew(state, record)],
        "moved": _moved(record),
        "reads": [_read(state, record, stream, feed) for stream, feed in plan.feeds.items()],
    }


def _unused(found: Unused) -> dict[str, int]:
    return asdict(found) | {"dead_letters": sum(found.dead_letters.values())}


def _recovery(state: ClusterState, record: QueryRecord) -> dict[str, Any] | None:
    """How often it has recovered and why, and its checkpoints; None: it does not."""
    taken = state.taking.described(record.name)
    if taken is None:
        return None
    lost = "; ".join(missing(state, record).values()) if "loss" in LIFE_CYCLE[record.state] else ""  # and no place to go on at is there yet
    recovering = record.state == "recovering" or bool(lost)
    return {"recovering": recovering, "attempts": record.attempt, "reason": lost or record.reason, "checkpoints": taken}


def aged(document: dict[str, Any], wall_s: float) -> dict[str, Any]:
    """`summary` or `detail`, at that time since 1970: it says how old the last checkpoint is, by the clock that committed it."""
    last = (document["recovery"] or {"checkpoints": {}})["checkpoints"].get("last")
    if last is not None:
        last["age_s"] = round(max(0.0, wall_s - last["at"]), 3)
    return document


def _dealt_anew(state: ClusterState, record: QueryRecord) -> list[str]:
    """The subqueries whose buckets have moved."""
    moved, plan = state.tables.get(record.name, {}), state.plans[record.name]
    return [head for head in heads(plan) if head in moved or planned_table(plan, head) != first_table(plan, head)]


def _table(state: ClusterState, record: QueryRecord, head: str) -> dict[str, Any]:
    """Where the buckets of a subquery are."""
    plan, present = state.plans[record.name], state.table(record.name, head)
    elsewhere = sum(now != at_first for now, at_first in zip(present.table, first_table(plan, head), strict=True))
    counts = Counter(present.table)
    return {
        "subquery": head,
        "version": present.version,
        "buckets": [counts[i] for i in range(plan.subquery(head).parallelism)],
        "elsewhere": elsewhere,
        "moving": record.state == "running" and state.is_moving(record, head),
    }


def _moved(record: QueryRecord) -> dict[str, Any] | None:
    """The last move of an instance."""
    if not record.moves:
        return None
    pending = record.move or record.change
    under_way = record.reason if record.state == "recovering" else "" if pending is None else pending.described
    return {"number": record.moves, "under_way": under_way, "refused": record.refused}


def _read(state: ClusterState, record: QueryRecord, stream: str, feed: Feed) -> dict[str, Any]:
    """A stream that it reads from another query, and how that is."""
    other = state.queries.get(feed.query)
    same = other is not None and other.epoch == feed.epoch
    return {"stream": stream, "query": feed.query, "state": other.state if same and other else None, "lost": record.lost.get(stream)}


_SCHEMAS: WeakKeyDictionary[PhysicalPlan, dict[str, Any]] = WeakKeyDictionary()


def output_schemas(plan: PhysicalPlan) -> dict[str, Any]:
    """Output stream -> its fields; found out once for a plan."""
    if (known := _SCHEMAS.get(plan)) is None:
        known = _SCHEMAS[plan] = _schemas(plan)
    return known


def _schemas(plan: PhysicalPlan) -> dict[str, Any]:
    found = validate(plan.query, plan.streams).schemas
    return {edge.consumer: found[edge.consumer].to_json() for edge in plan.edges if edge.is_output}


def outputs(plan: PhysicalPlan, record: QueryRecord) -> dict[str, list[dict[str, Any]]]:
    """Output stream -> the instances that produce it, and where a subscriber finds them; none once they are withdrawn."""
    found: dict[str, list[dict[str, Any]]] = {}
    for edge in (edge for edge in plan.edges if edge.is_output):
        producers = [] if record.released else list(_producers(plan, record, edge))
        found.setdefault(edge.consumer, []).extend(producers)
    return found


def stream_readers(state: ClusterState, stream: str) -> list[dict[str, Any]]:
    """The source instances that read a published stream now."""
    records = (record for record in state.reading(stream) if record.state in READABLE)
    return [reader for record in records for reader in _readers(state, record, stream)]


def version(listing: list[dict[str, Any]]) -> str:
    """Changes when the listing does; the same in every orchestrator."""
    return hashlib.blake2b(json.dumps(listing).encode(), digest_size=8).hexdigest()


def streams(state: ClusterState) -> list[dict[str, Any]]:
    """Every declared stream and every output stream."""
    fed = {name for plan in state.plans.values() for name in output_schemas(plan)}
    return [stream_info(state, name) for name in sorted(fed | state.streams.keys())]


def stream_info(state: ClusterState, name: str) -> dict[str, Any]:
    """A stream as declared or as a query puts it out, and what has to do with it. Raises NotFound."""
    feeding = [record.name for record in state.putting_out(name)]
    if name in state.streams:
        document = declaration(state, name)
    elif feeding:
        document = {"name": name, "schema": output_schemas(state.plans[feeding[-1]])[name]}
    else:
        raise NotFound(f"there is no stream {name!r}: declare it, or deploy a query that does or that feeds it")
    return document | {
        "publishers": [publisher.to_json() for publisher in state.publishers[name].values()],
        "read_by": [record.name for record in state.reading(name)],
        "fed_by": feeding[-1] if feeding else None,
    }


def schema_of(state: ClusterState, stream: str) -> Schema | None:
    """Of a stream; None: it is not known."""
    known = stream in state.streams or state.putting_out(stream)
    return Schema.from_json(stream_info(state, stream)["schema"]) if known else None


def declaration(state: ClusterState, stream: str) -> dict[str, Any]:
    """A declared stream."""
    return stream_documents.to_json(state.streams[stream])


def producing(state: ClusterState, stream: str) -> dict[str, Any] | None:
    """The instances that produce an output stream, of the query that runs or may run; None where there is none."""
    live = [record for record in state.putting_out(stream) if record.state in _PRODUCING]
    if not live:
        return None
    plan = state.plans[live[0].name]
    found = {"query": live[0].name, "state": live[0].state, "fields": output_schemas(plan)[stream]}
    return found | {"producers": outputs(plan, live[0])[stream]}


def managers(state: ClusterState) -> list[dict[str, Any]]:
    """The instance managers, as they registered, and how many instances each hosts."""
    records = (record for record in state.queries.values() if not record.released)
    hosted = Counter(instance.im for record in records for instance in state.plans[record.name].instances)
    return [dict(state.managers[im].info) | {"instances": hosted[im]} for im in sorted(state.managers)]


def processes(state: ClusterState, query: str, host: str) -> tuple[dict[str, int], list[str]]:
    """Of the instance managers that a query is on: the process ids of those on `host`, and the names of the others. Raises NotFound;
    Conflict: nothing of it runs."""
    record = state.query(query)
    if record.state not in _AT_WORK:
        raise Conflict(f"query {query!r} is {record.state}, and nothing of it can be seen at work")
    there = sorted({instance.im for instance in state.plans[record.name].instances} & state.managers.keys())
    here = [im for im in there if not host or state.managers[im].host == host]
    return {im: int(state.managers[im].info["pid"]) for im in here}, [im for im in there if im not in here]


def hosts(state: ClusterState, own: str, topology: Topology) -> list[dict[str, Any]]:
    """The hosts that have joined, by name, and the one called `own` even if it has not."""
    unknown = {} if own in state.hosts else {own: None}
    known: dict[str, Host | None] = {**unknown, **state.hosts}
    return [_host(state, name, topology, known[name]) for name in sorted(known)]


def _host(state: ClusterState, name: str, own: Topology, host: Host | None) -> dict[str, Any]:
    topology = own if host is None else host.topology
    managers = sorted(manager.im for manager in state.managers.values() if manager.host == name)
    return {
        "name": name,
        "address": "" if host is None else host.address,
        "nodes": len(topology.nodes),
        "cores": len(topology.cores),
        "instance_managers": managers,
        "instances": sum(map(state.hosted_by, managers)),
        "load": None if host is None else host.load,
        "clock_ms": None if host is None else host.clock_ms,
        "clock_off": host is not None and host.is_clock_off,
        "since": None if host is None else host.since,
        "version": VERSION if host is None else host.version,
        "leaving": name in state.leaving,
    }


def evacuated(state: ClusterState, host: str) -> dict[str, Any]:
    """What is left on it."""
    left = [
        {"query": record.name, "subquery": instance.subquery, "instance": instance.index}
        for record, instance in evacuations.left_on(state, host)
    ]
    return {"host": host, "until": state.leaving[host].until if host in state.leaving else None, "left": left}


def _placed(state: ClusterState, record: QueryRecord, instance: Instance) -> dict[str, Any]:
    worker, status = state.plans[record.name].worker_of(instance), state.status(record, instance)
    return {
        "subquery": instance.subquery,
        "instance": instance.index,
        "replica": instance.replica,
        "im": instance.im,
        "node": worker.node,
        "core": worker.core,
        "endpoint": worker.endpoint,
        "state": None if status is None else status.state,
        "cause": None if status is None else status.cause,
    }


def _producers(plan: PhysicalPlan, record: QueryRecord, edge: Edge) -> Iterator[dict[str, Any]]:
    for instance in plan.instances_of(edge.source):
        yield {
            "query": record.name,
            "subquery": instance.subquery,
            "instance": instance.index,
            "im": instance.im,
            "endpoint": plan.worker_of(instance).endpoint,
            "channel": str(ChannelId.outlet(record.name, edge.consumer, instance.index, record.epoch)),
            "epoch": record.epoch,
        }


def _readers(state: ClusterState, record: QueryRecord, stream: str) -> Iterator[dict[str, Any]]:
    plan = state.plans[record.name]
    if stream not in plan.streams or not source_of(plan, stream).has_publishers:
        return
    for edge in (edge for edge in plan.edges if edge.is_input and edge.consumer == stream):
        for instance in plan.instances_of(edge.target):
            status = state.status(record, instance)
            # Of a query that recovers they are named while they are made anew, too: what they are sent is kept for them meanwhile. Of an
            # instance manager that is absent nothing is known, but it may come yet: who closes would have its last word heard by nobody.
            if recovers(plan) or status is None or status.state not in _NOT_READING:
                yield _reader(plan, record, edge, instance, status)


def _reader(plan: PhysicalPlan, record: QueryRecord, edge: Edge, instance: Instance, status: Status | None) -> dict[str, Any]:
    route = Route.of(plan, edge)
    relieves = record.relieves and record.state == "recovering"
    return {
        "query": record.name,
        "subquery": instance.subquery,
        "instance": instance.index,
        "replica": instance.replica,
        "im": instance.im,
        "endpoint": plan.worker_of(instance).endpoint,
        "channel": str(ChannelId.entry(record.name, edge.consumer, instance.index, record.epoch, record.attempt)),
        "epoch": record.epoch,
        "attempt": record.attempt,
        "keeps": recovers(plan),
        "here": status is not None and status.state in _AT_HOME and not relieves,
        "relieves": relieves,
        "route": None if route is None else route.to_json(),
    }


def moved(tables: list[dict[str, Any]]) -> str:
    """Where buckets are that have moved, a line for each subquery; empty where none have."""
    lines = []
    for each in tables:
        which = f", by table version {each['version']}" if each["version"] else ""  # of a query that recovers the plan says where
        there = f"{each['elsewhere']:,} of {sum(each['buckets']):,} buckets are elsewhere than planned{which}"
        now = "; moving now" if each["moving"] else ""
        lines.append(f"  {each['subquery']}: {there}; of instances in turn {', '.join(map(str, each['buckets']))}{now}")
    return "\n".join(["", "moved", *lines, ""]) if lines else ""


def move_lines(found: dict[str, Any] | None) -> str:
    """What moves now, or why the last move of an instance did not come about; empty where there is nothing to say."""
    line = found and (found["under_way"] or found["refused"])
    return f"\nmoving\n  {line}\n" if line else ""


def observed_pre_aggregation(placed: list[dict[str, Any]]) -> str:
    """What pre-aggregation has done so far, a line for each aggregate; empty where there is none, or nothing is known yet."""
    found: dict[str, Counter[str]] = {}
    for operator in (operator for each in placed for operator in (each.get("metrics") or {}).get("operators", ())):
        if "bypassed" in operator:
            found.setdefault(operator["name"], Counter()).update({key: operator.get(key) or 0 for key in _OBSERVED})
    lines = [
        f"  {name}: {figures['rows_in']:,} tuples in, {figures['rows_out']:,} partial results out, "
        f"{figures['bypassed']:,} of them tuples let through one by one"
        for name, figures in sorted(found.items())
    ]
    return "\n".join(["", "observed", *lines, ""]) if lines else ""


def upgrade(found: Upgrade) -> dict[str, Any]:
    """What becomes of each part of a query."""
    parts = [asdict(each) | {"fate": each.fate.value} for each in found.fates]
    return {"possible": found.plan is not None, "parts": parts, "text": found.text}
