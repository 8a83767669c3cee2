"""How much of the cluster its clients may have: what is over a quota is refused by name, and nothing else is touched."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cep.config import ClusterConfig
from cep.errors import Conflict, TooLarge
from cep.model.limits import SUBSCRIPTIONS_BYTES_MAX, SUBSCRIPTIONS_MAX
from orchestrator.state.desired_nodes import NODE_BYTES_MAX

GROWTH_BYTES = 150_000
"""By so much the record of a query may become longer of itself: why it failed, where its instances are, what its operators did."""


@dataclass(frozen=True, slots=True)
class Quotas:
    """None: no bound.

    Args:
        queries_max: of the cluster, that are not over.
        queries_of_client_max: the same of one client, known by its token.
        publishers_max: open at a time, of one stream.
        subscribers_max: subscriptions of one stream; more than SUBSCRIPTIONS_MAX never fit.
    """

    queries_max: int | None = None
    queries_of_client_max: int | None = None
    publishers_max: int | None = None
    subscribers_max: int | None = None

    @staticmethod
    def of(config: ClusterConfig) -> Quotas:
        return Quotas(config.queries_max, config.queries_of_client_max, config.publishers_max, config.subscribers_max)

    @property
    def subscribers(self) -> int:
        """Subscriptions that one stream may have."""
        return SUBSCRIPTIONS_MAX if self.subscribers_max is None else min(self.subscribers_max, SUBSCRIPTIONS_MAX)

    def check_query(self, name: str, owner: str, owners: Iterable[str]) -> None:
        """One more query, of `owner`; `owners`: of those that are not over. Raises Conflict."""
        live = list(owners)
        _check(f"query {name!r}", len(live) + 1, self.queries_max, "queries in the cluster (queries_max); stop one first")
        own = live.count(owner) + 1
        _check(f"query {name!r}", own, self.queries_of_client_max, "queries of a client (queries_of_client_max); stop one first")

    def check_publishers(self, stream: str, there: int) -> None:
        """There are to be so many. Raises Conflict."""
        _check(f"stream {stream!r}", there, self.publishers_max, "publishers (publishers_max); close one first")

    def check_subscribers(self, stream: str, there: int) -> None:
        """Likewise of subscriptions. Raises Conflict."""
        _check(f"stream {stream!r}", there, self.subscribers, "subscriptions (subscribers_max); end one first")


def check_size(query: str, record: int, subscribed: int) -> None:
    """Can its record, of so many bytes, be written until the query is over, and be so with all subscriptions to its outputs, of so many
    bytes? They are in every assignment of an instance that puts one out, too. Raises TooLarge, or Conflict: they are too many."""
    room = NODE_BYTES_MAX - GROWTH_BYTES - record
    if room < 0:
        raise TooLarge(
            f"query {query!r}: {record:,} bytes would be written of it, and of what it is to become, expected at most {record + room:,}: "
            "cut it into several, or let its lookups read their tables from files"
        )
    check_subscribed(f"query {query!r}", subscribed, min(room, SUBSCRIPTIONS_BYTES_MAX))


def check_subscribed(which: str, there: int, most: int = SUBSCRIPTIONS_BYTES_MAX) -> None:
    """Raises Conflict: subscriptions of more than `most` bytes."""
    if there > most:
        raise Conflict(
            f"{which}: the subscriptions to its outputs would take {there:,} bytes, expected at most {most:,}; end some, or give them "
            "shorter names"
        )


def _check(which: str, there: int, most: int | None, what: str) -> None:
    if most is not None and there > most:
        raise Conflict(f"{which}: expected at most {most:,} {what}; this would be number {there:,}")
