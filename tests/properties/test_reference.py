"""The oracle's own tests: answers worked out by hand from docs/rules.md, and what has to hold for any query."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings

from cep.model.expr import Call, ColumnRef, Expr, coalesce, col, lit
from cep.model.functions import Function, avg, count, first, last, max_, min_, sum_, window_end, window_start
from cep.model.operators import Aggregate, Filter, Map, Operator, Union
from cep.model.query import Output, Query
from cep.model.schema import Schema
from cep.model.streams import Stream, TextFiles
from cep.model.windows import TimeWindow
from cep.plan import needed
from cep.plan.validate import validate
from tests.reference import Answer, Bad, Partition, assert_same_answer, blocks, difference, evaluate
from tests.reference.aggregates import exact_sum
from tests.reference.expressions import Failed
from tests.reference.expressions import evaluate as value_of
from tests.reference.needed import read_columns
from tests.reference.schemas import schemas_of
from tests.reference.windows import window_starts
from tests.strategies import Case, Execution, FileCase, cases, executions, file_cases
from tests.support.kinds import KINDS

NAN, INF = math.nan, math.inf
INT64_MAX, INT64_MIN = 2**63 - 1, -(2**63)


def stream(name: str = "s", disorder: int = 0, files: TextFiles | None = None, **columns: str) -> Stream:
    """Columns `columns` after an event time `t` in µs."""
    schema = Schema.of({"t": "timestamp[us]?", **columns})
    return Stream(name, schema, ColumnRef("t"), disorder, files)


def query(source: Stream | Sequence[Stream], *operators: Operator, output: str | None = None) -> Query:
    """A query whose one output, `out`, is the last operator, or the stream."""
    streams = (source,) if isinstance(source, Stream) else tuple(source)
    name = output or (operators[-1].name if operators else streams[0].name)
    return Query("q", streams, operators, (Output("out", name),))


def run(asked: Query, *rows: Sequence[Any] | Bad, **inputs: Sequence[Sequence[Any]]) -> Answer:
    """`rows` are one partition of the only stream; `inputs` lists of partitions by stream."""
    given_ = inputs or {asked.streams[0].name: [rows]}
    partitions = {name: [Partition(i, list(part)) for i, part in enumerate(parts)] for name, parts in given_.items()}
    return evaluate(asked, partitions)


def out(answer: Answer) -> list[Any]:
    return sorted(answer.outputs["out"], key=lambda row: (row[0], repr(row[1])))


def aggregated(source: Stream, window: TimeWindow, by: tuple[str, ...] = (), **functions: Function) -> Query:
    return query(source, Aggregate("a", source.name, window, by, tuple(functions.items())))


# --- late is decided once, where the source is read (rule 4.7) -----------------------------------------------------


def test_a_row_behind_the_greatest_before_it_by_more_than_the_disorder_is_late() -> None:
    # time       0    10   9    5    4    10
    # stamp     -inf  -5   5    5    5    5      the greatest so far - 5
    #                               late
    answer = run(query(stream(disorder=5)), (0,), (10,), (9,), (5,), (4,), (10,))
    assert [time for time, _ in out(answer)] == [0, 5, 9, 10, 10]
    assert answer.late == {"s": [(4, (4,))]}


def test_partitions_know_nothing_of_each_other() -> None:
    together = run(query(stream()), (10,), (3,), (11,), (4,))
    apart = run(query(stream()), s=[[(10,), (11,)], [(3,), (4,)]])
    assert [len(together.late["s"]), len(apart.late["s"])] == [2, 0]


def test_a_late_row_is_late_for_every_operator_and_moves_no_stamp() -> None:
    answer = run(aggregated(stream(), TimeWindow(10, 10), n=count()), (10,), (3,), (10,))
    assert out(answer) == [(19, (2,))]


def test_a_row_without_event_time_is_bad_input_and_moves_nothing() -> None:
    answer = run(query(stream(a="int64")), (5, 1), (None, 2), (5, 3))
    assert [row for _, row in out(answer)] == [(5, 1), (5, 3)]
    assert [(letter.operator, letter.reason, letter.origin) for letter in answer.dead] == [("s", "bad input", (0, 1))]


def test_a_bad_record_whose_event_time_parses_moves_the_stamp() -> None:
    answer = run(query(stream()), (5,), Bad("no number", 20), (6,), Bad("nothing parses"), (20,))
    assert [time for time, _ in out(answer)] == [5, 20]
    assert answer.late["s"] == [(6, (6,))]
    assert answer.dead_counts() == {"s": 2}


def test_a_block_is_stamped_by_the_first_rows_of_the_blocks_of_its_file_up_to_it() -> None:
    # file a, disorder 3   |  0  50  |  10  40   |  2   9  7 |     first rows 0, 10, 2
    # stamp                | -3  -3  |  7   7    |  7   7  7 |     50 is no first row, so 40 is not late
    #                                              late
    rows = [[(0,), (50,)], [(10,), (40,)], [(2,), (9,), (7,)]]
    parts = [Partition(i, block, file="a") for i, block in enumerate(rows)] + [Partition(3, [(1,)], file="b")]
    answer = evaluate(query(stream(disorder=3)), {"s": parts})
    assert answer.late["s"] == [(2, (2,))]


def test_the_first_row_of_a_block_is_the_first_whose_event_time_parses() -> None:
    parts = [Partition(0, [Bad("no number"), Bad("no number", 10)], file="a"), Partition(1, [(4,)], file="a")]
    answer = evaluate(query(stream(disorder=5)), {"s": parts})
    assert answer.late["s"] == [(4, (4,))]


def test_a_publisher_is_stamped_from_where_it_was_registered() -> None:
    answer = evaluate(query(stream(disorder=5)), {"s": [Partition(0, [(9,), (10,), (6,)], stamp=10)]})
    assert [time for time, _ in answer.late["s"]] == [9, 6]


def test_stamps_of_ingestion_are_the_event_time_where_none_is_declared() -> None:
    source = Stream("s", Schema.of({"a": "int64"}))
    answer = evaluate(query(source), {"s": [Partition(0, [(1,), (2,)], times=[100, 100])]})
    assert out(answer) == [(100, (1,)), (100, (2,))]


def test_the_rule_gives_the_late_count_of_the_design_s_own_program() -> None:
    # Worked out apart from both engines: 20,000 rows in blocks of 1,000, up to 900 behind, 500 promised: 7892 late,
    # whatever the number of readers and their schedule.
    rnd = random.Random(7)
    times = [max(0, i + rnd.randint(-900, 0)) for i in range(20_000)]
    parts = [Partition(i, [(t,) for t in times[i * 1000 : i * 1000 + 1000]], file="f") for i in range(20)]
    answer = evaluate(query(stream(disorder=500)), {"s": parts})
    assert len(answer.late["s"]) == 7892


# --- windows (rules 5.4, 4.4) ---------------------------------------------------------------------------------------


def test_a_tumbling_window_holds_its_start_and_not_its_end() -> None:
    # time   0         10        20
    #        [x       x)x        )          rows at 0, 9 and 10
    asked = aggregated(stream(), TimeWindow(10, 10), n=count(), start=window_start(), end=window_end())
    assert out(run(asked, (0,), (9,), (10,))) == [(9, (2, 0, 10)), (19, (1, 10, 20))]


def test_a_row_is_in_every_sliding_window_that_holds_it() -> None:
    # time  -5    0    5    10   15
    #        [---------)                  -5
    #             [----x----)              0
    #                  [x---------)        5      a row at 7
    asked = aggregated(stream(), TimeWindow(10, 5), n=count(), start=window_start())
    assert out(run(asked, (7,))) == [(9, (1, 0)), (14, (1, 5))]


def test_an_advance_need_not_divide_the_size() -> None:
    # time   0  3  6  9  12 15
    #        [------x)                0      size 7, advance 3
    #           [---x--)              3
    #              [x-----)           6      a row at 6 is in three, one at 7 in two
    assert window_starts(6, TimeWindow(7, 3)) == [0, 3, 6]
    assert window_starts(7, TimeWindow(7, 3)) == [3, 6]


def test_windows_before_the_epoch_are_aligned_to_it() -> None:
    assert window_starts(-1, TimeWindow(10, 10)) == [-10]
    assert window_starts(-10, TimeWindow(10, 10)) == [-10]
    assert window_starts(-11, TimeWindow(10, 10)) == [-20]
    assert window_starts(0, TimeWindow(10, 4)) == [-8, -4, 0]


def test_no_row_no_window() -> None:
    assert out(run(aggregated(stream(), TimeWindow(10, 10), n=count()))) == []


def test_a_second_aggregate_takes_the_first_one_s_rows_at_window_end_minus_one() -> None:
    # first   [0, 10) -> 9    [10, 20) -> 19    second, of 20: both are in [0, 20)
    inner = Aggregate("a", "s", TimeWindow(10, 10), (), (("n", count()),))
    outer = Aggregate("b", "a", TimeWindow(20, 20), (), (("n", sum_("n")), ("first", first("n"))))
    assert out(run(query(stream(), inner, outer), (0,), (5,), (10,))) == [(19, (3, 2))]


# --- keys ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "keys", "groups"),
    [
        ("float64?", [0.0, -0.0, 0.0], [(0.0, 3)]),
        ("float64?", [NAN, -NAN, 1.0], [(1.0, 1), (NAN, 2)]),
        ("float64?", [None, 0.0, None], [(0.0, 1), (None, 2)]),
        ("string?", ["", None, "", "x" * 40, "x" * 40], [("", 2), ("x" * 40, 2), (None, 1)]),
        ("string?", ["a", "a\0", "a\0\0"], [("a", 1), ("a\0", 1), ("a\0\0", 1)]),
        ("bool?", [True, False, None, True], [(False, 1), (True, 2), (None, 1)]),
    ],
)
def test_keys(type_: str, keys: list[Any], groups: list[tuple[Any, int]]) -> None:
    asked = aggregated(stream(k=type_), TimeWindow(10, 10), ("k",), n=count())
    answer = run(asked, *((1, key) for key in keys))
    assert difference([(9, group) for group in groups], answer.outputs["out"]) == ""


# --- functions (rule 5.7) ------------------------------------------------------------------------------------------


def of_values(function: Function, type_: str, values: Sequence[Any]) -> tuple[Any, Answer]:
    answer = run(aggregated(stream(v=type_), TimeWindow(10, 10), r=function), *((1, value) for value in values))
    return answer.outputs["out"][0][1][0], answer


@pytest.mark.parametrize(
    ("function", "type_", "values", "expected"),
    [
        (count(), "int64?", [1, None, 3], 3),
        (count("v"), "int64?", [1, None, 3], 2),
        (sum_("v"), "int64?", [1, None, 3], 4),
        (sum_("v"), "int64?", [None], None),
        (sum_("v"), "int32", [2**31 - 1, 2**31 - 1], 2**32 - 2),
        (sum_("v"), "int64", [INT64_MAX, 1, -1], INT64_MAX),  # 128 bits inside
        (avg("v"), "int64", [INT64_MAX, INT64_MAX], float(2**63)),  # of the sum in 128 bits
        (avg("v"), "int64?", [None], None),
        (avg("v"), "float64", [1.0, 2.0], 1.5),
        (min_("v"), "float64?", [NAN, None, 2.0], 2.0),
        (max_("v"), "float64?", [NAN, None, INF], NAN),
        (min_("v"), "float64", [0.0, -0.0], 0.0),
        (max_("v"), "float64", [-0.0], 0.0),
        (min_("v"), "string", ["b", "a", "aa"], "a"),
        (max_("v"), "string", ["z", "é", "日"], "日"),
        (max_("v"), "binary", [b"\x7f", b"\x80"], b"\x80"),
        (min_("v"), "bool", [True, False], False),
        (max_("v"), "int64?", [None, None], None),
        (first("v"), "int64?", [None, 2], None),
        (last("v"), "int64?", [1, 2, None], None),
        (first("v"), "float64", [-0.0, 0.0], -0.0),
    ],
)
def test_functions(function: Function, type_: str, values: list[Any], expected: Any) -> None:
    result, answer = of_values(function, type_, values)
    assert difference([(0, (expected,))], [(0, (result,))]) == ""
    assert answer.dead == []


def test_an_integer_sum_that_does_not_fit_is_null_and_a_dead_letter_of_its_group() -> None:
    asked = aggregated(stream(k="string", v="int64"), TimeWindow(10, 10), ("k",), total=sum_("v"), n=count())
    answer = run(asked, (1, "x", INT64_MAX), (1, "x", 1), (1, "y", INT64_MIN), (11, "x", 5))
    assert out(answer) == [(9, ("x", None, 2)), (9, ("y", INT64_MIN, 1)), (19, ("x", 5, 1))]
    assert [(letter.operator, letter.reason) for letter in answer.dead] == [("a", "sum overflow")]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.1] * 10, 1.0),  # a plain sum gives 0.9999999999999999
        ([1e16, 1.0, -1e16], 1.0),
        ([1e308, 1e308, -1e308], 1e308),  # where math.fsum raises
        ([1e308, 1e308], INF),
        ([-1e308, -1e308], -INF),
        ([INF, 1.0], INF),
        ([INF, -INF], NAN),
        ([INF, NAN], NAN),
        ([-0.0, -0.0], 0.0),
        ([5e-324, 5e-324], 1e-323),
    ],
)
def test_a_float_sum_is_exact_and_rounded_once(values: list[float], expected: float) -> None:
    for order in (values, values[::-1]):
        assert difference([(0, (expected,))], [(0, (exact_sum(order),))]) == ""


# --- order: event time, then origin, then columns (rule 4.5) -------------------------------------------------------


def test_event_time_comes_before_origin() -> None:
    asked = aggregated(stream(disorder=9, v="int64"), TimeWindow(10, 10), f=first("v"), l=last("v"))
    assert out(run(asked, (5, 1), (3, 2), (4, 3))) == [(9, (2, 1))]


def test_rows_of_one_time_go_by_partition_and_then_by_record() -> None:
    asked = aggregated(stream(v="int64"), TimeWindow(10, 10), f=first("v"), l=last("v"))
    assert out(run(asked, s=[[(5, 1), (5, 2)], [(5, 3), (5, 0)]])) == [(9, (1, 0))]


def test_and_before_that_by_the_name_of_their_source() -> None:
    streams = [stream("z", v="int64"), stream("b", v="int64")]
    union = Union("u", ("z", "b"))
    asked = query(streams, union, Aggregate("a", "u", TimeWindow(10, 10), (), (("f", first("v")), ("l", last("v")))))
    assert out(run(asked, z=[[(5, 1)]], b=[[(5, 2)]])) == [(9, (2, 1))]


@pytest.mark.parametrize(("other", "ends"), [(col("v") - 1, (4, 5)), (col("v") + 1, (5, 6)), (lit(None, "int64") + 1, (None, 5))])
def test_what_is_still_equal_goes_by_its_columns_null_first(other: Expr, ends: tuple[Any, Any]) -> None:
    # a row comes through both branches, with its one origin
    asked = query(
        stream(v="int64?"),
        Map("x", "s", (("w", col("v")),)),
        Map("y", "s", (("w", coalesce(lit(None, "int64"), other)),)),
        Union("u", ("x", "y")),
        Aggregate("a", "u", TimeWindow(10, 10), (), (("f", first("w")), ("l", last("w")))),
    )
    assert out(run(asked, (1, 5))) == [(9, ends)]


def test_first_and_last_of_aggregates_follow_the_hash_that_is_handed_in() -> None:
    inner = Aggregate("a", "s", TimeWindow(10, 10), ("k",), (("n", count()),))
    outer = Aggregate("b", "a", TimeWindow(10, 10), (), (("f", first("k")), ("l", last("k"))))
    asked = query(stream(k="string"), inner, outer)
    parts = {"s": [Partition(0, [(1, "x"), (1, "y"), (1, "z")])]}
    places = {"x": 3, "y": 1, "z": 2}
    answer = evaluate(asked, parts, aggregate_origin=lambda name, key, start: (places[key[0]] if key else 0, start))
    assert out(answer) == [(9, ("y", "x"))]


# --- expressions -----------------------------------------------------------------------------------------------------

SCHEMA = Schema.of({"i": "int64", "j": "int32", "s": "string", "n": "int64?", "t": "timestamp[ms]"})
VALUES = {"i": 7, "j": 2**31 - 1, "s": "text", "n": None, "t": 1_500_000}
NULL_BOOL = lit(None, "bool")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (lit(-7) // lit(2), -3),
        (lit(-7) % lit(2), -1),
        (lit(7) % lit(-2), 1),
        (lit(INT64_MIN) % lit(-1), 0),
        (col("i") / 2, 3.5),
        (lit(1) / 0, INF),
        (lit(0) / 0, NAN),
        (lit(-1.0) / 0.0, -INF),
        (lit(-7.5) // 2.0, -3.0),
        (lit(-1.0) // 2.0, -0.0),
        (lit(-7.5) % 2.0, -1.5),
        (lit(7.5) % 0.0, NAN),
        (col("j") * 2, 2**32 - 2),  # int32 is int64 in arithmetic
        (-col("j"), 1 - 2**31),
        (Call("abs", (lit(-3),)), 3),
        (col("n") // 0, None),  # NULL before failing
        (col("n") + 1 == col("n"), None),
        (NULL_BOOL & lit(False), False),
        (NULL_BOOL & lit(True), None),
        (NULL_BOOL | lit(True), True),
        (NULL_BOOL | lit(False), None),
        (~NULL_BOOL, None),
        (col("n").is_null(), True),
        (coalesce(col("n"), 3), 3),
        (coalesce(col("n"), 3, 2.5), 3.0),
        (lit(NAN) == lit(NAN), True),
        (lit(NAN) > lit(INF), True),
        (lit(NAN) <= lit(INF), False),
        (lit(0.0) == lit(-0.0), True),
        (lit(2**53 + 1) == lit(float(2**53)), True),  # compared as float64
        (col("s") < lit("texts"), True),
        (lit(2.5).cast("int64"), 2),
        (lit(3.5).cast("int32"), 4),
        (lit(-2.5).cast("int64"), -2),
        (lit(NAN).try_cast("int64"), None),
        (lit(2**31).try_cast("int32"), None),
        (lit(2**53 + 1).cast("float64"), float(2**53)),
        (lit(False) & (lit(1) // 0 == 1), False),  # not needed
        ((lit(1) // 1 == 1) | (lit(1) // 0 == 1), True),
        (coalesce(1, lit(1) // 0), 1),
        (lit(-0.0).cast("bool"), False),
        (lit(NAN).cast("bool"), True),
        (lit(True).cast("int64"), 1),
        (lit("-12").cast("int32"), -12),
        (lit("TRUE").cast("bool"), True),
        (lit("1e3").cast("float64"), 1000.0),
        (lit("1_0").try_cast("int64"), None),
        (lit(" 1").try_cast("float64"), None),
        (lit("0").cast("bool"), False),
        (lit("é").cast("binary"), b"\xc3\xa9"),
        (lit(1500).cast("timestamp[ms]"), 1_500_000),
        (lit("1500").cast("timestamp[ms]"), 1_500_000),
        (lit(-1).cast("timestamp[us]").cast("timestamp[ms]").cast("int64"), -1),  # rounded down
        (lit(1001).try_cast("timestamp[ns]"), None),
        (col("t") + 1, 1_500_001),
        (col("t") - col("t"), 0),
        (col("t") == lit(1500), True),  # an integer literal beside a timestamp[ms] is of ms
        (col("t") == lit("1970-01-01T00:00:01.5Z"), True),
    ],
)
def test_expressions(expression: Expr, expected: Any) -> None:
    value = value_of(expression, SCHEMA, VALUES)
    assert difference([(0, (expected,))], [(0, (value,))]) == ""


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        (lit(INT64_MAX) + 1, "overflow"),
        (lit(INT64_MIN) - 1, "overflow"),
        (lit(2**62) * 2, "overflow"),
        (lit(INT64_MIN) // -1, "overflow"),
        (-lit(INT64_MIN), "overflow"),
        (Call("abs", (lit(INT64_MIN),)), "overflow"),
        (lit(1) // 0, "division by zero"),
        (lit(1) % 0, "division by zero"),
        (lit(NAN).cast("int64"), "cast"),
        (lit(2.0**63).cast("int64"), "cast"),
        (lit(2**31).cast("int32"), "cast"),
        (NULL_BOOL & (lit(1) // 0 == 1), "division by zero"),  # NULL decides nothing
        (col("n") + lit(1) // 0, "division by zero"),  # also beside a NULL
        (lit("12x").cast("int64"), "cast"),
        (lit(b"\xff", "binary").cast("string"), "cast"),
        (lit(2**62).cast("timestamp[ms]"), "cast"),
        (lit("1970").cast("timestamp"), "cast"),  # a plain timestamp refuses integers
    ],
)
def test_expressions_that_fail(expression: Expr, reason: str) -> None:
    with pytest.raises(Failed) as failed:
        value_of(expression, SCHEMA, VALUES)
    assert failed.value.reason == reason


# --- the graph -------------------------------------------------------------------------------------------------------


def test_a_failed_row_is_a_dead_letter_of_its_operator_and_goes_on_elsewhere() -> None:
    asked = Query(
        "q",
        (stream(v="int64"),),
        (Map("m", "s", (("w", lit(10) // col("v")),)), Filter("f", "s", col("v") >= 0)),
        (Output("divided", "m"), Output("kept", "f")),
    )
    answer = run(asked, (1, 5), (2, 0))
    assert answer.outputs == {"divided": [(1, (2,))], "kept": [(1, (1, 5)), (2, (2, 0))]}
    assert [(letter.operator, letter.reason, letter.origin) for letter in answer.dead] == [("m", "division by zero", (0, 1))]


def test_a_filter_keeps_what_is_true_not_what_is_null() -> None:
    asked = query(stream(v="int64?"), Filter("f", "s", col("v") > 1))
    assert out(run(asked, (1, 1), (2, None), (3, 2))) == [(3, (3, 2))]


def test_a_union_keeps_duplicates_and_map_keeps_the_event_time() -> None:
    asked = query(stream(v="int64"), Filter("f", "s", col("v") > 0), Union("u", ("s", "f")), Map("m", "u", (("v", col("v")),)))
    assert out(run(asked, (1, 0), (2, 1))) == [(1, (0,)), (2, (1,)), (2, (1,))]


def test_an_operator_may_be_named_before_what_it_reads() -> None:
    asked = query(stream(), Union("u", ("f", "s")), Filter("f", "s", lit(True)), output="u")
    assert len(out(run(asked, (1,)))) == 2


# --- files -----------------------------------------------------------------------------------------------------------


def file_query(**columns: str) -> tuple[Query, Stream]:
    source = stream(disorder=1000, files=TextFiles(("f",), header="header" in columns, block_bytes=1024), **columns)
    return query(source), source


def parsed(text: bytes, **columns: str) -> list[Any]:
    asked, source = file_query(**columns)
    return [row.time if isinstance(row, Bad) else row for part in blocks(asked, source, {"f": text}) for row in part.rows]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (b"1,5,x\n2,6,y\n", [(1, 5, "x"), (2, 6, "y")]),
        (b"1,5,x\r\n2,6,y", [(1, 5, "x"), (2, 6, "y")]),  # CRLF; no last newline
        (b"1,,\n", [(1, None, "")]),  # an empty number is NULL, an empty text is empty
        (b"1,5,x,more\n", [(1, 5, "x")]),
        (b"1,5\n2,5,x\n", [1, (2, 5, "x")]),  # a number alone: bad, its event time
        (b"\n,5,x\nz,5,x\n", [None, (None, 5, "x"), None]),  # the second is bad later, for its NULL event time
        (b"1,five,x\n1,5,\xff\n", [1, 1]),
        (b"1,9223372036854775808,x\n", [1]),
        (b"", []),
    ],
)
def test_parsing(text: bytes, rows: list[Any]) -> None:
    assert parsed(text, v="int64?", s="string") == rows


def test_a_record_is_bad_only_by_fields_that_the_query_needs() -> None:
    source = stream(disorder=0, files=TextFiles(("f",)), v="int64", w="int64")
    asked = query(source, Map("m", "s", (("v", col("v")),)))
    (part,) = blocks(asked, source, {"f": b"1,5,six\n1,5\n1,x,6\n"})
    assert [isinstance(row, Bad) for row in part.rows] == [False, False, True]


def test_a_record_belongs_to_the_block_of_its_first_byte() -> None:
    # bytes  0      1000  1024        2048
    #        |first |second .. 1100 ..|third           blocks of 1024; in the second no record begins
    asked, source = file_query(s="string")
    lines = [b"1," + b"a" * 997 + b"\n", b"2," + b"b" * 1097 + b"\n", b"3,c\n"]
    parts = blocks(asked, source, {"f": b"".join(lines)})
    assert [len(part.rows) for part in parts] == [2, 1]
    assert isinstance(parts[0].rows[1], Bad)  # it is longer than a block
    assert [part.index for part in parts] == [0, 1]


def test_the_header_is_no_record_and_files_go_by_path() -> None:
    source = stream(files=TextFiles(("*.txt",), header=True, separator=";"), v="int64")
    parts = blocks(query(source), source, {"b.txt": b"t;v\n1;1\n", "a.txt": b"t;v\n2;2"})
    assert [(part.file, part.rows) for part in parts] == [("a.txt", [(2, 2)]), ("b.txt", [(1, 1)])]


# --- equality --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ([(1, (NAN,))], [(1, (-NAN,))], True),
        ([(1, (0.0,))], [(1, (-0.0,))], False),
        ([(1, (1,))], [(1, (1.0,))], False),
        ([(1, (True,))], [(1, (1,))], False),
        ([(1, ("a",))], [(2, ("a",))], False),
        ([(1, ("a",)), (1, ("a",))], [(1, ("a",))], False),
        ([(1, ("a",)), (2, ("b",))], [(2, ("b",)), (1, ("a",))], True),
    ],
)
def test_equal(left: list[Any], right: list[Any], same: bool) -> None:
    assert (difference(left, right) == "") is same


def test_a_difference_can_be_read() -> None:
    with pytest.raises(AssertionError) as error:
        assert_same_answer({"out": [(1, ("a",)), (1, ("a",)), (2, ("b",))]}, {"out": [(2, ("b",)), (3, (None,))]})
    assert str(error.value).split("\n")[:3] == [
        "stream 'out': expected 3 rows, got 2",
        "  missing 2 x at 1: ('a',)",
        "  unexpected 1 x at 3: (None,)",
    ]


# --- what holds for any query ----------------------------------------------------------------------------------------


#: Examples are small, but two cores are shared by many.
patient = settings(deadline=None)


def records(inputs: Mapping[str, Sequence[Partition]]) -> int:
    return sum(len(part.rows) for parts in inputs.values() for part in parts)


@patient
@given(cases(kinds=KINDS))
def test_drawn_queries_are_valid_and_the_reference_types_them_as_the_planner_does(case: Case) -> None:
    valid = validate(case.query, {})
    for name, schema in schemas_of(case.query).items():
        assert schema == valid.schemas[name], name


@patient
@given(cases(kinds=KINDS))
def test_the_planner_needs_the_same_columns(case: Case) -> None:
    query = validate(case.query, {}).query
    for source in case.query.streams:
        assert read_columns(case.query, source) == set(needed.needed_columns(query, source.name, source.schema.names)), source.name


@patient
@given(cases(kinds=KINDS))
def test_values_have_the_types_that_their_schema_says(case: Case) -> None:
    schemas = validate(case.query, {}).schemas
    answer = evaluate(case.query, case.inputs)
    for output in case.query.outputs:
        for _, row in answer.outputs[output.stream]:
            for value, field in zip(row, schemas[output.stream].fields, strict=True):
                assert field.nullable if value is None else isinstance(value, PYTHON[field.type.name])


PYTHON = {"bool": bool, "int32": int, "int64": int, "timestamp": int, "float64": float, "string": str, "binary": bytes, "list": list}


@patient
@given(cases(kinds=KINDS))
def test_every_record_is_on_time_or_late_or_bad(case: Case) -> None:
    outputs = tuple(Output(f"of_{source.name}", source.name) for source in case.query.streams)
    answer = evaluate(Query("q", case.query.streams, (), outputs), case.inputs)
    counted = sum(map(len, [*answer.outputs.values(), *answer.late.values()])) + len(answer.dead)
    assert counted == records(case.inputs)


@patient
@given(cases(kinds=KINDS))
def test_the_order_in_which_partitions_are_listed_does_not_matter(case: Case) -> None:
    answer = evaluate(case.query, case.inputs)
    again = evaluate(case.query, {name: parts[::-1] for name, parts in case.inputs.items()})
    assert_same_answer(answer.outputs, again.outputs)
    assert answer.dead_counts() == again.dead_counts()


@patient
@given(file_cases())
def test_blocks_hold_every_line_of_a_file_once(case: FileCase) -> None:
    parts = blocks(case.query, case.stream, case.files)
    heads = int(case.stream.files is not None and case.stream.files.header)
    assert records({"s": parts}) == sum(max(0, lines_in(data) - heads) for data in case.files.values())


def lines_in(data: bytes) -> int:
    return data.count(b"\n") + (not data.endswith(b"\n") and data != b"")


@patient
@given(executions())
def test_executions_can_be_run(execution: Execution) -> None:
    assert len(execution.table) == execution.options.buckets
    assert max(execution.table) < (execution.options.parallelism or 0)
    assert min(execution.batch_rows) > 0
