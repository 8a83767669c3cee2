"""What should stand in ZooKeeper for a query: it follows from its record and plan alone. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cep.config import node
from cep.plan.physical import Instance
from orchestrator.records import BucketTable, Process, QueryRecord
from orchestrator.state import moves
from orchestrator.state.cluster_model import ClusterModel


def nodes(model: ClusterModel, record: QueryRecord) -> Iterator[tuple[str, Any]]:
    """(path, value), the plan before what refers to it."""
    yield node("queries", record.name), record.to_json()
    yield node("plans", record.name), model.plan_documents[record.name]
    tables = model.tables.get(record.name)
    if tables:
        yield tables_node(record.name, tables)
    if record.name in model.checkpoints:
        yield node("checkpoints", record.name), model.checkpoints[record.name].to_json()
    if not record.released:
        for instance in (*model.plans[record.name].instances, *moves.newcomers(record)):
            yield node("assignments", instance.im, moves.node_name(record.name, instance)), _assignment(model, record, instance)


def tables_node(name: str, tables: Mapping[str, BucketTable]) -> tuple[str, Any]:
    """Of a query some of whose buckets have moved."""
    return node("tables", name), {"name": name, "tables": {head: each.to_json() for head, each in tables.items()}}


def _process(record: QueryRecord, instance: Instance) -> Process:
    """Whose it is: the next process of the same instance manager would begin it anew, in the middle of the query."""
    coming = record.move is not None and instance.im == record.move.target and instance.im not in record.hosts
    return record.move.process if record.move is not None and coming else record.hosts[instance.im]


def _assignment(model: ClusterModel, record: QueryRecord, instance: Instance) -> dict[str, Any]:
    plan = model.plans[record.name]
    edges = (*plan.edges_out_of(instance.subquery), *plan.late_edges(instance.subquery))
    outputs = {edge.consumer for edge in edges if edge.is_output}
    own = {"query": record.name, "subquery": instance.subquery, "instance": instance.index, "epoch": record.epoch}
    own["process"] = list(_process(record, instance))
    leads_to = {edge.target for edge in edges}
    if tables := {head: each.version for head, each in model.tables.get(record.name, {}).items() if head in leads_to}:
        own["tables"] = tables
    if model.quotas.subscribers_max is not None:
        own["subscribers_max"] = model.quotas.subscribers
    if record.attempt:
        restore = record.restore
        own |= {"attempt": record.attempt, "restore": restore and {"manifest": restore.manifest, "crc": restore.crc}}
        own["relieves"] = record.relieves
    if record.move is not None:
        own["move"] = moves.asked(model, record, record.move)
    return own | {
        "desired": record.desired,
        "cause": record.cause and record.cause.text,
        "failed_subquery": record.cause and record.cause.subquery,
        "failed_instance": record.cause and record.cause.instance,
        "feeds": {stream: each for stream, each in _feeds(model, record) if stream in plan.subquery(instance.subquery).streams},
        "lost": {stream: why for stream, why in record.lost.items() if stream in plan.subquery(instance.subquery).streams},
        "subscriptions": [s.to_json() for s in model.subscriptions_of(record) if s.stream in outputs],
    }


def _feeds(model: ClusterModel, record: QueryRecord) -> Iterator[tuple[str, dict[str, Any]]]:
    """Of the queries that it reads, those that are not any more what they were when it was planned: which attempt, and where."""
    for stream, feed in model.plans[record.name].feeds.items():
        other = model.queries.get(feed.query)
        if other is not None and other.epoch == feed.epoch and other.attempt:
            plan = model.plans[other.name]
            source = next(edge.source for edge in plan.edges if edge.is_output and edge.consumer == stream)
            places = [[each.index, plan.worker_of(each).endpoint] for each in plan.instances_of(source)]
            yield stream, {"attempt": other.attempt, "producers": places}
