"""Files of which each has keys of its own: replicas of a query read files of their own, and answer as one copy does."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import nan
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st

from cep.errors import DataError, QueryError
from cep.kernels.jit import interpreted
from cep.model.query import Options, Query
from cep.model.schema import Schema
from cep.model.streams import ArrowFiles, Stream, TextFiles, from_json, to_json
from cep.plan.lineage import common_key
from cep.plan.physical import PhysicalPlan
from cep.plan.sources import FileStream
from cep.plan.split import topological
from driver import TIME, col, count, files, sql, sum_
from driver import Query as Builder
from numa_cep import testing
from tests.cep.plan.test_balancers import parallelism
from tests.reference import Partition, assert_same_answer
from tests.strategies import EPOCHS, Execution, FileCase, executions
from tests.strategies.queries import makes_text_of_state, queries
from tests.strategies.streams import rows, streams
from tests.support.plans import one_node, planned
from tests.support.running import Ran, expected_of, outputs_of, run

PATHS = ("a", "b", "c")
EXECUTION = Execution(Options(), (1,), (), (), 1 << 20, 0)
Rows = list[tuple[Any, ...]]


@st.composite
def partitioned(draw: st.DrawFn) -> tuple[FileCase, list[Partition]]:
    """A query that may have replicas, over Arrow files of which each has keys of its own; and the partitions in them."""
    stream = draw(streams("s"))
    query = draw(queries([replace(stream, files=ArrowFiles(PATHS))], 3))
    assume(not makes_text_of_state(query))
    key = common_key(tuple(topological(query).values()))
    assume(key.obstacle is None and key.fields.get("s"))
    by = tuple(draw(st.lists(st.sampled_from(key.fields["s"]), min_size=1, unique=True)))
    declared = replace(query.streams[0], partitioned_by=by)
    found = dealt(draw(rows(stream, draw(st.sampled_from(EPOCHS)), 30)), stream, by)
    part = draw(st.integers(1, 8))
    cut = [(path, each[start : start + part]) for path, each in found.items() for start in range(0, len(each), part)]
    case = FileCase(replace(query, streams=(declared,)), {path: written(each, stream, part) for path, each in found.items()})
    return case, [Partition(index, each, file=path) for index, (path, each) in enumerate(cut)]


def dealt(found: Rows, stream: Stream, by: Sequence[str]) -> dict[str, Rows]:
    """By path: the rows of a key are in one file."""
    places, numbers = [stream.schema.names.index(name) for name in by], dict[tuple[object, ...], int]()
    files_: dict[str, Rows] = {path: [] for path in PATHS}
    for each in found:
        key = tuple("nan" if each[place] != each[place] else each[place] for place in places)
        files_[PATHS[numbers.setdefault(key, len(numbers)) % len(PATHS)]].append(each)
    return files_


def written(found: Rows, stream: Stream, part: int) -> bytes:
    table = pa.Table.from_pylist([dict(zip(stream.schema.names, each, strict=True)) for each in found], stream.schema.arrow)
    out = io.BytesIO()
    with pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table, max_chunksize=part)
    return out.getvalue()


def case_plan(case: FileCase, replicas: int, execution: Execution, folder: Path = Path()) -> PhysicalPlan:
    """On one node, which they share."""
    found = tuple((str(folder / path), len(data)) for path, data in sorted(case.files.items()))
    options = replace(execution.options, replicas=replicas, parallelism=None, pre_aggregation="auto")
    return planned(replace(case.query, options=options), one_node(4), files={"s": found})


def run_copies(case: FileCase, replicas: int, folder: Path, execution: Execution = EXECUTION) -> Ran:
    for path, data in case.files.items():
        (folder / path).write_bytes(data)
    return run(case_plan(case, replicas, execution, folder), execution, {}, read_bytes=execution.batch_rows[0] * 100)


@settings(max_examples=40)
@given(partitioned(), executions(), st.integers(2, 4))
def test_replicas_answer_as_one_copy_does(
    tmp_path_factory: pytest.TempPathFactory, drawn: tuple[FileCase, list[Partition]], execution: Execution, replicas: int
) -> None:
    case, partitions = drawn
    try:
        case_plan(case, replicas, execution)
    except QueryError:  # what a pattern puts out beside its matches has no key of the stream
        reject()
    with interpreted():
        expected = expected_of(case.query, {"s": partitions})
        ran = run_copies(case, replicas, tmp_path_factory.mktemp("files"), execution)
    assert_same_answer(outputs_of(case.query, expected), ran.outputs)
    assert ran.late == sum(map(len, expected.late.values()))
    assert ran.dead == expected.dead_counts()


def test_files_are_dealt_by_their_size() -> None:
    sizes = {"a": 5, "b": 9, "c": 4, "d": 8, "e": 1}
    stream = files("s", k=int, paths="*", partitioned_by="k")
    described = FileStream(stream, tuple(sizes.items()), 3)
    found = [described.files_of(replica) for replica in range(3)]
    assert found == [(("b", 9),), (("d", 8), ("e", 1)), (("a", 5), ("c", 4))]
    assert described.among_replicas(("k",)) == "each replica reads files of its own (1, 2, 2)"
    assert FileStream(stream, tuple(sizes.items()), 1).among_replicas(("k",)) == ""


FOUND_IN_TWO: Mapping[str, tuple[dict[str, Rows], str]] = {
    "NULL": ({"a": [(1.0, 1), (2.0, 2)], "b": [(None, 3)], "c": [(3.0, 4), (0.0, 5), (None, 6)]}, r"k=None are in '.*b' and in '.*c'"),
    "NaN": ({"a": [(nan, 1)], "b": [(1.0, 2), (nan, 2)], "c": []}, r"k='NaN' are in '.*a' and in '.*b'"),
    "zero": ({"a": [(0.0, 1)], "b": [(1.0, 2)], "c": [(-0.0, 3)]}, r"k=-?0.0 are in '.*a' and in '.*c'"),
}


@pytest.mark.parametrize("part", [1, 8])
@pytest.mark.parametrize("case", FOUND_IN_TWO)
def test_a_key_in_two_files_is_named(case: str, part: int, tmp_path: Path) -> None:
    """Behind the first record batch, too."""
    contents, message = FOUND_IN_TWO[case]
    stream = Stream("s", Schema.of({"k": "float64?", "v": int}), files=ArrowFiles(PATHS), partitioned_by=("k",))
    query = Builder("q").source(stream).deduplicate("d", by="k", ttl="1h").output("out").build()
    found = FileCase(query, {path: written(each, stream, part) for path, each in contents.items()})
    with pytest.raises(DataError, match=f"partitioned by k, but rows with {message}"):
        run_copies(found, 2, tmp_path)
    rows_ = sum(map(len, contents.values()))
    assert len(run_copies(found, 1, tmp_path).outputs["out"]) == rows_ - 1
    plain = Builder("q").source(stream).filter("f", col("v") > 0).output("out").build()
    assert len(run_copies(replace(found, query=plain), 2, tmp_path).outputs["out"]) == rows_, "without state it does not matter"


def test_of_lines_as_much_is_looked_at_as_a_beginning_needs(tmp_path: Path) -> None:
    """The key that is in both files lies behind it in the first."""
    stream = Stream("s", Schema.of({"k": int}), files=TextFiles(("a", "b")), partitioned_by=("k",))
    far = b"".join(b"%d\n" % i for i in range(100_000))
    query = Builder("q").source(stream).deduplicate("d", by="k", ttl="1h").output("out").build()
    at_once = replace(EXECUTION, batch_rows=(1 << 16,))
    assert run_copies(FileCase(query, {"a": far, "b": b"99999\n"}), 2, tmp_path, at_once)
    with pytest.raises(DataError, match="k=99 are in"):
        run_copies(FileCase(query, {"a": far, "b": b"99\n"}), 2, tmp_path, at_once)


# --- what is declared ---------------------------------------------------------------------------------------------------


WRONG: Mapping[str, tuple[dict[str, Any], str]] = {
    "no such field": ({"partitioned_by": "j"}, "partitioned_by of stream 's': no field 'j'"),
    "groups that it does not hold together": ({"partitioned_by": ("k", "v")}, "its groups by k; rows of one group may be in several files"),
    "nothing": ({}, "partitioned_by k"),
}


def grouped(declared: Stream) -> Query:
    return (
        Builder("q").source(declared).aggregate("a", TIME("1s"), by="k", n=count(), v=sum_("v")).output("out").options(replicas=2).build()
    )


def over(folder: Path, declared: Mapping[str, Any]) -> Stream:
    types = {"t": "timestamp[us]", "k": int, "v": int}
    return files("s", types, paths=str(folder / "*.arrow"), format="arrow", event_time="t", disorder="0s", **declared)


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_hold_is_refused(case: str, tmp_path: Path) -> None:
    declared, message = WRONG[case]
    with pytest.raises(QueryError, match="stream 's'") as raised:
        planned(grouped(over(tmp_path, declared)), files={"s": (("x", 1),)})
    assert message in raised.value.message


def test_streams_that_meet_are_refused(tmp_path: Path) -> None:
    left, right = (replace(over(tmp_path, {"partitioned_by": "k"}), name=name) for name in "st")
    joined = Builder("q").source(left).interval_join("j", right, "-1s", "1s", on="k", prefix="r_").output("out")
    with pytest.raises(QueryError, match="operator 'j' brings rows of stream 's' together with those of 't'"):
        joined.options(replicas=2).build()
    assert parallelism(planned(joined.build(), files={"s": (("x", 1),), "t": (("y", 1),)}))["SQ1"] == 2


def test_a_published_stream_has_no_need_of_it() -> None:
    with pytest.raises(QueryError, match="stream 's' is published, and its publishers choose among replicas by any key"):
        Stream("s", Schema.of({"k": int}), partitioned_by=("k",))


def test_lists_are_no_keys() -> None:
    with pytest.raises(QueryError, match=r"partitioned_by of stream 's': field k: .* is a list, no key"):
        Stream("s", Schema.of({"k": "list<int64>"}), files=ArrowFiles(PATHS), partitioned_by=("k",))


def test_tests_of_a_query_take_rows_of_such_a_stream() -> None:
    query = Builder("q").source(over(Path("/data"), {"partitioned_by": "k"})).aggregate("a", TIME("1s"), by="k", n=count()).output("out")
    query = query.options(replicas=2)
    assert testing.answers(query, {"s": [{"t": 1_700_000_000_000_000, "k": 1, "v": 1}]})["out"][0]["n"] == 1


def test_documents_and_sql_say_it(tmp_path: Path) -> None:
    stream = over(tmp_path, {"partitioned_by": "k"})
    assert to_json(stream)["partitioned_by"] == ["k"] and from_json(to_json(stream)).partitioned_by == ("k",)
    with pytest.raises(QueryError, match="partitioned_by: expected a list of fields, got 'k'"):
        from_json(to_json(stream) | {"partitioned_by": "k"})
    assert from_json(to_json(stream) | {"partitioned_by": None}).partitioned_by == ()
    with_options = f"connector = 'files', path = '{tmp_path}/*.arrow', format = 'arrow', partitioned_by = 'K'"
    made = sql(f"CREATE STREAM s (k BIGINT, v BIGINT) WITH ({with_options}); INSERT INTO out SELECT k, v FROM s").build()
    assert made.streams[0].partitioned_by == ("k",)
