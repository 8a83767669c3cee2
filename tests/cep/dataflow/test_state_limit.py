"""The state of a query is bounded by the cluster, and by the query itself where that is less."""

from __future__ import annotations

import pytest

from cep.dataflow.local import LocalRun
from cep.errors import QueryError
from cep.model.topology import Topology
from cep.plan.physical import Worker
from cep.plan.planner import plan
from tests.support.visits import windows


@pytest.mark.parametrize(
    ("own", "of_cluster", "counts"), [(None, 5000, 5000), (1000, 5000, 1000), (9000, 5000, 5000)], ids=["none", "less", "more"]
)
def test_the_less_of_the_two_counts(own: int | None, of_cluster: int, counts: int) -> None:
    made = plan(windows("q", state_bytes_max=own).build(), {}, [Worker("im-0", 0, 0, "ipc:///im-0")], Topology.one_node([0]))
    run = LocalRun(made, {}, state_limit=of_cluster)
    limits = {node.stateful.state_limit for each in run.instances for node in each.nodes if node.stateful is not None}  # type: ignore[attr-defined]
    assert limits == {counts}


def test_options() -> None:
    assert windows("q").options(state_bytes_max=1 << 20).build().options.state_bytes_max == 1 << 20
    assert windows("q").build().options.state_bytes_max is None
    for odd in (0, -1, 1.5, True, "1", (1 << 40) + 1):
        with pytest.raises(QueryError, match="state_bytes_max: expected"):
            windows("q").options(state_bytes_max=odd)
