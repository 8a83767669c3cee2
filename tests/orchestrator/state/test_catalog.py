"""Subscriptions of queries that recover, as the orchestrator knows them."""

from __future__ import annotations

import pytest

from cep.errors import NotFound
from orchestrator.records import SubscriptionRecord
from orchestrator.state.events import Subscribe, Unsubscribe
from tests.orchestrator.state.test_recovery import at_home


def test_a_subscription_that_is_resumed_has_another_holder() -> None:
    cluster = at_home()
    first, second = (SubscriptionRecord("per_ip", "s1", f"ipc:///{claim}", resumable=True, claim=claim) for claim in ("a", "b"))

    def holders() -> set[tuple[str, int]]:
        return {(each["endpoint"], each["holder"]) for a in cluster.assignments().values() for each in a["subscriptions"]}

    with pytest.raises(NotFound, match="has no subscription 's1' to resume: it was given up, or its query is over"):
        cluster.do(Subscribe(second, resumes=True))
    cluster.do(Subscribe(first))
    cluster.do(Subscribe(first))  # it has asked again
    assert holders() == {("ipc:///a", 0)}
    cluster.do(Subscribe(second, resumes=True))
    cluster.do(Subscribe(second, resumes=True))
    assert holders() == {("ipc:///b", 1)}
    cluster.do(Unsubscribe("per_ip", "s1", "a"))  # it was thought dead, and gives up what is not its own any more
    assert holders() == {("ipc:///b", 1)}
    cluster.do(Subscribe(first, resumes=True))
    assert holders() == {("ipc:///a", 2)}
    cluster.do(Unsubscribe("per_ip", "s1", "a"))
    assert not holders()
