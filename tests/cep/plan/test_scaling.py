"""Plans in which one subquery has another parallelism, and those that there are not."""

from __future__ import annotations

from typing import Any

import pytest

from cep.errors import QueryError
from cep.model.topology import NumaNode, Topology
from cep.plan.physical import PhysicalPlan, Worker
from cep.plan.planner import plan
from cep.plan.scaling import NOWHERE, scaled
from driver import TIME, Query, count, stream


def planned(second: str, sizes: dict[str, int], **options: Any) -> PhysicalPlan:
    """SQ1 reads, SQ2 counts by two columns, SQ3 by `second`."""
    read = stream("clicks", t="timestamp[ms]", key=int, ip=int, event_time="t", disorder="1s")
    made = Query("q").source(read).aggregate("first", TIME("1s"), by=["key", "ip"], n=count())
    made = made.aggregate("second", TIME("10s"), by=second, n=count()).output("out")
    query = made.options(recover="on-commit", parallelism=sizes, **{"pre_aggregation": "off"} | options).build()
    return plan(query, {}, [Worker("im-0", 0, 0, "")], Topology((NumaNode(0, (0,), 0),), ((10,),)))


@pytest.mark.parametrize("instances", [1, 2, 4])
def test_nothing_else_is_another(instances: int) -> None:
    before = planned("ip", {"SQ1": 1, "SQ2": 3, "SQ3": 1})
    after = scaled(before, "SQ2", instances)
    assert [each.parallelism for each in after.subqueries] == [1, instances, 1]
    assert [each for each in after.instances if each.subquery != "SQ2"] == [each for each in before.instances if each.subquery != "SQ2"]
    assert [each.im for each in after.instances_of("SQ2")] == ["im-0"] * min(3, instances) + [NOWHERE] * (instances - 3)
    assert after.query == before.query and after.notes == before.notes


def test_partial_results_would_begin() -> None:
    before = planned("ip", {"SQ1": 1, "SQ2": 1, "SQ3": 1}, pre_aggregation="auto")
    with pytest.raises(QueryError, match="would begin or cease to make partial results"):
        scaled(before, "SQ2", 3)
