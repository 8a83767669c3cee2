"""Query, workers and topology → PhysicalPlan: a tuple of pure rewrites, in order.

Read them in this order: `split` (which operators run together), `parallelize` (in how many instances), `balance` (what
flows between them, and how), `pre_aggregate` (tuples or partials), `place` (where).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial, reduce
from types import MappingProxyType

from cep.errors import QueryError
from cep.model.expr import too_nested
from cep.model.hosts import Machines
from cep.model.limits import CHANNELS_MAX
from cep.model.query import Query
from cep.model.streams import Stream
from cep.model.topology import Topology
from cep.plan.balancers import connect_subqueries
from cep.plan.checkpoints import as_its_cluster, check_recovery
from cep.plan.expand import shorter
from cep.plan.feeds import check_declarations
from cep.plan.moving import with_tables_of
from cep.plan.parallelize import parallelize
from cep.plan.physical import Feed, FilesByStream, PhysicalPlan, Worker
from cep.plan.place import place
from cep.plan.pre_aggregate import pre_aggregate
from cep.plan.split import split
from cep.plan.validate import validate

Rewrite = Callable[[PhysicalPlan], PhysicalPlan]

NO_FILES: FilesByStream = MappingProxyType({})
NO_FEEDS: Mapping[str, Feed] = MappingProxyType({})


def plan(
    query: Query,
    known_streams: Mapping[str, Stream],
    workers: Iterable[Worker],
    topology: Topology | Machines,
    numa: bool = True,
    files: FilesByStream = NO_FILES,
    feeds: Mapping[str, Feed] = NO_FEEDS,
    recover: str = "off",
) -> PhysicalPlan:
    """The plan of one query.

    Args:
        known_streams: the streams that exist besides those the query declares, by name.
        workers: every instance manager there is, in any order.
        topology: where their nodes are: of the one machine, or of each host.
        numa: place by distance; otherwise in turn.
        files: the files of each stream that is read from files.
        feeds: where the known streams come from that other queries put out.
        recover: what a query does that does not say, if it can (`cep.model.query.RECOVER`).

    Raises:
        QueryError: it is no query, or its options would change its answers.
        PlacementError: no instance manager, or more replicas than there are.
    """
    check_declarations(query, known_streams, feeds)
    validated = validate(query, known_streams)
    short, query, sources = shorter(query, validated.query), validated.query, validated.sources
    found = {name: tuple(files.get(name, ())) for name, stream in sources.items() if stream.files is not None}
    notes = (
        *(f"stream {name!r} is read from files, and none was found" for name, paths in found.items() if not paths),
        *(note for stream in query.streams if (note := _growth(known_streams.get(stream.name, stream), stream))),
    )
    bare = PhysicalPlan(query, dict(sources), workers=tuple(workers), buckets=query.options.buckets, numa=numa, files=found, notes=notes)
    bare = replace(bare, short=short, feeds={name: feeds[name] for name in sources if name in feeds})
    return reduce(lambda so_far, rewrite: rewrite(so_far), rewrites(topology), as_its_cluster(bare, recover))


def check_plannable(query: Query, known_streams: Mapping[str, Stream]) -> None:
    """Raises QueryError for whatever `plan` would refuse, or an instance manager, because of the query alone, wherever it is to run."""
    try:
        validated = validate(query, known_streams)
    except RecursionError:
        raise too_nested() from None
    workers = tuple(Worker(f"im-{i}", i, i, "") for i in range(max(2, query.options.replicas)))
    full, short = validated.query, shorter(query, validated.query)
    bare = PhysicalPlan(full, dict(validated.sources), workers=workers, buckets=query.options.buckets, short=short)
    reduce(lambda so_far, rewrite: rewrite(so_far), _REWRITES, bare)


def replanned(plan: PhysicalPlan, parallelism: Mapping[str, int]) -> PhysicalPlan:
    """The plan, not placed, of the same query, with so many instances of the subqueries that are named; others have as many as in `plan`,
    and their buckets where they are.

    Raises:
        QueryError: one of them cannot have so many.
    """
    sizes = {each.name: each.parallelism for each in plan.subqueries} | dict(parallelism)
    options = replace(plan.query.options, parallelism=1, parallelism_of=tuple(sorted(sizes.items())))
    bare = replace(plan, query=replace(plan.query, options=options), subqueries=(), edges=(), instances=())
    return with_tables_of(reduce(lambda so_far, rewrite: rewrite(so_far), _REWRITES, bare), plan)


def rewrites(topology: Topology | Machines) -> tuple[Rewrite, ...]:
    """What makes a plan of a query, step by step."""
    machines = topology if isinstance(topology, Machines) else Machines.of(topology)
    return (*_REWRITES, partial(place, machines=machines))


def _growth(known: Stream, given: Stream) -> str:
    """What a user should know where a query declares other columns than there are."""
    before, now = known.schema.fields, given.schema.fields
    if len(now) > len(before):
        return f"stream {given.name!r} gets {', '.join(map(str, now[len(before) :]))}: NULL in rows that are sent without"
    return f"stream {given.name!r} has more columns, which this query does not declare: {known.schema}" if len(now) < len(before) else ""


def _split(plan: PhysicalPlan) -> PhysicalPlan:
    return replace(plan, subqueries=split(plan.query))


def _count_channels(plan: PhysicalPlan) -> PhysicalPlan:
    """The plan. Raises QueryError: it would have too many channels."""
    sizes = {subquery.name: subquery.parallelism for subquery in plan.subqueries}
    inner = [(edge.balancer, sizes[edge.source], sizes[edge.target]) for edge in plan.edges if edge.is_inner]
    channels = sum(sources if balancer == "point-to-point" else sources * targets for balancer, sources, targets in inner)
    if channels > CHANNELS_MAX:
        raise QueryError(f"{channels:,} channels between instances, expected at most {CHANNELS_MAX:,}", "/options/parallelism")
    return plan


_REWRITES: tuple[Rewrite, ...] = (check_recovery, _split, parallelize, connect_subqueries, _count_channels, pre_aggregate)
"""All but the placement: they know the number of workers, not where those are."""
