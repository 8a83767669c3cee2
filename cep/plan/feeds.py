"""A query that reads what another one puts out (rule 4.4): what follows from it for the plan.

The rows come with their producer's event time, origin and watermark, so a chain of queries gives the answers of one query
that does it all. For the origins that means: their sources are counted among the streams that the whole chain goes back to
(`PhysicalPlan.roots`), and rows that would tie in that one query tie here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from cep.errors import QueryError
from cep.model.query import Query
from cep.model.streams import Stream
from cep.plan.needed import beginnings, may_tie, origin_words
from cep.plan.physical import Feed, PhysicalPlan
from cep.plan.validate import validate


def feed_of(plan: PhysicalPlan, epoch: int, stream: str) -> tuple[Stream, Feed]:
    """The output `stream` of a planned query, for a query that is to read it.

    Raises:
        QueryError: it is the late stream.
    """
    edge = next(edge for edge in plan.edges if edge.is_output and edge.consumer == stream)
    if edge.late:
        raise QueryError(
            f"stream {stream!r} has the late rows of query {plan.query.name!r}: they are older than its watermark, so no query "
            "can read them in order; subscribe to it"
        )
    producers = tuple((i.index, plan.worker_of(i).endpoint) for i in plan.instances_of(edge.source))
    began = _through(plan, beginnings(plan.query, edge.producer))
    schema = validate(plan.query, plan.streams).schemas[stream]
    return Stream(stream, schema), Feed(
        plan.query.name, epoch, producers, plan.roots, tuple(sorted(began.items())), words(plan, edge.producer)
    )


def _through(plan: PhysicalPlan, began: Mapping[str, int]) -> Counter[str]:
    """The same, with what the plan's own feeds began with in their place."""
    found = Counter[str]()
    for name, ways in began.items():
        inner = plan.feeds[name].beginnings if name in plan.feeds else ((name, 1),)
        found.update({each: ways * more for each, more in inner})
    return found


def ties(plan: PhysicalPlan, producer: str) -> bool:
    """May two tuples of `producer` have the same event time and origin? As `needed.may_tie`, through other queries too."""
    return any(ways > 1 for ways in _through(plan, beginnings(plan.query, producer)).values())


def feeds_tie(plan: PhysicalPlan) -> bool:
    """Do tuples tie anywhere in this plan only because of what happened to them in other queries?"""
    inputs = [name for operator in plan.query.operators for name in operator.inputs] if plan.feeds else []
    return any(ties(plan, name) and not may_tie(plan.query, name) for name in inputs)


def words(plan: PhysicalPlan, producer: str) -> int:
    """int64 words of the origins of the tuples of `producer`. As `needed.origin_words`, through other queries too."""
    return origin_words(plan.query, producer, {stream: feed.origin_words for stream, feed in plan.feeds.items()})


def renumbered(plan: PhysicalPlan, feed: Feed) -> tuple[int, ...]:
    """Source index in the origins of the feed's rows -> the index that the source has here."""
    return tuple(plan.roots.index(stream) for stream in feed.streams)


def check_declarations(query: Query, known: Mapping[str, Stream], feeds: Mapping[str, Feed]) -> None:
    """Raises QueryError: the query declares an event time for what another puts out, or columns that this has not."""
    for i, stream in enumerate(query.streams):
        feed = feeds.get(stream.name)
        key = "event_time" if stream.event_time is not None else "files"  # without either it has no idle_after and no watermark
        if feed is not None and (stream.event_time is not None or stream.files is not None):
            raise QueryError(
                f"stream {stream.name!r} is an output of query {feed.query!r} and carries that query's event time and watermark; "
                f"leave out {key}{' and disorder' if key == 'event_time' else ''}",
                f"/streams/{i}/{key}",
            )
        if feed is not None and len(stream.schema.fields) > len(put_out := known[stream.name].schema.fields):
            raise QueryError(
                f"stream {stream.name!r} is an output of query {feed.query!r} with the schema {known[stream.name].schema}: it does not get "
                f"column {stream.schema.fields[len(put_out)].name!r} here; leave it out, or deploy that query with it anew",
                f"/streams/{i}/schema/{len(put_out)}",
            )
