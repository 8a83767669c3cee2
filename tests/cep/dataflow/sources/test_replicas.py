"""Replicas: whole copies of a query, between which publishers choose by key. The answers are those of one copy."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep.dataflow.channel import batch_bytes
from cep.dataflow.local_wires import Script
from cep.dataflow.sources.lateness import stamp_of
from cep.dataflow.sources.publishers import Closing, Published
from cep.dataflow.sources.replicas import shares
from cep.elements import MIN_TIME
from cep.errors import PlacementError, QueryError
from cep.kernels.jit import interpreted
from cep.model.query import Query
from cep.model.streams import Stream
from cep.plan.physical import PhysicalPlan
from cep.plan.route import Route
from driver import TIME, count, first, stream, sum_
from driver import Query as Builder
from tests.reference import Partition, assert_same_answer
from tests.strategies import Case, Execution, executions
from tests.strategies.queries import inputs_of, published_queries
from tests.support.one_cluster import uncompiled
from tests.support.plans import one_node, planned
from tests.support.running import cut_of, expected_of, outputs_of, publishers, readers_of, run

pytestmark = pytest.mark.timeout(900)


def scripts_by_key(stream: Stream, partitions: list[Partition], made: PhysicalPlan, execution: Execution) -> dict[str, Script]:
    """What publishers send to the readers of all replicas: to each replica the rows whose keys it has."""
    choose = random.Random(execution.seed)
    edge = next(edge for edge in made.edges if edge.is_input and edge.consumer == stream.name)
    route = Route.of(made, edge)
    if route is None:
        return publishers(stream, partitions, readers_of(made, stream.name), execution.batch_rows, choose)
    readers = [i for i in made.instances if i.subquery == made.subquery_of(stream.name).name]
    scripts: dict[str, Script] = {}
    for partition in partitions:
        script: dict[int, list[tuple[object, int, int]]] = {reader.index: [] for reader in readers}
        before = MIN_TIME
        for record, batch in cut_of(stream, partition, execution.batch_rows):
            after = max([before, *batch.time[batch.time > MIN_TIME].tolist()])
            watermark = stamp_of(after, stream.disorder or 0)
            for replica, rows, stamp in shares(route, batch, before, after, stream.disorder or 0, stream.times, record):
                to = choose.choice([reader.index for reader in readers if reader.replica == replica])
                script[to].append((Published(rows, stamp, record), batch_bytes(rows), watermark))
            before = after
        for reader in script:
            script[reader].append((Closing(f"p{partition.index}", partition is partitions[-1]), 0, MIN_TIME))
        scripts[f"p{partition.index}"] = script
    return scripts


@settings(max_examples=40)  # one in seven may have replicas; that the others are refused is no reason to draw them again
@given(published_queries(), executions(), st.integers(2, 3), st.data())
def test_replicas_answer_as_one_copy_does(query: Query, execution: Execution, replicas: int, data: st.DataObject) -> None:
    options = replace(execution.options, replicas=replicas, parallelism=None)
    try:
        made = planned(replace(query, options=options), one_node(4), numa=False)
    except (QueryError, PlacementError):
        return
    case = Case(query, data.draw(inputs_of(query)))
    scripts = {name: scripts_by_key(stream, list(case.inputs[name]), made, execution) for name, stream in made.streams.items()}
    with interpreted():
        expected = expected_of(case.query, case.inputs)
        ran = run(made, execution, scripts)
    assert_same_answer(outputs_of(case.query, expected), ran.outputs)
    assert ran.late == sum(map(len, expected.late.values()))
    assert ran.dead == expected.dead_counts()


@pytest.mark.long  # `tests/hibench/test_hosts.py` has replicas on hosts
def test_on_a_real_cluster() -> None:
    """Two copies on two instance managers; one publisher sends each the rows of its keys, late ones too."""
    rows = [{"k": f"k{i % 7}", "t": 1_000 * i - (5_000 if i % 11 == 0 else 0), "v": i} for i in range(2_000)]
    answers = {}
    with uncompiled(2, numa=False) as cluster:
        for replicas in (1, 2):
            source = stream(f"s{replicas}", k=str, t="timestamp[ms]", v=int, event_time="t", disorder="2s")
            built = Builder(f"q{replicas}").source(source).aggregate("sums", TIME("60s"), by="k", n=count(), v=sum_("v"), first=first("v"))
            running = cluster.deploy(built.output(f"out{replicas}").late(f"late{replicas}").options(replicas=replicas))
            found, late = running.subscribe(f"out{replicas}"), running.subscribe(f"late{replicas}")
            with cluster.publisher(f"s{replicas}") as out:
                for start in range(0, len(rows), 100):
                    out.send(rows[start : start + 100])
            answers[replicas] = tuple(sorted(map(str, pa.Table.from_batches(list(each)).to_pylist())) for each in (found, late))
        assert {placed["replica"] for placed in running.status()["placed"]} == {0, 1}
    assert answers[1] == answers[2]
    assert len(answers[1][1]) > 100
