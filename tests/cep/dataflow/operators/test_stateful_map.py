"""StatefulMap: for each tuple in stream order the new state of its group, then fields over the tuple and the new state.

state count 0, sum 0; update count + 1, sum + n; ttl 10

t        0    4    9    15   26
n        1    2   MAX   3    4
count    1    2    ✗    3    1         ✗: sum + MAX overflows, the tuple is a dead letter and the group as it was;
sum      1    3         6    4         15 - 4 = 11 > 10 …

Tests `stateful_map.py`, `cep/compile/stateful.py`, `cep/compile/stateful_lowering.py`.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from cep.compile.stateful import compile_stateful, make_stateful
from cep.dataflow.dead_letters import DeadLetters
from cep.dataflow.operators.stateful_map import StatefulMapOperator
from cep.dataflow.outputs.text_codes import SWEEP_TEXTS
from cep.dataflow.state.group_memory import SWEEP_ROWS
from cep.dataflow.state.hold import Hold
from cep.errors import QueryError
from cep.kernels.jit import compilations, interpreted
from cep.model.expr import Cast, Expr, Literal, coalesce, col, lit
from cep.model.expr_functions import concat, hash_, when
from cep.model.operators import Map, StatefulMap, Union
from cep.model.schema import DataType, Schema
from cep.plan.validate import validate
from driver.builder.functions import udf
from tests.reference.expressions import Failed, evaluate
from tests.strategies import expressions, values_of
from tests.support.single_operator import (
    FLOATS,
    WORDS,
    Row,
    Tuple,
    as_planned,
    batch_of,
    drawn,
    key_of,
    made,
    planned_rows,
    query_of,
    run_alone,
    run_planned,
    run_restored,
    watermark,
    without_origins,
)

SCHEMA = Schema.of(
    {"t": "timestamp[us]", "word": "string?", "x": "float64?", "n": "int64?", "m": "int64", "small": "int32", "yes": "bool?"}
)
MAX = 2**63 - 1


def stateful(
    state: dict[str, Any], update: dict[str, Expr], fields: dict[str, Expr], by: tuple[str, ...] = ("word",), ttl: int | None = None
) -> StatefulMap:
    begins = tuple((name, value if isinstance(value, Literal) else lit(value)) for name, value in state.items())
    return StatefulMap("m", "s", by, ttl, begins, tuple(update.items()), tuple(fields.items()))  # type: ignore[arg-type]


COUNT = stateful({"count": 0}, {"count": col("count") + 1}, {"word": col("word"), "count": col("count")})
#: Each with something of its own.
CASES = {
    "count": COUNT,
    "sum that overflows": stateful(
        {"sum": 0, "rows": 0}, {"sum": col("sum") + col("m"), "rows": col("rows") + 1}, {"sum": col("sum"), "rows": col("rows")}, (), 7
    ),
    "both at once": stateful({"a": 0, "b": 1}, {"a": col("b"), "b": col("a") + col("b")}, {"a": col("a"), "b": col("b"), "m": col("m")}),
    "last and the one before": stateful(
        {"now": lit(None, "float64"), "before": lit(None, "float64")},
        {"now": col("x"), "before": col("now")},
        {"rise": col("now") - col("before"), "x": col("x"), "same": col("now") == col("before")},
        ("word", "yes"),
        12,
    ),
    "every type": stateful(
        {"i": lit(-1, "int32"), "b": False, "at": lit(None, "timestamp[us]"), "f": 0.5, "some": lit(None, "int64")},
        {
            "i": col("small"),
            "b": ~col("b") & coalesce(col("yes"), True),
            "at": col("t"),
            "f": col("f") * coalesce(col("x"), 1.0),
            "some": coalesce(col("n"), col("some")),
        },
        {"i": col("i"), "b": col("b"), "at": col("at"), "f": col("f"), "some": col("some"), "sum": col("i") + col("some")},
    ),
    "a field that fails": stateful(
        {"count": 0}, {"count": col("count") + 1}, {"left": lit(100) // (col("count") - 3), "n": col("n")}, ("x",)
    ),
    "text beside the state": stateful(
        {"count": 0},
        {"count": col("count") + coalesce(col("word").try_cast("int64"), 1)},
        {
            "some text": coalesce(col("word"), "none"),
            "word": col("word"),
            "a": (col("word") == "a") & (col("count") > 2),
            "count": col("count"),
        },
        ("small",),
    ),
}


CASES |= {
    "last text and the one before": stateful(
        {"now": lit(None, "string"), "before": "first"},
        {"now": col("word"), "before": coalesce(col("now"), "none")},
        {"now": col("now"), "before": col("before"), "same": col("now") == col("before"), "none": col("now").is_null(), "n": col("n")},
        ("small",),
        12,
    ),
    "text chosen and looked for": stateful(
        {"seen": "", "rows": 0},
        {"seen": when(col("seen") != "a", coalesce(col("word"), col("seen"))).otherwise(col("word")), "rows": col("rows") + 1},
        {
            "seen": col("seen").nullif("a"),
            "size": when(col("rows") > 3, "many").otherwise(col("word").upper()),
            "known": col("seen").is_in(["", "a", "b", *(f"{k}" for k in range(20))]) | col("yes"),
        },
        ("yes",),
    ),
    "text that fails where it is needed": stateful(
        {"text": "", "b": lit(b"\0", "binary"), "size": lit(None, "int64")},
        {
            "text": when(col("text") == "0", (lit(2) // col("m")).cast(str)).otherwise("0"),
            "b": coalesce(when(col("text") == "0", col("b")), col("word").cast("binary"), lit(b"", "binary")),
            "size": coalesce(col("size"), col("word").try_cast("int64"), (lit(2) // col("m")).cast(str).length()),
        },
        {"text": col("text"), "b": col("b"), "size": col("size")},
    ),
}


def operator(described: StatefulMap, letters: DeadLetters | None = None, limit: int = 1 << 30) -> StatefulMapOperator:
    compiled = compile_stateful(described, SCHEMA)
    hold = Hold(SCHEMA, 2, False)
    return StatefulMapOperator(described, compiled, hold, limit, lambda: 0, DeadLetters() if letters is None else letters)


def row(choose: random.Random) -> Row:
    return {
        "t": 0,
        "word": choose.choice((*WORDS, "7")),
        "x": choose.choice(FLOATS),
        "n": choose.choice((None, 1, -5)),
        "m": choose.choice((0, 1, 2, 3, MAX)),
        "small": choose.choice((0, 1, -(2**31))),
        "yes": choose.choice((None, True, False)),
    }


def timed(arrivals: Iterable[Tuple]) -> list[Tuple]:
    return [Tuple(each.time, each.origin, {**each.row, "t": each.time}) for each in arrivals]


def mapped(tuples: Iterable[Tuple], described: StatefulMap) -> list[Tuple]:
    """The oracle."""
    both = described.state_schema(SCHEMA)
    groups: dict[object, tuple[int, Row]] = {}
    begins = {name: evaluate(literal, both, {}) for name, literal in described.state}
    found = []
    for each in sorted(tuples, key=lambda each: each.place):
        key = key_of(each.row, described.by)
        last, state = groups.get(key, (each.time, begins))
        if described.ttl is not None and each.time - last > described.ttl:
            state = begins
        try:
            new = {name: evaluate(expr, both, {**each.row, **state}) for name, expr in described.update}
            out = {name: evaluate(expr, both, {**each.row, **new}) for name, expr in described.fields}
        except Failed:
            continue
        groups[key] = each.time, new
        found.append(Tuple(each.time, each.origin, out))
    return found


def test_the_drawing() -> None:
    described = stateful(
        {"count": 0, "sum": 0},
        {"count": col("count") + 1, "sum": col("sum") + col("m")},
        {"count": col("count"), "sum": col("sum")},
        (),
        10,
    )
    rows = [(0, 1), (4, 2), (9, MAX), (14, 3), (25, 4)]
    arrivals = timed(Tuple(t, (0, i), {**row(random.Random(0)), "m": m}) for i, (t, m) in enumerate(rows))
    letters = DeadLetters()
    out = run_alone(operator(described, letters), arrivals, SCHEMA, random.Random(0))
    assert [(each.time, *each.row.values()) for each in out] == [(0, 1, 1), (4, 2, 3), (14, 3, 6), (25, 1, 4)]
    (letter,) = letters.letters
    assert (letter.operator, letter.position) == ("m", "event time 1970-01-01T00:00:00.000009Z, record 2")
    assert letter.reason == "state 'sum': integer overflow in sum + m"


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", range(4))
def test_as_the_oracle(seed: int, case: str) -> None:
    choose, described = random.Random(repr((seed, case))), CASES[case]
    arrivals = timed(drawn(choose, choose.randrange(150), row))
    letters = DeadLetters()
    expected = mapped(arrivals, described)
    assert made(run_alone(operator(described, letters), arrivals, SCHEMA, choose)) == made(expected)
    assert letters.counts["m"] == len(arrivals) - len(expected)
    assert made(run_restored(lambda: operator(described), described.by, arrivals, SCHEMA, choose)) == made(expected)
    if seed == 0:
        with interpreted():
            assert made(run_alone(operator(described), arrivals, SCHEMA, choose)) == made(expected)


@pytest.mark.parametrize("case", CASES)
def test_in_a_plan(case: str) -> None:
    choose, described = random.Random(case), CASES[case]
    arrivals = timed(drawn(choose, 100, row))
    ran = run_planned(query_of(SCHEMA, described), arrivals, choose)
    expected = mapped(as_planned(arrivals), described)
    assert planned_rows(ran) == without_origins(expected)
    assert ran.dead["m"] == len(arrivals) - len(expected)


@pytest.mark.parametrize("seed", range(3))
def test_in_a_plan_where_tuples_tie(seed: int) -> None:
    """Two ways from one stream: of one event time and origin, the tuple with the lesser columns is taken first."""
    choose, described = random.Random(seed), replace(CASES["last and the one before"], input="u")
    arrivals = [replace(each, row={**each.row, "x": 0.5 * choose.randrange(9)}) for each in timed(drawn(choose, 60, row))]
    ways = [
        Map(name, "s", tuple((column, changed if column == "x" else col(column)) for column in SCHEMA.names))
        for name, changed in (("a", col("x") + 1.0), ("b", lit(2.0) - col("x")))
    ]
    base = query_of(SCHEMA, *ways, Union("u", ("a", "b")), described)
    both = [(each, x) for each in as_planned(arrivals) for x in sorted((each.row["x"] + 1.0, 2.0 - each.row["x"]))]
    doubled = [Tuple(each.time, (*each.origin, i), {**each.row, "x": x}) for i, (each, x) in enumerate(both)]
    assert planned_rows(run_planned(base, arrivals, choose)) == without_origins(mapped(doubled, described))


KINDS = {"integer": "int64", "float64": "float64", "bool": "bool", "timestamp": "timestamp[us]", "string": "string"}


@st.composite
def drawn_maps(draw: DrawFn) -> StatefulMap:
    """Any expressions over tuple and state. The first update of each makes its type."""
    kinds = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3))
    types = [DataType("timestamp", "us") if kind == "timestamp" else DataType(KINDS[kind]) for kind in kinds]
    begins = tuple((f"s{i}", Literal(draw(st.none() | values_of(type_)), type_)) for i, type_ in enumerate(types))
    both = Schema(SCHEMA.fields + tuple(Schema.of({name: f"{literal.type}?"}).fields[0] for name, literal in begins))
    updates = [(name, kind, literal.type) for (name, literal), kind in zip(begins, kinds, strict=True)]
    update = tuple((name, Cast(draw(expressions(both, kind)), type_, draw(st.booleans()))) for name, kind, type_ in updates)
    fields = tuple((f"f{i}", draw(expressions(both, draw(st.sampled_from(sorted(KINDS)))))) for i in range(2))
    by = draw(st.sampled_from(((), ("word",), ("yes",))))
    return StatefulMap("m", "s", by, draw(st.sampled_from((None, 5))), begins, update, fields + tuple((f"n{k}", col(k)) for k, _ in begins))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn_maps(), st.integers(0, 1000))
def test_any_expressions(described: StatefulMap, seed: int) -> None:
    choose = random.Random(seed)
    arrivals = timed(drawn(choose, 25, row))
    with interpreted():
        try:
            running = operator(described)
        except QueryError as error:
            assume("over the state" not in error.message)
            raise
        assert made(run_alone(running, arrivals, SCHEMA, choose)) == made(mapped(arrivals, described))


def test_queries_that_differ_in_literals_share_their_machine_code() -> None:
    ten = stateful({"count": 10}, {"count": col("count") + 5}, {"word": col("word"), "count": col("count")})
    assert make_stateful(ten, SCHEMA).loop.source.text == make_stateful(COUNT, SCHEMA).loop.source.text


def test_nothing_compiles_once_it_is_built() -> None:
    running = operator(COUNT)
    list(run_alone(operator(COUNT), timed(drawn(random.Random(0), 20, row)), SCHEMA, random.Random(0), end=False))  # its fixed kernels
    before = compilations()
    run_alone(running, timed(drawn(random.Random(1), 50, row)), SCHEMA, random.Random(1))
    assert compilations() == before


def test_groups_whose_ttl_has_passed_are_swept() -> None:
    running = operator(stateful({"count": 0}, {"count": col("count") + 1}, {"count": col("count")}, ("m",), 10))
    for start in range(0, 12 * SWEEP_ROWS, SWEEP_ROWS):
        rows = [Tuple(start + i, (0, start + i), {**row(random.Random(0)), "m": start + i, "t": 0}) for i in range(SWEEP_ROWS)]
        list(running.on_batch(batch_of(rows, SCHEMA), 0))
        assert {each.row["count"] for each in watermark(running, start + SWEEP_ROWS)} == {1}
    assert len(running.groups.numbers) < 3 * SWEEP_ROWS


def test_texts_that_no_group_has_any_more_are_swept() -> None:
    last = stateful(
        {"last": "", "before": ""}, {"last": col("word"), "before": col("last")}, {"last": col("last"), "before": col("before")}, ("yes",)
    )
    running = operator(last)
    before: list[str | None] = [""]
    for start in range(0, 8 * SWEEP_TEXTS, SWEEP_TEXTS):
        rows = [
            Tuple(i, (0, i), {**row(random.Random(0)), "word": f"{i} " * (1 + 9 * (i % 2)), "t": i})
            for i in range(start, start + SWEEP_TEXTS)
        ]
        list(running.on_batch(batch_of(rows, SCHEMA), 0))
        found = list(watermark(running, start + SWEEP_TEXTS))
        assert [each.row["last"] for each in found] == [each.row["word"] for each in rows]
        before += [each.row["last"] for each in found]
        assert [each.row["before"] for each in found] == before[start : start + SWEEP_TEXTS]
    assert running.state_bytes < 3 * SWEEP_TEXTS * 120


@pytest.mark.parametrize(
    ("described", "message", "pointer"),
    [
        (
            stateful({"s": lit(None, "list<int64>")}, {"s": col("s")}, {"s": col("s")}),
            "state 's': expected one of bool.*got list<int64>; a function",
            "/state/s",
        ),
        (stateful({"m": 0}, {"m": col("m")}, {"m": col("m")}), "the input has a column of that name", "/state/m"),
        (
            stateful({"s": "a"}, {"s": concat(col("s"), col("word"))}, {"s": col("s")}),
            "update 's': concat.s, word. is string, which cannot be computed over the state; give the state out as a field",
            "/update/s",
        ),
        (
            stateful({"s": "a"}, {"s": coalesce(col("word"), "")}, {"less": col("s") < "b"}),
            "fields 'less': s < 'b' is made from a text, which cannot be computed over the state; give the state out as a field",
            "/fields/less",
        ),
        (
            stateful({"rows": 0}, {"rows": udf("module:next", returns=int)(col("rows"))}, {"rows": col("rows")}),
            "update 'rows': module:next.rows. is a user's function .stateful_function keeps a state of its own., which cannot",
            "/update/rows",
        ),
    ],
)
def test_what_validation_refuses(described: StatefulMap, message: str, pointer: str) -> None:
    with pytest.raises(QueryError, match=message) as error:
        validate(query_of(SCHEMA, described), {})
    assert error.value.pointer == f"/operators/0{pointer}"


def test_a_hash_of_text_and_the_state_is_refused_when_it_is_compiled() -> None:
    described = stateful({"count": 0}, {"count": col("count") + 1}, {"text": hash_(col("word"), col("count"))})
    with pytest.raises(QueryError, match=r"operator 'm', fields 'text': .*\('count'\); give the state out as a field") as error:
        make_stateful(described, SCHEMA)
    assert error.value.pointer == "/fields/text"
