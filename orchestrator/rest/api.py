"""What the routes of REST work with: the service behind them, and how they wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Query, Request
from starlette.concurrency import run_in_threadpool

from cep.config import ClusterConfig
from cep.errors import CepError, ClusterError
from cep.model.limits import DIGITS_MAX, WAIT_S_MAX
from cep.model.query import Query as CepQuery
from cep.plan.physical import FilesByStream
from cep.service.access import Access
from cep.service.token_file import Tokens
from cep.world.store import DiskStore, Store
from orchestrator.file_sources import checked_files
from orchestrator.metrics.client import MetricClient
from orchestrator.records import PublisherRecord
from orchestrator.rest import models
from orchestrator.rest.audit import AuditLog
from orchestrator.rest.bodies import access_of
from orchestrator.rest.connecting.board import ConnectorBoard
from orchestrator.rest.gateway_proxy import GatewayProxy
from orchestrator.service import Service
from orchestrator.state.cluster_state import ClusterState
from orchestrator.state.events import (
    ClosePublisher,
    Event,
)

CONFIRM_S = 30.0
"""How long a request waits for ZooKeeper to have what it asked for."""

POLL_S_MAX = 60.0
"""The longest long-poll."""

VANISHED_S = POLL_S_MAX + 10.0
"""A publisher that was not heard of for so long since it opened counts as closed: ten seconds past its longest poll."""

T = TypeVar("T")


class Api:
    """What the routes work with."""

    def __init__(self, service: Service, metrics: MetricClient, gateway: GatewayProxy, config: ClusterConfig) -> None:
        self.service, self.metrics, self.gateway, self.config = service, metrics, gateway, config
        self.tokens = Tokens(config.token, config.tokens)
        self.clock = service.clock
        self.audit = AuditLog(config.home, config.rest, self.clock)
        self.store: Store = DiskStore()
        self.connectors = ConnectorBoard()
        self.flame_turn = asyncio.Lock()
        self.heard: dict[tuple[str, str], float] = {}  # (stream, publisher) -> when it opened, or last asked for its readers, in `_term`
        self._term = -1

    def hear(self, stream: str, publisher: str) -> None:
        """A publisher that opens is alive, and one that asks for its readers: that is its lease."""
        self._leases()[stream, publisher] = self.now()

    def has_vanished(self, stream: str, publisher: str) -> bool:
        """It has not asked for its readers for long (rule 4.11): of one that was open when this term began, not since then."""
        return self.now() - self._leases().get((stream, publisher), self.service.since) > VANISHED_S

    def vanished(self, state: ClusterState, streams: Iterable[str]) -> list[ClosePublisher]:
        """What closes those of `streams` that have."""
        there = [each for stream in streams for each in state.publishers[stream].values()]
        return [ClosePublisher(each.stream, each.name, each.endpoint) for each in there if self.has_vanished(each.stream, each.name)]

    def _leases(self) -> dict[tuple[str, str], float]:
        """What was heard in another term, before another orchestrator led, says nothing."""
        if self._term != self.service.term:
            self._term, self.heard = self.service.term, {}
        return self.heard

    def now(self) -> float:
        """Seconds that never step back."""
        return self.clock.steady_ns() / 1e9

    def wall(self) -> float:
        """Seconds since 1970, by the clock of the orchestrator's decisions."""
        return self.service.now().wall

    async def open_publishers(self, publishers: Sequence[PublisherRecord]) -> None:
        """All of them or, raising Conflict, none. Their leases begin before that: none is judged by what was heard of its name before."""
        before = {(each.stream, each.name): self._leases().get((each.stream, each.name)) for each in publishers}
        for each in publishers:
            self.hear(each.stream, each.name)
        try:
            await confirmed(self.service.open_publishers(publishers))
        except CepError:
            self.heard = {key: at for key, at in {**self.heard, **before}.items() if at is not None}
            raise

    async def close_publishers(self, due: Callable[[ClusterState], list[ClosePublisher]]) -> None:
        """Closes those that `due` says when they are closed: a list that was made before would name some that have opened again."""
        before = dict(self._leases())
        for closed in await confirmed(self.service.do_due(due)):
            key = closed.stream, closed.name
            if key in before and self.heard.get(key) == before[key]:
                del self.heard[key]

    async def forget_vanished(self) -> None:
        """Closes the publishers that have vanished, so that no new query waits for them."""
        await self.close_publishers(lambda state: self.vanished(state, state.publishers))

    async def ask(self, question: Callable[[ClusterState], T]) -> T:
        """An answer from the state."""
        return await confirmed(self.service.ask(question))

    async def do(self, event: Event) -> None:
        """Handled and written."""
        await confirmed(self.service.do(event))

    async def wait(self, question: Callable[[ClusterState], T | None], wait_s: float) -> T | None:
        """The first answer, None if there is none in time."""
        try:
            return await asyncio.wait_for(asyncio.wrap_future(self.service.wait(question)), wait_s)
        except TimeoutError:
            return None

    def change(self, state: ClusterState) -> str:
        """Names the cluster's last change, in all terms of office."""
        return f"{self.service.term}.{state.changes}"

    def since(self, change: str) -> int:
        """The number of a change of this term; -1, before all, of another."""
        term, _, number = change.partition(".")
        known = term == str(self.service.term) and number.isascii() and number.isdecimal() and len(number) <= DIGITS_MAX
        return int(number) if known else -1

    async def files(self, query: CepQuery) -> FilesByStream:
        known = await self.ask(lambda state: dict(state.streams))
        return await run_in_threadpool(checked_files, query, known, self.config.data)

    async def figures(self, **question: Any) -> dict[str, Any]:
        return await run_in_threadpool(self.metrics.ask, **question)


def _api(request: Request) -> Api:
    api: Api = request.app.state.api
    return api


InjectedApi = Annotated[Api, Depends(_api)]
Asking = Annotated[Access, Depends(access_of)]
Wait = Annotated[bool, Query(description="Answer only when it is done.")]
Timeout = Annotated[float, Query(gt=0, le=WAIT_S_MAX, description="How long to wait at most, in seconds.")]
Until = Annotated[models.State | None, Query(description="Answer only when the query is in this state, or over.")]


async def confirmed(answer: Future[T]) -> T:
    try:
        return await asyncio.wait_for(asyncio.wrap_future(answer), CONFIRM_S)
    except TimeoutError:
        raise ClusterError(f"ZooKeeper did not confirm within {CONFIRM_S:g} s; it may still happen: look before you try again") from None
