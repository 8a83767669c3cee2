"""What is asked of the orchestrator for a subscription: which query puts its stream out, and what has become of that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cep.errors import CepError, ClusterError
from cep.world.clock import Clock
from driver.rest import Rest, Unreachable, path
from driver.streams.data_plane import DataPlane
from driver.streams.subscription_core import SubscriptionCore

WITHDRAW_S = 5.0
IDLE_NS = 1_000_000_000  # after this long without a message the orchestrator is asked what is the matter; no read waits for its answer
PRODUCES = frozenset(("ready", "running", "draining"))
_RUNNING, _GOING_ON, _OVER = PRODUCES | {"recovering"}, PRODUCES | {"ended"}, frozenset(("ended", "stopped", "failed"))

Answer = CepError | dict[str, Any]
"""Why nothing comes, or the query that was found."""


class ReadSilence:
    """How long nothing has come, over reads that wait for less each: a program that polls has to hear what became of the query, too."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.since = 0  # ns, by the steady clock; 0: something came last

    def lasts(self, waited_ns: int) -> bool:
        """Nothing came, for `waited_ns`. Is it time to ask what the matter is?"""
        now = self.clock.steady_ns()
        self.since = self.since or now - max(waited_ns, 0)
        if now - self.since < IDLE_NS:
            return False
        self.since = now
        return True


class Inquiry:
    """Asks in the thread of `rest.aside`, for no read waits for REST. An answer that matters goes to `say`."""

    def __init__(self, rest: Rest, plane: DataPlane, core: SubscriptionCore, say: Callable[[Answer], None]) -> None:
        self.rest, self.plane, self.core, self.say = rest, plane, core, say
        self.over: frozenset[tuple[str, int]] = frozenset()  # queries (and deployments) that were over when it was registered
        self.registered = False
        self.claim = plane.unique()  # of this process to the subscription

    def query(self, name: str) -> dict[str, Any]:
        """What the orchestrator says of a query. Raises NotFound."""
        return dict(self.rest.get(path("queries", name)))

    # A subscription before its query

    def register(self) -> None:
        """The orchestrator hands the subscription to the instances of its query when they are made."""
        options = self.core.options
        document: dict[str, Any] = {"id": self.core.id, "endpoint": self.plane.endpoint, "on_slow": options.on_slow, "keep": options.keep_s}
        if options.resumable:
            document |= {"resumable": True, "resume": self.core.token is not None, "claim": self.claim}
        self.over = frozenset((q["name"], q["epoch"]) for q in self._producing(_OVER))
        self.registered = True  # it may be, though the answer is lost
        answer = self.rest.post(path("streams", self.core.stream, "subscriptions"), document, again=True)
        self.core.holder = answer["holder"]

    def withdraw_aside(self) -> None:
        """Withdraws what was registered, without a wait."""
        if self.registered:
            self.rest.aside.ask((self, "withdraw"), self.withdraw)

    def withdraw(self) -> None:
        """Withdraws what was registered."""
        if not self.registered:
            return
        try:
            claimed = f"?claim={self.claim}" if self.core.options.resumable else ""
            self.rest.delete(path("streams", self.core.stream, "subscriptions", self.core.id) + claimed, timeout=WITHDRAW_S)
        except ClusterError:  # the orchestrator is away; it forgets the subscription with the query
            return

    def find(self) -> dict[str, Any] | None:
        """The query that puts the stream out, once it is there."""
        found = self._producing(_RUNNING | _OVER)
        return next((query for query in found if (query["name"], query["epoch"]) not in self.over), None)

    def _producing(self, states: frozenset[str]) -> list[dict[str, Any]]:
        """Queries in one of `states` that have our stream among their outputs."""
        names = [summary["name"] for summary in self.rest.get("/queries") if summary["state"] in states]
        found = [self.rest.get(path("queries", name)) for name in names]
        return [query for query in found if self.core.stream in query["outputs"]]

    # What the matter is

    def wonder(self) -> None:
        """Nothing has come for a while: is the query there yet, has it failed? Returns at once."""
        self.rest.aside.ask(self, self._inquire)

    def _inquire(self) -> None:
        """An orchestrator that is away is no answer, while the producers of the stream are there."""
        try:
            if self.core.query:
                self.judge(self.rest.get(path("queries", self.core.query), timeout=self.rest.patience_s))
            elif (found := self.find()) is not None:
                self.say(found)
        except Unreachable as away:
            self.doubt(away)
        except ClusterError:
            return
        except CepError as error:
            self.say(error)

    def judge(self, answer: dict[str, Any]) -> None:
        """What the orchestrator says of our query may be why nothing comes."""
        if (error := self.core.judge(answer)) is not None:
            self.say(error)
        elif self.core.astray or (answer.get("recovers", False) and answer["state"] in _GOING_ON):
            self.say(answer)

    def doubt(self, away: Unreachable) -> None:
        """The cluster does not answer."""
        gone = filter(self.plane.is_gone, self.core.sources)
        if (error := self.core.doubt(gone, str(away), away.refused)) is not None:
            self.say(error)
