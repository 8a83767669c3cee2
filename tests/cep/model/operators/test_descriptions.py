"""What descriptions of operators answer: in words, the schema that comes out, what is read, what is waited for, and refusals.

Tests `aggregate.py`, `apply.py`, `deduplicate.py`, `demux.py`, `interval_join.py`, `join.py`, `lookup.py`, `over.py`, `sort.py`,
`map.py`, `stateful_map.py`, `table_versions.py`, `union.py`, `versioned_lookup.py`, `cep/model/contract/phrases.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from cep.errors import QueryError
from cep.model.contract.operator import Operator, Origins
from cep.model.expr import Literal, col
from cep.model.functions import Order, UserFunction, count, first, lag, sum_, window_end
from cep.model.operators import (
    Aggregate,
    Apply,
    Deduplicate,
    Demux,
    Filter,
    IntervalJoin,
    Join,
    Lookup,
    Map,
    Over,
    Sort,
    StatefulMap,
    TableVersions,
    Union,
    VersionedLookup,
)
from cep.model.schema import FLOAT64, INT64, Schema
from cep.model.tables import StaticTable
from cep.model.windows import SIZE, TIME, TRAILING, TRANSACTION, UNBOUNDED, TimeWindow

S_US, M_US = 1_000_000, 60_000_000
ROWS = Schema.of({"t": "timestamp[us]", "k": str, "n": "int64", "x": "float64?", "tags": "list<string>"})
OTHER = Schema.of({"t": "timestamp[us]", "k": str, "m": "int64"})
TABLE = StaticTable(Schema.of({"k": str, "name": "string?", "since": "timestamp[us]"}), "/data/names.csv")
INLINE = StaticTable(TABLE.schema, data=b"")
ON = (("k", "k"),)


def aggregate(**changes: Any) -> Aggregate:
    given: dict[str, Any] = {"window": TIME("10s", "5s"), "by": ("k",), "functions": (("rows", count()), ("total", sum_("n")))}
    return Aggregate("a", "s", **given | changes)


def interval_join(lower: int | None = -S_US, upper: int | None = 2 * S_US, how: str = "inner") -> IntervalJoin:
    return IntervalJoin("j", "s", "r", lower, upper, ON, how, None, "r_")


def join(**changes: Any) -> Join:
    given: dict[str, Any] = {"window": TIME("10s"), "right_window": TIME("10s"), "on": ON, "prefix": "r_"}
    return Join("j", "s", "r", **given | changes)


def over(*functions: tuple[str, Any], ttl: int | None = None) -> Over:
    return Over("o", "s", TRAILING("10m"), ("k",), functions or (("before", lag("n")), ("sum", sum_("n"))), ttl)


def stateful_map(**changes: Any) -> StatefulMap:
    given: dict[str, Any] = {
        "state": (("seen", Literal(0, INT64)), ("last", Literal(None, FLOAT64))),
        "update": (("seen", col("seen") + 1), ("last", col("x"))),
        "fields": (("k", col("k")), ("seen", col("seen")), ("last", col("last"))),
    }
    return StatefulMap("m", "s", ("k",), None, **given | changes)


DEMUX = Demux("d", "s", (("big", col("n") > 9), ("hot", col("x") > 0.5)), "rest")
LOOKUP = Lookup("l", "s", TABLE, ON, "left", "t_")
AGAIN = Lookup("l", "s", TABLE, ON, "inner", "t_", versions="since", refresh=M_US)
MOMENTS, VERSIONS, VERSIONED = AGAIN.in_full()
MORE = Map("m", "s", (("n", col("n") + 1), ("twice", col("x") * 2)), keep_others=True)
assert isinstance(VERSIONED, VersionedLookup)
FUNCTION = StatefulMap("m", "s", ("k",), S_US, function="mod:step", columns=("n",), schema=Schema.of({"y": "int64"}))

SAID: list[tuple[Operator, tuple[Schema, ...], str, dict[str, str]]] = [
    (
        aggregate(),
        (ROWS,),
        "aggregate 10s every 5s by k: rows = count(), total = sum(n)",
        {"k": "string", "rows": "int64", "total": "int64?"},
    ),
    (
        Apply("a", "s", "mod:f", ("n", "k"), Schema.of({"y": float})),
        (ROWS,),
        "apply mod:f to batches of n, k",
        {"y": "float64"},
    ),
    (Deduplicate("d", "s", ("k", "n"), M_US), (ROWS,), "deduplicate by k, n, ttl 1m", {f.name: "" for f in ROWS.fields}),
    (DEMUX, (ROWS,), "demux by big = n > 9, hot = x > 0.5, otherwise rest", {f.name: "" for f in ROWS.fields}),
    (
        interval_join(),
        (ROWS, OTHER),
        "inner interval join from -1s to 2s on k",
        {"t": "", "k": "string", "n": "", "x": "", "tags": "", "r_t": "timestamp[us]", "r_m": "int64"},
    ),
    (
        join(how="left", condition=col("n") > col("r_m")),
        (ROWS, OTHER),
        "left join 10s on k where n > r_m",
        {"t": "", "k": "", "n": "", "x": "", "tags": "", "r_t": "timestamp[us]?", "r_m": "int64?"},
    ),
    (
        LOOKUP,
        (ROWS,),
        "lookup in /data/names.csv on k",
        {"t": "", "k": "", "n": "", "x": "", "tags": "", "t_name": "string?", "t_since": "timestamp[us]?"},
    ),
    (
        AGAIN,
        (ROWS,),
        "lookup in /data/names.csv as of since on k, read again every 1m by the event time",
        {"t": "", "k": "", "n": "", "x": "", "tags": "", "t_name": "string?", "t_since": "timestamp[us]"},
    ),
    (
        over(ttl=M_US),
        (ROWS,),
        "over the last 10m by k, ttl 1m: before = lag(n, 1), sum = sum(n)",
        {f.name: "" for f in ROWS.fields} | {"before": "int64?", "sum": "int64?"},
    ),
    (
        MORE,
        (ROWS,),
        "map to all columns with n = n + 1, twice = x * 2",
        {"t": "", "k": "", "n": "int64", "x": "", "tags": "", "twice": "float64?"},
    ),
    (
        Sort("o", "s", TIME("10s"), ("k",), (("n", True), ("t", False)), "place"),
        (ROWS,),
        "sort 10s by k by n descending, t",
        {f.name: "" for f in ROWS.fields} | {"place": "int64"},
    ),
    (
        stateful_map(),
        (ROWS,),
        "stateful map by k to k, seen, last",
        {"k": "string", "seen": "int64", "last": "float64?"},
    ),
    (FUNCTION, (ROWS,), "stateful map by k to mod:step", {"y": "int64"}),
    (
        VERSIONS,
        (ROWS,),
        "/data/names.csv, read again every 1m by the event time",
        {"version": "int64", "until": "int64", "of.k": "string", "of.name": "string?", "of.since": "timestamp[us]"},
    ),
    (Union("u", ("s", "r")), (ROWS, ROWS), "union", {f.name: "" for f in ROWS.fields}),
]


@pytest.mark.parametrize(("operator", "inputs", "words", "columns"), SAID, ids=lambda each: type(each).__name__)
def test_it_says_what_it_does_and_what_comes_out(
    operator: Operator, inputs: tuple[Schema, ...], words: str, columns: dict[str, str]
) -> None:
    """A column without a type is one of the first input's."""
    out = operator.output_schema(*inputs)
    found = {field.name: str(field.type) + "?" * field.nullable for field in out.fields}
    assert operator.explained() == words
    assert found == {
        name: type_ or str(inputs[0][name].type) + "?" * inputs[0][name].nullable for name, type_ in columns.items()
    }  # in this order
    assert list(found) == list(columns)


READ: list[tuple[Operator, list[tuple[set[str], set[str]]]]] = [
    # (operator, of each input: the columns that are wanted of what comes out, those that are read of the input for it)
    (aggregate(), [({"total"}, {"k", "n"})]),
    (aggregate(window=TRANSACTION(open=col("x") > 0, close=col("tags").list_length() > 1)), [(set(), {"k", "n", "x", "tags"})]),
    (Apply("a", "s", "mod:f", ("n",), OTHER), [({"m"}, {"n"})]),
    (Deduplicate("d", "s", ("k",), None), [({"n"}, {"k", "n"})]),
    (DEMUX, [({"k"}, {"n", "x", "k"})]),
    (interval_join(), [({"n"}, {"k", "n"}), ({"r_m"}, {"k", "m"})]),
    (join(condition=col("x") > col("r_m")), [({"n"}, {"k", "n", "x"}), (set(), {"k", "m"})]),
    (LOOKUP, [({"n", "t_name"}, {"k", "n"})]),
    (VERSIONED, [({"n", "t_name"}, {"k", "n"}), ({"n", "t_name"}, {"version", "until", "of.k", "of.name", "of.since"})]),
    (VERSIONS, [({"of.k"}, set())]),
    (MORE, [({"k", "n"}, {"k", "n", "x"})]),
    (over(), [({"t"}, {"k", "n", "t"})]),
    (Sort("o", "s", TIME("10s"), ("k",), (("n", True),)), [({"t"}, {"k", "n", "t"})]),
    (stateful_map(), [({"k"}, {"k", "x", "seen", "last"})]),
    (FUNCTION, [({"y"}, {"k", "n"})]),
    (Union("u", ("s", "r")), [({"n"}, {"n"}), ({"n"}, {"n"})]),
]


@pytest.mark.parametrize(("operator", "ports"), READ, ids=lambda each: type(each).__name__)
def test_it_reads_what_is_wanted_of_it_and_what_it_needs(operator: Operator, ports: list[tuple[set[str], set[str]]]) -> None:
    right = VERSIONS.output_schema(ROWS) if operator is VERSIONED else ROWS if isinstance(operator, Union) else OTHER
    for port, (wanted, read) in enumerate(ports):

        def asked(names: Iterable[str], wanted: set[str] = wanted) -> set[str]:
            return wanted & {*names}

        assert {*operator.reads(port, (ROWS, right)[port].names, asked)} == read


@pytest.mark.parametrize(
    ("operator", "column", "passed"),
    [
        (aggregate(), "k", ("k",)),
        (aggregate(), "rows", None),
        (Deduplicate("d", "s", ("k",), None), "n", ("n",)),
        (interval_join(), "k", ("k", "k")),
        (interval_join(), "n", None),
        (LOOKUP, "n", ("n",)),
        (LOOKUP, "t_name", None),
        (MORE, "k", ("k",)),
        (MORE, "n", None),
        (over(), "n", ("n",)),
        (over(), "sum", None),
        (stateful_map(), "k", ("k",)),
        (stateful_map(), "seen", None),
        (Union("u", ("s", "r", "q")), "n", ("n", "n", "n")),
        (VERSIONED, "n", None),
        (Apply("a", "s", "mod:f", ("n",), OTHER), "m", None),
    ],
)
def test_which_columns_are_those_of_the_input(operator: Operator, column: str, passed: tuple[str, ...] | None) -> None:
    assert operator.passes(column) == passed


@pytest.mark.parametrize(
    ("operator", "grain", "order", "origins"),
    [
        (aggregate(), 5 * S_US, Order.COMMUTATIVE, Origins.HASHED),
        (aggregate(functions=(("f", first("n")),)), 5 * S_US, Order.MERGEABLE, Origins.HASHED),
        (aggregate(window=SIZE(3)), 1, Order.SEQUENTIAL, Origins.KEPT),
        (aggregate(window=UNBOUNDED(ttl=None, every="4s")), 4 * S_US, Order.COMMUTATIVE, Origins.HASHED),
        (aggregate(window=UNBOUNDED(ttl=None)), 1, Order.SEQUENTIAL, Origins.KEPT),
        (Apply("a", "s", "mod:f", ("n",), OTHER), 20 * S_US, Order.COMMUTATIVE, Origins.NUMBERED),
        (Deduplicate("d", "s", ("k",), None), 1, Order.SEQUENTIAL, Origins.KEPT),
        (interval_join(), 20 * S_US, Order.COMMUTATIVE, Origins.FOLDED),
        (interval_join(how="left"), 1, Order.COMMUTATIVE, Origins.FOLDED),
        (join(), 10 * S_US, Order.COMMUTATIVE, Origins.FOLDED),
        (Sort("o", "s", TIME("8s"), (), (("n", False),)), 4 * S_US, Order.MERGEABLE, Origins.KEPT),
        (Sort("o", "s"), 1, Order.SEQUENTIAL, Origins.KEPT),
        (VERSIONS, 20 * S_US, Order.COMMUTATIVE, Origins.HASHED),
        (TableVersions("v", "s", TABLE, 3 * S_US), S_US, Order.COMMUTATIVE, Origins.HASHED),
        (TableVersions("v", "s", TABLE, 3 * S_US, "clock"), 20 * S_US, Order.COMMUTATIVE, Origins.HASHED),
        (Union("u", ("s", "r")), 20 * S_US, Order.COMMUTATIVE, Origins.KEPT),
    ],
)
def test_what_it_waits_for_and_how_its_answers_are_ordered(operator: Operator, grain: int, order: Order, origins: Origins) -> None:
    """Below it watermarks are needed every 20 s."""
    assert operator.grain(20 * S_US) == grain
    assert (operator.row_order, operator.origins) == (order, origins)


def test_a_demux_is_a_filter_for_each_branch() -> None:
    big, hot, rest = DEMUX.in_full()
    assert [each.name for each in (big, hot, rest)] == list(DEMUX.branches) == ["d.big", "d.hot", "d.rest"]
    assert [each.explained() for each in (big, hot)] == ["filter n > 9", "filter x > 0.5"]
    assert isinstance(rest, Filter) and rest.input == "s" and {*rest.reads(0, (), lambda _: ())} == {"n", "x"}
    assert Demux("d", "s", DEMUX.cases).branches == ("d.big", "d.hot")


def test_a_table_that_is_read_again_has_one_reader() -> None:
    assert LOOKUP.in_full() == (LOOKUP,)
    assert (MOMENTS.name, MOMENTS.inputs, MOMENTS.explained()) == ("l.moments", ("s",), "filter False")
    assert TableVersions("l.table", "l.moments", TABLE, M_US) == VERSIONS
    assert VersionedLookup("l", "s", "l.table", TABLE, M_US, ON, "inner", "t_", "since") == VERSIONED
    assert (VERSIONS.stateful, VERSIONS.key, VERSIONS.everywhere) == (True, (), None)
    assert (VERSIONED.everywhere, LOOKUP.everywhere, LOOKUP.stateful) == (1, None, False)
    assert [each.files for each in (LOOKUP, VERSIONS, VERSIONED)] == [(TABLE.path,), (TABLE.path,), ()]


def test_where_a_theta_join_runs() -> None:
    assert join().everywhere is None and join().key == (("k", "k"),)
    assert [join(on=(), broadcast=side).everywhere for side in ("left", "right")] == [0, 1]
    assert join(on=(), how="full").everywhere is None and "needs all tuples" in join(on=(), how="full").why_together
    assert [join(window=TimeWindow(10, 10), right_window=TimeWindow(size, 10)).repeats for size in (10, 20)] == [False, True]


def test_an_interval_without_a_bound_keeps_a_side_for_ever() -> None:
    assert interval_join(None, None).explained().endswith("keeps all tuples of both for ever")
    assert "from -1s" in interval_join(upper=None).explained() and "of the left for ever" in interval_join(upper=None).explained()
    assert "up to 2s" in interval_join(lower=None).explained() and "of the right for ever" in interval_join(lower=None).explained()


REFUSED: list[tuple[Callable[[], object], str, str]] = [
    (lambda: aggregate(window=TRAILING("1m")), "/window", "TRAILING is a window of `over`"),
    (lambda: aggregate(emit_partial=True), "/emit_partial", "emit_partial is for SIZE and TRANSACTION windows"),
    (lambda: aggregate(functions=()).output_schema(ROWS), "/functions", "needs at least one function"),
    (lambda: aggregate(by=("kk",)).output_schema(ROWS), "/by/0", "no column 'kk'"),
    (lambda: aggregate(functions=(("f", lag("n")),)).output_schema(ROWS), "/functions/f", "lag is a function of `over`"),
    (lambda: aggregate(functions=(("f", sum_("m")),)).output_schema(ROWS), "/functions/f/column", "no column 'm'"),
    (lambda: aggregate(functions=(("f", sum_("k")),)).output_schema(ROWS), "/functions/f/column", "expected a number"),
    (
        lambda: aggregate(window=UNBOUNDED(ttl=None), functions=(("e", window_end()),)).output_schema(ROWS),
        "/functions/e",
        "has no window_end",
    ),
    (lambda: Apply("a", "s", "mod", ("n",), OTHER), "/function", "mod"),
    (lambda: Apply("a", "s", "mod:f", (), OTHER), "/columns", "at least one column"),
    (lambda: Apply("a", "s", "mod:f", ("n", "m"), OTHER).output_schema(ROWS), "/columns/1", "no column 'm'"),
    (lambda: Deduplicate("d", "s", (), None), "/by", "at least one column"),
    (lambda: Deduplicate("d", "s", ("k",), 0), "/ttl", "ttl"),
    (lambda: Demux("d", "s", ()), "/cases", "at least one case"),
    (lambda: Demux("d", "s", (("a/b", col("n")),)).output_schema(ROWS), "/cases/a~1b", "bool"),
    (lambda: interval_join(3 * S_US), "/lower", r"expected at most upper \(2s\), got 3s"),
    (lambda: interval_join(how="outer"), "/how", "outer"),
    (lambda: join(right_window=TIME("10s", "5s")), "/right_window/advance", "both windows of a join have one advance, got 10s and 5s"),
    (lambda: join(broadcast="both"), "/broadcast", "expected 'left' or 'right'"),
    (lambda: join(on=(), how="right"), "/broadcast", "broadcast the other one"),
    (lambda: join(on=(("n", "k"),)).output_schema(ROWS, OTHER), "/on/0", "int64"),
    (lambda: Lookup("l", "s", TABLE, ON, by="clock"), "/by", "there is no refresh"),
    (lambda: Lookup("l", "s", TABLE, ON, by="moon", refresh=1), "/by", "expected one of event_time, clock, got 'moon'"),
    (lambda: Lookup("l", "s", INLINE, ON, refresh=1), "/refresh", "write it to a file"),
    (lambda: Lookup("l", "s", TABLE, ON, versions="sinse"), "/versions", r"no column 'sinse' in the table \(did you mean 'since'\?\)"),
    (lambda: Lookup("l", "s", TABLE, ON, versions="name"), "/versions", "expected a timestamp that is never NULL"),
    (lambda: Lookup("l", "s", TABLE, ON, "right"), "/how", "right"),
    (lambda: over(("n", sum_("n"))).output_schema(ROWS), "/functions/n", "the input has a column of that name"),
    (lambda: over(("e", window_end())).output_schema(ROWS), "/functions/e", "it ends with the tuple that it is of"),
    (
        lambda: over(("u", UserFunction("mod:F", arguments=("n",), type=INT64))).output_schema(ROWS),
        "/functions/u",
        "has no state that merges",
    ),
    (lambda: Sort("o", "s", None, ("k",)), "/window", "has neither by nor order"),
    (lambda: Sort("o", "s", TIME("1s")), "/order", "at least one column to order by"),
    (lambda: Sort("o", "s", TIME("1s"), order=(("n", False),), rank="n").output_schema(ROWS), "/rank", "n"),
    (lambda: stateful_map(function="mod:f"), "", "either state, update and fields, or a function"),
    (lambda: stateful_map(schema=OTHER), "/schema", "a schema beside a function"),
    (lambda: stateful_map(update=(("seen", col("seen") + 1),)), "/update", "an expression for each of the state's names"),
    (
        lambda: stateful_map(update=(("seen", col("x")), ("last", col("x")))).output_schema(ROWS),
        "/update/seen",
        "state 'seen' is int64, its update is float64",
    ),
    (
        lambda: stateful_map(state=(("n", Literal(0, INT64)),), update=(("n", col("n")),)).output_schema(ROWS),
        "/state/n",
        "the input has a column of that name",
    ),
    (
        lambda: stateful_map(fields=(("y", col("seen").cast("string").upper()),)).output_schema(ROWS),
        "/fields/y",
        "cannot be computed over the state",
    ),
    (lambda: Union("u", ("s",)).output_schema(ROWS), "/inputs", "at least two inputs, got 1"),
    (lambda: Union("u", ("s", "s")).output_schema(ROWS, ROWS), "/inputs/1", "'s' stands twice"),
    (lambda: Union("u", ("s", "r")).output_schema(ROWS, OTHER), "/inputs/1", "have one schema"),
]


@pytest.mark.parametrize(("make", "pointer", "said"), REFUSED, ids=range(len(REFUSED)))
def test_what_makes_no_sense_is_refused_with_its_place(make: Callable[[], object], pointer: str, said: str) -> None:
    with pytest.raises(QueryError, match=said) as refused:
        make()
    assert refused.value.pointer == pointer
