"""REST of a simulated orchestrator: the real routes as coroutines, called without HTTP, in an event loop of virtual time.

What a route is given and what it answers are JSON. Routes that read files, documents or figures use threads, and are not among these.
"""

from __future__ import annotations

import asyncio
import json
import selectors
from collections.abc import Callable
from contextvars import Context
from functools import partial
from typing import Any, TypeVarTuple
from urllib.parse import parse_qs, unquote, urlsplit

from cep.errors import CepError
from cep.model import query as queries
from cep.service.access import EVERYBODY
from orchestrator.rest import host_routes, many, problems, query_routes, stream_routes
from orchestrator.rest.api import Api
from orchestrator.rest.models import ClosingOf, MoveRequest, OpeningOf, RebalanceRequest, ScaleRequest, SubscriptionRequest
from simulation.clock import ProcessClock
from simulation.schedule import MS, S, SeededSchedule, Task

#: How long a request, or its answer, is under way, in ns.
WAY_NS = (50_000, 5 * MS)
#: What a client hears where no process listens, and where one has died that had its request.
REFUSED, BROKEN_OFF = "refused", "broken off"

Args = TypeVarTuple("Args")
#: Is it an answer, and what was said.
Answered = Callable[[bool, Any], None]


class _NothingToSelect(selectors.SelectSelector):
    """An event loop's descriptors are of no interest: nothing comes from outside."""

    def select(self, timeout: float | None = None) -> list[Any]:
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An asyncio loop of virtual time that runs while there is something to do, in the turns of a task."""

    def __init__(self, schedule: SeededSchedule, clock: ProcessClock) -> None:
        self.task: Task | None = None
        self.schedule, self._soon = schedule, 0
        self._errors: list[Exception] = []  # of callbacks, which asyncio would only tell
        super().__init__(_NothingToSelect())
        self.set_exception_handler(lambda _, told: self._errors.append(told.get("exception") or AssertionError(told["message"])))
        self.task = Task(schedule, self.turn, clock)

    def time(self) -> float:
        return self.schedule.now_ns / S

    def turn(self) -> None:
        while self._soon:
            self._soon = 0
            super().call_soon(self.stop)
            self.run_forever()
        if self._errors:
            raise self._errors[0]

    def _wake(self, time_ns: int = 0) -> None:
        if self.task is not None:
            self.task.wake(time_ns)

    def call_soon(self, callback: Callable[[*Args], object], *args: *Args, context: Context | None = None) -> asyncio.Handle:
        self._soon += 1
        self._wake()
        return super().call_soon(callback, *args, context=context)

    def call_soon_threadsafe(self, callback: Callable[[*Args], object], *args: *Args, context: Context | None = None) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Args], object], *args: *Args, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = super().call_at(when, callback, *args, context=context)
        self.schedule.at(int(when * S) + 1, self._timer)
        return handle

    def end(self) -> None:
        """It has no more turns."""
        if self.task is not None:
            self.task.end()
        self.close()

    def _timer(self) -> None:
        self._soon += 1
        self._wake()


class FrontDoor:
    """What clients ask an orchestrator, and its answers, with the time that both are under way. What a killed one was asked is broken off,
    and nothing is said of whether it was obeyed."""

    def __init__(self, schedule: SeededSchedule, api: Api, name: str, clock: ProcessClock) -> None:
        self.schedule, self.api, self.name = schedule, api, name
        self.loop = VirtualLoop(schedule, clock)
        self.is_open = True
        self._asked: dict[Answered, None] = {}

    def request(self, clock: ProcessClock, method: str, address: str, document: Any, answered: Answered) -> None:
        """`answered` is called with the answer, or the problem document where it is none."""
        self.schedule.note(self.name, f"REST: {method} {address}")
        if not self.is_open:
            self.schedule.at(clock.now_ns + WAY_NS[0], lambda: answered(False, REFUSED))
            return
        self._asked[answered] = None
        arrives_ns = clock.now_ns + self.schedule.choose.randint(*WAY_NS)
        self.schedule.at(arrives_ns, lambda: self._begin(method, address, json.dumps(document), answered))

    def _begin(self, method: str, address: str, body: str, answered: Answered) -> None:
        if not self.is_open:
            return
        route = self.loop.create_task(self._route(method, address, json.loads(body)))
        route.add_done_callback(lambda done: self._answer(done, answered))

    def _answer(self, done: asyncio.Task[Any], answered: Answered) -> None:
        if done.cancelled() or not self.is_open:
            return
        error = done.exception()
        if error is not None and not isinstance(error, CepError):
            raise error
        found = done.result() if error is None else problems.problem_of(error).model_dump(mode="json")
        answer = error is None, json.loads(json.dumps(found))

        def arrived() -> None:
            if self._asked.pop(answered, 0) is None:
                answered(*answer)

        self.schedule.at(self.schedule.now_ns + self.schedule.choose.randint(*WAY_NS), arrived)

    async def _route(self, method: str, address: str, document: Any) -> Any:
        split = urlsplit(address)
        asked = {key: values[0] for key, values in parse_qs(split.query, keep_blank_values=True).items()}
        match method, *map(unquote, split.path.strip("/").split("/")):
            case "POST", "publishers":
                return await many.open_publishers([OpeningOf(**each) for each in document], self.api)
            case "GET", "publishers":
                return await many.news_for_publishers(asked["endpoint"], self.api, EVERYBODY, asked["after"], float(asked["wait"]))
            case "POST", "publishers:close":
                return await many.close_publishers([ClosingOf(**each) for each in document], self.api)
            case "GET", "queries":
                return await query_routes.list_queries(self.api)
            case "GET", "queries", name:
                return await query_routes.inspect(name, self.api, figures=False)
            case "POST", "queries", name, "start":
                return await query_routes.start_query(name, self.api)
            case "POST", "queries", name, "stop":
                return await query_routes.stop_query(name, self.api)
            case "POST", "queries", name, "rebalance":
                return await query_routes.rebalance(name, RebalanceRequest(**document), self.api)
            case "POST", "queries", name, "move":
                return await query_routes.move(name, MoveRequest(**document), self.api)
            case "POST", "queries", name, "scale":
                return await query_routes.scale(name, ScaleRequest(**document), self.api)
            case "POST", "queries", name, "upgrade":
                return await query_routes.upgraded(name, queries.from_json(document), self.api, dry_run=False, timeout=None)
            case "POST", "hosts", name, "evacuate":
                return await host_routes.evacuate(name, self.api, asked["wait"] == "true", float(asked["timeout"]))
            case "POST", "streams", name, "subscriptions":
                return (await stream_routes.subscribe(name, SubscriptionRequest(**document), self.api)).model_dump()
            case "DELETE", "streams", name, "subscriptions", subscription:
                return await stream_routes.unsubscribe(name, subscription, self.api, asked.get("claim"))
        raise AssertionError(f"the simulation has no route {method} {address}")

    def close(self) -> None:
        if not self.is_open:
            return
        self.is_open = False
        for answered in self._asked:
            self.schedule.at(self.schedule.now_ns + WAY_NS[0], partial(answered, False, BROKEN_OFF))
        self._asked = {}
        self.loop.set_exception_handler(lambda *_: None)  # what is cut off in the middle may end as it likes
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.turn()
        self.loop.end()


__all__ = ["FrontDoor"]
