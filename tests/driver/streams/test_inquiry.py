"""What is asked of the orchestrator for a subscription."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from cep.errors import QueryFailed
from cep.world.clock import ManualClock
from driver.streams.data_plane import DataPlane
from driver.streams.inquiry import IDLE_NS, Inquiry, ReadSilence
from driver.streams.producers import SubscriptionOptions
from driver.streams.subscription import Subscription
from driver.streams.subscription_core import SubscriptionCore
from tests.driver.streams.test_subscription import let_in
from tests.support.waiting import HANG_S


class Orchestrator:
    """Answers what it is asked for queries."""

    patience_s = 1.0

    def __init__(self, *queries: tuple[str, int, str]) -> None:
        self.aside = self
        self.queries = {name: {"name": name, "epoch": epoch, "state": state, "outputs": {"out": []}} for name, epoch, state in queries}

    def get(self, address: str, timeout: float = 0.0) -> object:
        return list(self.queries.values()) if address == "/queries" else self.queries[address.rpartition("/")[2]]

    def ask(self, asker: object, question: object) -> None:
        """At once, not aside."""
        question()  # type: ignore[operator]


@pytest.fixture
def plane() -> Iterator[DataPlane]:
    made = DataPlane.open()
    yield made
    made.close()


def inquiry(plane: DataPlane, *queries: tuple[str, int, str]) -> tuple[Inquiry, list[object]]:
    said: list[object] = []
    core = SubscriptionCore("out", "s", plane.endpoint, SubscriptionOptions())
    return Inquiry(Orchestrator(*queries), plane, core, said.append), said  # type: ignore[arg-type]


def test_a_query_deployed_anew_under_its_name_is_not_the_one_that_was_over(plane: DataPlane) -> None:
    made, said = inquiry(plane, ("q", 1, "ended"), ("later", 1, "accepted"))
    made.over = frozenset({("q", 1)})
    assert made.find() is None
    made.wonder()
    assert not said
    made.rest = Orchestrator(("q", 2, "running"))  # type: ignore[assignment]
    found = made.find()
    assert found is not None and found["epoch"] == 2
    made.wonder()
    assert said == [found]


def test_what_has_become_of_its_query_is_said_if_it_matters(plane: DataPlane) -> None:
    made, said = inquiry(plane, ("q", 1, "running"))
    made.core.query, made.core.epoch = "q", 1
    made.rest.queries["q"]["outputs"] = {"out": [{}]}  # type: ignore[attr-defined]
    made.wonder()
    assert not said
    made.rest.queries["q"]["state"] = "failed"  # type: ignore[attr-defined]
    made.wonder()
    (error,) = said
    assert isinstance(error, QueryFailed)


def test_nothing_is_withdrawn_that_was_not_registered(plane: DataPlane) -> None:
    made, _ = inquiry(plane)
    made.withdraw()  # this orchestrator cannot delete
    made.withdraw_aside()
    made.registered = True
    with pytest.raises(AttributeError, match="delete"):
        made.withdraw_aside()


def test_a_program_that_polls_hears_what_became_of_the_query_too(plane: DataPlane) -> None:
    failed = Orchestrator(("q", 1, "failed"))
    made = let_in(Subscription(failed, plane, "out", SubscriptionOptions()))  # type: ignore[arg-type]
    made.core.epoch = 1
    deadline = time.monotonic() + HANG_S
    with pytest.raises(QueryFailed):
        while time.monotonic() < deadline:
            with suppress(TimeoutError):
                made.next_batch(timeout=0.02)


def test_silence_is_as_long_as_nothing_came_and_is_told_now_and_then() -> None:
    clock = ManualClock(5 * IDLE_NS)
    silence = ReadSilence(clock)
    assert silence.lasts(IDLE_NS), "a read that waited for so long by itself"
    assert not silence.lasts(0)
    clock.advance(IDLE_NS)
    assert silence.lasts(10) and not silence.lasts(10)
    silence.since = 0  # something came
    clock.advance(IDLE_NS)
    assert not silence.lasts(10)
