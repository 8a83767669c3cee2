"""What N instances had, for each of M: everything goes to one of them, and what was promised is the least of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cep.dataflow.dead_letters import Letter
from cep.dataflow.layout import Layout
from cep.dataflow.meter import Account
from cep.dataflow.movement.figures import Figures, LetterFigures, NodeFigures, OutputFigures, Promise
from cep.dataflow.movement.instance_move import FIGURES, move_document, value_of
from cep.elements import State
from cep.kernels.columns import columns_from_arrow
from cep.plan.moving import is_dealt_anew, with_table
from cep.plan.needed import restrict
from cep.plan.physical import PhysicalPlan
from cep.plan.scaling import scaled
from driver import TIME, Query, QueryError, count, files, stream
from instance_manager.recovery.scaled import Shared, needed, of_its_own
from tests.support.plans import one_node, planned

THERE = 3


def plan_of(instances: int) -> PhysicalPlan:
    """SQ1 reads, SQ2 counts by two columns, SQ3 by one."""
    read = stream("s", t="timestamp[ms]", key=int, ip=str, event_time="t", disorder="1s")
    made = Query("q").source(read).aggregate("first", TIME("1s"), by=["key", "ip"], n=count())
    made = made.aggregate("second", TIME("10s"), by="ip", n=count()).output("out")
    options: dict[str, Any] = {"parallelism": {"SQ1": 2, "SQ2": THERE, "SQ3": 1}, "pre_aggregation": "off", "recover": "on-commit"}
    there = planned(made.options(**options).build())
    return there if instances == THERE else scaled(there, "SQ2", instances)


def figures(j: int, inputs: Sequence[Sequence[Promise]]) -> Figures:
    """Of instance j: numbers by which it is known again."""
    account = Account(10**j, 2 * 10**j, 3, 4, 5)
    letters = LetterFigures({"first": 10**j}, [Letter("first", f"of {j}", "", "", "")])
    output = OutputFigures(account, 100 + j, 7 * 10**j, 10**j, 0, 11, None, None)
    return Figures(
        j, {"CheckpointBarrier": 5 + j}, account, [NodeFigures("first", account, 10**j, 10**j)], inputs, {}, [output], letters, None
    )


def piece(j: int, inputs: Sequence[Sequence[Promise]], over: bool = False) -> list[State]:
    return [move_document(FIGURES, figures(j, inputs).to_json()), move_document("over", over), move_document("sinks", [])]


def promise(time: int, idle: bool = False, ended: bool = False) -> Promise:
    return Promise(time, idle, ended)


def pieces(over: Sequence[bool] = (False,) * THERE) -> dict[int, list[State]]:
    """Each instance of SQ2 hears from both of SQ1: instance j has been promised 10·j + i by instance i."""
    return {j: piece(j, [[promise(10 * j + i) for i in range(2)]], over[j]) for j in range(THERE)}


def told(before: PhysicalPlan, after: PhysicalPlan, subquery: str, index: int, found: Mapping[int, Sequence[State]]) -> dict[str, Any]:
    return {state.part: value_of(state) for state in of_its_own(before, after, subquery, index, found)}


@pytest.mark.parametrize("instances", [1, 2, 5])
def test_what_was_counted_is_counted_once(instances: int) -> None:
    before, after = plan_of(THERE), plan_of(instances)
    assert is_dealt_anew(before, after) and not is_dealt_anew(before, before)
    assert needed(before, after, "SQ2", 0) == [0, 1, 2] and needed(before, after, "SQ1", 1) == [1]
    all_ = [Figures.from_json(told(before, after, "SQ2", k, pieces())[FIGURES]) for k in range(instances)]
    assert sum(each.account.rows for each in all_) == 111 and sum(each.nodes[0].rows_out for each in all_) == 111
    assert sum((Counter(each.letters.counts) for each in all_), Counter[str]()) == {"first": 111}
    assert sorted(letter.reason for each in all_ for letter in each.letters.waiting) == ["of 0", "of 1", "of 2"]
    assert sum(each.outputs[0].discarded for each in all_) == 777
    for each in all_:
        assert (each.since, each.barriers, each.outputs[0].sent_until) == (2, {"CheckpointBarrier": 7}, 100)
        assert each.nodes[0].name == "first"


@pytest.mark.parametrize("instances", [2, 5])
def test_each_hears_from_every_sender_what_that_has_promised_all(instances: int) -> None:
    found = [Figures.from_json(told(plan_of(THERE), plan_of(instances), "SQ2", k, pieces())[FIGURES]) for k in range(instances)]
    assert all([*each.inputs[0]] == [promise(0), promise(1)] for each in found), "the least of what it told any instance"


@pytest.mark.parametrize(
    ("of_senders", "wanted"),
    [
        ((promise(7), promise(5), promise(9)), promise(5)),
        ((promise(7), promise(1, idle=True), promise(9)), promise(7)),  # what an idle one promised says nothing
        ((promise(7, idle=True), promise(1, idle=True), promise(9, idle=True)), promise(1, idle=True)),
        ((promise(7), promise(2, ended=True), promise(9)), promise(7)),  # nothing comes of one that has ended
        ((promise(7, ended=True), promise(2, ended=True), promise(9, ended=True)), promise(2, ended=True)),
        ((promise(3, ended=True), promise(8, idle=True), promise(9, ended=True)), promise(8, idle=True)),
    ],
)
def test_behind_it_all_new_senders_promise_the_least_of_the_old_ones(of_senders: tuple[Promise, ...], wanted: Promise) -> None:
    before, after = plan_of(THERE), plan_of(2)
    found = Figures.from_json(told(before, after, "SQ3", 0, {0: piece(0, [of_senders])})[FIGURES])
    assert [*found.inputs[0]] == [wanted, wanted]


@pytest.mark.parametrize("over", [(True, True, True), (True, False, True)])
def test_it_is_over_if_all_were(over: tuple[bool, ...]) -> None:
    assert told(plan_of(THERE), plan_of(2), "SQ2", 0, pieces(over))["over"] == all(over)


@pytest.mark.parametrize("instances", [1, 2, 5])
def test_each_row_of_state_is_kept_by_one_of_them(instances: int) -> None:
    before, after = plan_of(THERE), plan_of(instances)
    schema = restrict(Layout(before).columns("s"), ("key", "ip"))
    keys = [(key, f"10.0.0.{key * 7 % 5} is an address") for key in range(200)]
    rows = pa.record_batch({"key": [key for key, _ in keys], "ip": [ip for _, ip in keys]})
    own = {j: [State("first", "groups", 0, rows.slice(j * 67, 67))] for j in range(THERE)}
    kept = Counter[tuple[int, str]]()
    for index in range(instances):
        shared = Shared(after, "SQ2", index, own)
        for part in shared.parts("first"):
            columns = columns_from_arrow(part.batch, schema)
            mine = np.flatnonzero(shared.keep("first")(0, columns))
            kept.update((each["key"], each["ip"]) for each in part.batch.take(mine).to_pylist())
    assert kept == Counter(keys)


def test_by_another_table_each_row_goes_where_its_bucket_is_and_the_rest_stays() -> None:
    """SQ2 has as many instances as before; the first has all buckets now."""
    before = plan_of(THERE)
    after = with_table(before, "SQ2", [0] * before.buckets)
    assert is_dealt_anew(before, after) and needed(before, after, "SQ2", 1) == [0, 1, 2] and needed(before, after, "SQ3", 0) == [0]
    rows = pa.record_batch({"key": list(range(60)), "ip": [f"10.0.0.{i}" for i in range(60)]})
    own = {j: [State("first", "groups", 0, rows.slice(j * 20, 20))] for j in range(THERE)}
    schema, kept = restrict(Layout(before).columns("s"), ("key", "ip")), []
    for index in range(THERE):
        shared = Shared(after, "SQ2", index, own)
        kept.append(sum(int(shared.keep("first")(0, columns_from_arrow(part.batch, schema)).sum()) for part in shared.parts("first")))
    assert kept == [60, 0, 0]
    for index in range(THERE):
        found = told(before, after, "SQ2", index, pieces((False, True, False)))
        figures_ = Figures.from_json(found[FIGURES])
        assert figures_.account.rows == 10**index and found["over"] == (index == 1), "what is nobody's stays where it is"
        assert [*figures_.inputs[0]] == [promise(0), promise(1)] and figures_.buckets is None


def test_partial_results_of_an_instance_go_to_one() -> None:
    rows = pa.record_batch({"n": [1, 2]})
    own = {j: [State("second (partial)", "groups", 0, rows)] for j in range(THERE)}
    found = [len(Shared(plan_of(2), "SQ2", index, own).parts("second (partial)")) for index in range(2)]
    assert found == [2, 1]


def test_replicas_deal_what_their_own_instances_had(tmp_path: Path) -> None:
    """Each has groups of its own, and one table of buckets is that of all."""
    read = files("s", paths=str(tmp_path), t="timestamp[ms]", key=int, ip=str, event_time="t", disorder="1s", partitioned_by="key")
    made = Query("q").source(read).aggregate("first", TIME("1s"), by=["key", "ip"], n=count()).output("out")
    options: dict[str, Any] = {"parallelism": {"SQ1": 1, "SQ2": 2}, "pre_aggregation": "off", "recover": "on-commit", "replicas": 2}
    before = planned(made.options(**options).build(), one_node(4), files={"s": (("a", 1), ("b", 1))})
    after = with_table(before, "SQ2", [1] * before.buckets)
    assert [needed(before, after, "SQ2", index) for index in range(4)] == [[0, 1], [0, 1], [2, 3], [2, 3]]
    assert needed(before, after, "SQ1", 1) == [1]
    rows = pa.record_batch({"key": list(range(80)), "ip": [f"10.0.0.{i}" for i in range(80)]})
    schema, kept = restrict(Layout(before).columns("s"), ("key", "ip")), []
    for index in range(4):
        own = {j: [State("first", "groups", 0, rows.slice(j * 20, 20))] for j in needed(before, after, "SQ2", index)}
        shared = Shared(after, "SQ2", index, own)
        kept.append(sum(int(shared.keep("first")(0, columns_from_arrow(part.batch, schema)).sum()) for part in shared.parts("first")))
    assert kept == [0, 40, 0, 40]
    with pytest.raises(QueryError, match="its query has replicas, each with groups of its own"):
        scaled(before, "SQ2", 3)
