"""Queries that read other queries' outputs: which they may read."""

from __future__ import annotations

from cep.errors import Conflict, QueryError, counted
from cep.model.query import Query
from cep.model.streams import Stream
from cep.plan.feeds import feed_of
from cep.plan.physical import Feed
from cep.plan.split import streams_read
from orchestrator.records import QueryRecord
from orchestrator.state.cluster_state import ClusterState
from orchestrator.state.life_cycle import is_over
from orchestrator.state.query_status import rows_out


def sources(state: ClusterState, query: Query) -> tuple[dict[str, Stream], dict[str, Feed]]:
    """The streams that `query` may read by name, and where those come from that other queries put out.

    Raises:
        Conflict: it reads the output of a query that is over, or about to be.
        QueryError: it reads the late rows of another query.
    """
    known, feeds = dict(state.streams), {}
    for name in streams_read(query):
        feeding = [record for record in state.putting_out(name) if record.name != query.name]
        live = [record for record in feeding if not is_over(record.state) and record.state != "stopping"]
        if live:
            known[name], feeds[name] = _feed(state, query, live[0], name)
        elif feeding and name not in state.streams:
            raise Conflict(f"stream {name!r} is an output of query {feeding[-1].name!r}, {_over(state, feeding[-1], name)}")
    return known, feeds


def _feed(state: ClusterState, query: Query, record: QueryRecord, stream: str) -> tuple[Stream, Feed]:
    try:
        return feed_of(state.plans[record.name], record.epoch, stream)
    except QueryError as error:
        reader = next((i for i, operator in enumerate(query.operators) if stream in operator.inputs), None)
        raise error.under("/outputs" if reader is None else f"/operators/{reader}") from None


def _over(state: ClusterState, record: QueryRecord, stream: str) -> str:
    what = {
        "ended": f"which has ended after {counted(rows_out(state, record).get(stream, 0), 'row')}",
        "failed": f"which has failed: {record.cause.text if record.cause else 'no cause is known'}",
    }.get(record.state, f"which is {record.state}")
    return f"{what}; a query that reads it is deployed while it runs, or before it starts"
