"""Chains: machine code == docs/arithmetic.md == the oracle, whatever the operators, batches and columns.

Tests `chain.py`, `arithmetic.py`, `casts.py`, `expressions.py`, `source.py`, `steps.py`, `text.py`.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from cep.compile.chain.chain import Chain, ChainResult, compile_chain, make_chain
from cep.errors import QueryError
from cep.kernels.columns import Column, Columns, columns_from_arrow, to_arrow
from cep.kernels.jit import compilations, interpreted
from cep.model.expr import FUNCTIONS, Binary, Call, Cast, Expr, Unary, coalesce, col, lit, now
from cep.model.expr_functions import try_, when
from cep.model.operators import Filter, Map
from cep.model.schema import UNIT_US, DataType, Field, Schema, parse_type
from tests.cep.model.test_types import tables
from tests.reference.expressions import Failed, evaluate
from tests.strategies import conditions, expressions, values_of

NOW_US = 1_700_000_000_000_000
Row = Mapping[str, Any]
Chained = tuple[Map | Filter, ...]


def mapped(name: str = "m", **fields: object) -> Map:
    return Map(name, "in", tuple((f, e if isinstance(e, Expr) else lit(e)) for f, e in fields.items()))


def kept(condition: Expr, name: str = "f") -> Filter:
    return Filter(name, "in", condition)


def columns_of(rows: Sequence[Row], schema: Schema) -> dict[str, Column]:
    """Timestamps are given as µs."""
    arrays = [pa.array([row[f.name] for row in rows], _plain(f.type)) for f in schema.fields]
    cast = [array.cast(f.type.arrow) for array, f in zip(arrays, schema.fields, strict=True)]
    return columns_from_arrow(pa.RecordBatch.from_arrays(cast, schema=schema.arrow), schema)


def _plain(type_: DataType) -> pa.DataType:
    return pa.int64() if type_.name == "timestamp" else type_.arrow


def rows_of(columns: Columns, schema: Schema) -> list[dict[str, Any]]:
    """Timestamps as µs."""
    arrays = {f.name: to_arrow(columns[f.name]) for f in schema.fields}
    plain = {name: a.cast(pa.int64()) if pa.types.is_timestamp(a.type) else a for name, a in arrays.items()}
    values = [array.to_pylist() for array in plain.values()]
    return [dict(zip(plain, row, strict=True)) for row in zip(*values, strict=True)]


def run(operators: Chained, schema: Schema, *rows: Row) -> tuple[list[dict[str, Any]], ChainResult]:
    chain = compile_chain(operators, schema)
    result = chain.process(columns_of(rows, schema), len(rows), NOW_US)
    return rows_of(result.columns, chain.schema), result


def same(a: Any, b: Any) -> bool:
    """To the bit, but for the payload of a NaN."""
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    return type(a) is type(b) and a == b


# --- the oracle ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Expected:
    rows: list[dict[str, Any]]
    kept: list[int]
    failed: list[tuple[str, int]]


def expected(operators: Chained, schema: Schema, rows: Sequence[Row]) -> Expected:
    """Row after row, operator after operator."""
    answer = Expected([], [], [])
    for i, row in enumerate(rows):
        through = _through(operators, schema, row)
        if isinstance(through, str):
            answer.failed.append((through, i))
        elif through is not None:
            answer.rows.append(through)
            answer.kept.append(i)
    return answer


def _through(operators: Chained, schema: Schema, row: Row) -> dict[str, Any] | str | None:
    """The row at the end; None if it was filtered; the operator in which it failed."""
    for operator in operators:
        try:
            if isinstance(operator, Filter):
                if evaluate(operator.condition, schema, row, NOW_US) is not True:
                    return None
            else:
                row = {name: evaluate(expression, schema, row, NOW_US) for name, expression in operator.fields}
        except Failed:
            return operator.name
        schema = make_chain((operator,), schema).schema
    return dict(row)


def assert_as_expected(chain: Chain, operators: Chained, schema: Schema, rows: Sequence[Row], columns: Columns) -> None:
    wanted = expected(operators, schema, rows)
    result = chain.process(columns, len(rows), NOW_US)
    assert [(failure.operator, failure.row) for failure in result.failures] == wanted.failed
    assert (list(range(len(rows))) if result.kept is None else result.kept.tolist()) == wanted.kept
    assert list(result.columns) == list(chain.schema.names)
    got = rows_of(result.columns, chain.schema)
    for i, (row, wanted_row) in enumerate(zip(got, wanted.rows, strict=True)):
        for name, value in row.items():
            assert same(value, wanted_row[name]), f"row {wanted.kept[i]}, {name}: {value!r}, not {wanted_row[name]!r}"
    for f in chain.schema.fields:
        assert f.nullable or result.columns[f.name].valid is None


# --- every cell of the documented tables -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """One line of the tables: `operation` of operands (type, value) gives a result, or fails for a reason."""

    line: str
    operation: str
    operands: tuple[tuple[Field, Any], ...]
    result: tuple[Field, Any] | None
    reason: str

    @property
    def structure(self) -> tuple[object, ...]:
        """Cells of one structure are one chain: an operation, or all functions that never fail, of operands of some types."""
        name = self.operation.split()[0]
        total = name in FUNCTIONS and name not in ("abs", "truncate", "parse_time")
        return ("" if total else self.operation, *(operand[0] for operand in self.operands))

    @property
    def writes_text(self) -> bool:
        return self.operation == "cast string" and not self.operands[0][0].type.is_text

    def expression(self, names: Sequence[str]) -> Expr:
        args = tuple(map(col, names))
        return operation(self.operation, args)


def operation(text: str, args: tuple[Expr, ...]) -> Expr:
    """What is written in a cell: words behind the name of a function are literals, behind `try` an operation."""
    name, *words = text.split()
    if name in ("cast", "try_cast"):
        return Cast(args[0], parse_type(words[0])[0], name == "try_cast")
    if name == "try":
        return try_(operation(" ".join(words), args))
    if name in FUNCTIONS:
        return Call(name, (*args, *(lit(int(word) if word.isdigit() else word) for word in words)))
    if len(args) == 1:
        return Unary({"neg": "-"}.get(name, name), args[0])
    return Binary(name, *args)


def operand(text: str) -> tuple[Field, Any]:
    type_, _, value = text.partition(" ")
    field = Field("", *parse_type(type_))
    return field, None if value == "NULL" else _value(value, field.type)


def _value(text: str, type_: DataType) -> Any:
    match type_.name:
        case "bool":
            return {"true": True, "false": False}[text]
        case "float64":
            return float(text)
        case "timestamp":
            return int(text) * UNIT_US.get(type_.unit or "us", 1) // (1000 if type_.unit == "ns" else 1)
        case "binary":
            return bytes.fromhex(text)
        case "string":
            return text
        case "list":
            return json.loads(text)
    return int(text)


def documented_cells() -> list[Cell]:
    rows = [row for table in tables() if table[0] == ["a", "operation", "b", "gives"] for row in table[1:]]
    return [
        Cell(
            " ".join((a, operation, b, "gives", gives)),
            operation,
            tuple(operand(text) for text in (a, b) if text),
            None if gives.startswith("fails") else operand(gives),
            gives.removeprefix("fails: "),
        )
        for a, operation, b, gives in rows
    ]


@cache
def cell_results() -> Mapping[str, tuple[Field, Any] | str]:
    """What machine code makes of every cell: a Map per structure, a field per operation, a row per cell."""
    results: dict[str, tuple[Field, Any] | str] = {}
    cells = documented_cells()
    for structure in {cell.structure: None for cell in cells}:
        of = [cell for cell in cells if cell.structure == structure]
        names = ("a", "b")[: len(of[0].operands)]
        schema = Schema(tuple(Field(n, o[0].type, o[0].nullable) for n, o in zip(names, of[0].operands, strict=True)))
        fields = {cell.operation: f"x{k}" for k, cell in enumerate(of)}
        by_name = {name: operation(text, tuple(map(col, names))) for text, name in fields.items()}
        chain = compile_chain((mapped(**by_name),), schema)
        rows = [{n: o[1] for n, o in zip(names, cell.operands, strict=True)} for cell in of]
        result = chain.process(columns_of(rows, schema), len(rows), NOW_US)
        values = iter(rows_of(result.columns, chain.schema))
        failed = {failure.row: failure.reason for failure in result.failures}
        for i, cell in enumerate(of):
            name = fields[cell.operation]
            results[cell.line] = failed[i] if i in failed else (chain.schema[name], next(values)[name])
    return results


@pytest.mark.parametrize("cell", documented_cells(), ids=lambda cell: cell.line)
def test_documented_cell(cell: Cell) -> None:
    result = cell_results()[cell.line]
    schema = Schema(tuple(Field(n, o[0].type, o[0].nullable) for n, o in zip("ab", cell.operands, strict=False)))
    row = {n: o[1] for n, o in zip("ab", cell.operands, strict=False)}
    expression = cell.expression(schema.names)
    if cell.result is None:
        assert isinstance(result, str) and f": {cell.reason} in " in result
        if not cell.writes_text:
            with pytest.raises(Failed):
                evaluate(expression, schema, row)
    else:
        wanted, value = cell.result
        assert not isinstance(result, str)
        assert (result[0].type, result[0].nullable) == (wanted.type, wanted.nullable)
        assert same(result[1], value)
        if not cell.writes_text:  # which the oracle does not
            assert same(evaluate(expression, schema, row), value)


# --- any chain, any rows ---------------------------------------------------------------------------------------------

TYPES = ("bool", "int32", "int64", "float64", "timestamp[ms]", "string", "binary", "list<string>")
ANY = Schema.of({f"{t[:3]}{'n' * n}{i}": t + "?" * n for t in TYPES for n in (0, 1) for i in range(2)})
KINDS = ("integer", "float64", "bool", "timestamp", "string", "binary", "list")


@st.composite
def chains(draw: DrawFn, operators_max: int = 4, fields_max: int = 4, depth: int = 3) -> Chained:
    schema, operators = ANY, []
    for index in range(draw(st.integers(1, operators_max))):
        if draw(st.booleans()):
            operators.append(kept(draw(conditions(schema)), f"f{index}"))
            continue
        fields = [
            (f"x{k}", draw(expressions(schema, draw(st.sampled_from(KINDS)), depth))) for k in range(draw(st.integers(1, fields_max)))
        ]
        picks = [(name, col(name)) for name in draw(st.lists(st.sampled_from(schema.names), unique=True, max_size=4))]
        operators.append(Map(f"m{index}", "in", tuple(dict(picks + fields).items())))
        schema = make_chain((operators[-1],), schema).schema
    return tuple(operators)


@st.composite
def many_rows(draw: DrawFn, size: int) -> list[Row]:
    """Drawn pools of values, mixed by a drawn seed: many rows for few decisions."""
    pools = {f.name: draw(st.lists(values_of(f.type), min_size=3, max_size=8)) for f in ANY.fields}
    shuffle = random.Random(draw(st.integers(0, 2**32)))

    def cell(f: Field) -> Any:
        return None if f.nullable and shuffle.random() < 0.25 else shuffle.choice(pools[f.name])

    return [{f.name: cell(f) for f in ANY.fields} for _ in range(size)]


@pytest.fixture
def private_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources of random chains are for this run only."""
    monkeypatch.setenv("CEP_KERNEL_CACHE", str(tmp_path))


SLOW = (HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large)


@given(operators=chains(), rows=many_rows(12))
@settings(suppress_health_check=SLOW)
def test_any_chain_interpreted_is_the_oracle(operators: Chained, rows: list[Row], private_cache: None) -> None:
    with interpreted():
        assert_as_expected(make_chain(operators, ANY), operators, ANY, rows, columns_of(rows, ANY))


@given(operators=chains(2, 5), rows=many_rows(200))
@settings(max_examples=5, deadline=None, derandomize=True, database=None, suppress_health_check=SLOW)
def test_any_chain_compiled_is_the_oracle(operators: Chained, rows: list[Row]) -> None:
    assert_as_expected(compile_chain(operators, ANY), operators, ANY, rows, columns_of(rows, ANY))


@pytest.mark.long
@given(operators=chains(), rows=many_rows(200))
@settings(max_examples=500, deadline=None, suppress_health_check=SLOW)
def test_any_chain_compiled_is_the_oracle_at_length(operators: Chained, rows: list[Row], private_cache: None) -> None:
    assert_as_expected(compile_chain(operators, ANY), operators, ANY, rows, columns_of(rows, ANY))


@given(operators=chains(), rows=many_rows(12), cut=st.integers(0, 12))
@settings(max_examples=20, deadline=None, suppress_health_check=SLOW)
def test_cutting_into_batches_changes_nothing(operators: Chained, rows: list[Row], cut: int, private_cache: None) -> None:
    with interpreted():
        chain = make_chain(operators, ANY)
        columns = columns_of(rows, ANY)
        for part, part_rows in ((slice(0, cut), rows[:cut]), (slice(cut, None), rows[cut:])):
            assert_as_expected(chain, operators, ANY, part_rows, {name: column.take(part) for name, column in columns.items()})


EXTREMES = [0, 1, -1, 5, -5, 2**31, 2**62, -(2**62), 2**63 - 1, -(2**63) + 1, -(2**63)]
SUMMED = Schema.of({"a": int, "n": "int64?", "x": float})


@st.composite
def chains_of_sums(draw: DrawFn) -> Chained:
    """Maps that add literals and take literals away, and now and then do something else that has a place in the order of failures."""
    operators: list[Map | Filter] = []
    for k in range(draw(st.integers(1, 6))):
        a, n, amount = col("a"), col("n"), lit(draw(st.sampled_from(EXTREMES[:-1])))
        one, other = (
            draw(st.sampled_from([a + amount, a - amount, a, a + amount + 1, a * 2])),
            draw(st.sampled_from([n + amount, n - 1, n])),
        )
        operators.append(mapped(f"m{k}", a=one, n=other, x=draw(st.sampled_from([col("x"), col("x") + 1.0]))))
        if draw(st.integers(0, 5)) == 0:
            operators.append(kept(col("a") > draw(st.sampled_from(EXTREMES)), f"f{k}"))
    return tuple(operators)


SUMMED_ROWS = st.lists(
    st.fixed_dictionaries({"a": st.sampled_from(EXTREMES), "n": st.none() | st.sampled_from(EXTREMES), "x": st.floats(allow_nan=False)}),
    min_size=1,
    max_size=8,
)


@given(operators=chains_of_sums(), rows=SUMMED_ROWS)
@settings(suppress_health_check=SLOW)
def test_sums_checked_together_fail_where_they_would_alone(operators: Chained, rows: list[Row], private_cache: None) -> None:
    with interpreted():
        assert_as_expected(make_chain(operators, SUMMED), operators, SUMMED, rows, columns_of(rows, SUMMED))


@pytest.mark.parametrize("rows", [[1, 2**62], [1, 2**63 - 50, 2**63 - 49, 2**63 - 1, -(2**63)]], ids=["none fails", "some fail"])
def test_fifty_sums_are_one(rows: list[int]) -> None:
    """Compiled; each row that fails does so in the map whose sum is the first that does not fit."""
    schema = Schema.of({"a": int})
    maps = tuple(mapped(f"m{k}", a=col("a") + 1) for k in range(50))
    chain = compile_chain(maps, schema)
    assert chain.loops[0].source.text.count("if sum_overflows(c0[i]") == 50
    assert "if excess >= 0:" in chain.loops[0].source.text
    given_rows = [{"a": a} for a in rows]
    assert_as_expected(chain, maps, schema, given_rows, columns_of(given_rows, schema))


# --- loops -----------------------------------------------------------------------------------------------------------

PLAIN = Schema.of({"x": float, "i": int, "n": "int64?", "s": str, "t": "timestamp[ms]"})
ROWS = [
    {"x": 0.5, "i": 7, "n": None, "s": "USA", "t": 1_000_000},
    {"x": math.nan, "i": 0, "n": 5, "s": "", "t": 2_000_000},
    {"x": -1.5, "i": 2**63 - 1, "n": -5, "s": "USB", "t": 3_000_000},
]


def test_fifty_maps_are_one_loop_without_arrays_between() -> None:
    maps = tuple(mapped(f"m{k}", x=col("x") * 0.5 + 1.0) for k in range(50))
    chain = compile_chain(maps, PLAIN)
    assert len(chain.parts) == len(chain.loops) == 1
    assert len(chain.loops[0].source.outputs) == 1
    values = np.random.default_rng(1).normal(size=1000) * 1e6
    wanted = values
    for _ in range(50):
        wanted = wanted * 0.5 + 1.0
    got = chain.process({"x": Column(DataType("float64"), values)}, 1000, NOW_US).columns["x"].values
    assert (got == wanted).all()


def test_maps_and_filters_of_numbers_and_text_comparisons_are_one_loop() -> None:
    operators = (
        kept(col("s") != "x"),
        mapped(y=col("i") % 10, s=col("s")),
        kept((col("y") > 0) & (col("s") >= "A"), "g"),
        mapped("n", z=col("y") * 2),
    )
    rows, result = run(operators, PLAIN, *ROWS)
    assert len(compile_chain(operators, PLAIN).parts) == 1
    assert rows == [{"z": 14}, {"z": 14}] and result.kept is not None and result.kept.tolist() == [0, 2]


def test_picks_are_no_loop_and_no_copy() -> None:
    chain = compile_chain((mapped(a=col("x"), b=col("s")), mapped("n", s=col("b"), c=col("a"))), PLAIN)
    columns = columns_of(ROWS, PLAIN)
    result = chain.process(columns, 3, NOW_US)
    assert not chain.loops and result.kept is None
    assert result.columns == {"s": columns["s"], "c": columns["x"]}
    assert result.columns["c"] is columns["x"]


def test_a_column_that_passes_is_not_copied_if_all_rows_stay() -> None:
    chain = compile_chain((kept(col("i") >= 0), mapped(x=col("x"), y=col("i") - 1)), PLAIN)
    columns = columns_of(ROWS, PLAIN)
    assert chain.process(columns, 3, NOW_US).columns["x"] is columns["x"]


def test_a_cast_that_changes_no_bits_passes_the_column() -> None:
    schema = Schema.of({"t": "timestamp[ms]", "s": str})
    chain = compile_chain((mapped(t=col("t").cast("timestamp[s]"), s=col("s").cast("binary")),), schema)
    columns = columns_of([{"t": 5, "s": "a"}], schema)
    result = chain.process(columns, 1, NOW_US)
    assert not chain.loops
    assert result.columns["t"].values is columns["t"].values
    assert [str(c.type) for c in result.columns.values()] == ["timestamp[s]", "binary"] == [str(f.type) for f in chain.schema.fields]


def test_queries_that_differ_in_literals_share_the_machine_code() -> None:
    def chain(factor: float, text: str) -> Chain:
        return compile_chain((kept(col("s") == text), mapped(y=col("x") * factor, z=lit(3) + col("i"))), PLAIN)

    one, other = chain(2.0, "USA"), chain(-1e9, "a longer text")
    assert one.loops[0].kernel is other.loops[0].kernel


def test_nothing_compiles_after_compile_chain() -> None:
    operators = (
        mapped(y=col("s").try_cast(int), s=col("n").cast(str), i=col("i")),
        mapped("b", u=coalesce(col("s"), "none").cast("binary"), k=lit("text"), v=col("s").try_cast("timestamp[ms]")),
        mapped("c", w=col("u").try_cast(str), k=col("k"), f=col("k").try_cast(float), g=col("k").try_cast("int32")),
    )
    chain = compile_chain(operators, PLAIN)
    before = compilations()
    chain.process(columns_of(ROWS, PLAIN), 3, NOW_US)
    assert compilations() == before


@pytest.mark.parametrize("n", [0, 1, 3])
def test_batches_of_any_size(n: int) -> None:
    operators = (kept(col("x") < 1.0), mapped(y=col("i") % 5, z=col("s"), u=coalesce(col("s"), "x"), k=lit("k")))
    chain = compile_chain(operators, PLAIN)
    assert_as_expected(chain, operators, PLAIN, ROWS[:n], columns_of(ROWS[:n], PLAIN))


def test_no_operators_pass_everything() -> None:
    columns = columns_of(ROWS, PLAIN)
    assert compile_chain((), PLAIN).process(columns, 3, NOW_US) == ChainResult(columns, None, ())


def test_columns_that_nobody_reads_may_be_left_out() -> None:
    columns = columns_of(ROWS, PLAIN)
    del columns["t"], columns["n"]
    result = compile_chain((kept(col("i") > 0),), PLAIN).process(columns, 3, NOW_US)
    assert list(result.columns) == ["x", "i", "s"]


def test_columns_from_a_block_of_text_and_from_unaligned_buffers() -> None:
    data = np.frombuffer(b"xUSAyUSB" + b"\0" * 16, np.uint8)
    text = Column(DataType("string"), np.array([3, 0, 3], np.int32), None, data, np.array([5, 8, 1]))
    unaligned = np.frombuffer(b"-" + np.arange(3, dtype=np.int64).tobytes(), np.uint8)[1:].view(np.int64)
    chain = compile_chain((kept(col("s") >= "USA"), mapped(s=col("s"), j=col("i") + 1)), PLAIN)
    result = chain.process({"s": text, "i": Column(DataType("int64"), unaligned)}, 3, NOW_US)
    assert rows_of(result.columns, chain.schema) == [{"s": "USB", "j": 1}, {"s": "USA", "j": 3}]


def test_now_is_the_same_for_the_whole_batch() -> None:
    rows, _ = run((mapped(at=now(), age=now() - col("t")),), PLAIN, *ROWS)
    assert rows == [{"at": NOW_US, "age": NOW_US - row["t"]} for row in ROWS]


def test_an_integer_literal_is_an_instant_in_the_unit_of_what_it_is_compared_with() -> None:
    rows, _ = run((kept((col("t") >= 2000) & (col("t") != "1970-01-01T00:00:03Z")), mapped(t=col("t"))), PLAIN, *ROWS)
    assert rows == [{"t": 2_000_000}]


def test_a_timestamp_to_an_integer_is_rounded_down_to_its_unit() -> None:
    operators = (mapped(a=(col("t") - 1).cast(int), b=(col("t") - 1_000_001).cast(int)),)
    assert run(operators, PLAIN, ROWS[0])[0] == [{"a": 999, "b": -1}]


def test_a_validity_without_a_null_is_left_out() -> None:
    rows, result = run((mapped(n=col("n") + 1),), PLAIN, *ROWS[1:])
    assert rows == [{"n": 6}, {"n": -4}] and result.columns["n"].valid is None


# --- failures --------------------------------------------------------------------------------------------------------


def test_failed_rows_leave_with_operator_row_and_reason_and_the_others_go_on() -> None:
    operators = (
        mapped(q=lit(100) // col("i"), i=col("i"), x=col("x")),
        kept(col("q") < 50),
        mapped("late", y=col("i") + 1, s=col("x").cast(int).cast(str)),
    )
    rows, result = run(operators, PLAIN, *ROWS, {**ROWS[0], "x": 1e300}, {**ROWS[0], "i": 1})
    assert rows == [{"y": 8, "s": "0"}]
    assert result.kept is not None and result.kept.tolist() == [0]
    assert [(f.operator, f.row, f.reason) for f in result.failures] == [
        ("m", 1, "field 'q': integer division by zero in 100 // i"),
        ("late", 2, "field 'y': integer overflow in i + 1"),
        ("late", 3, "field 's': value does not fit in cast(x as int64)"),
    ]


def test_failures_in_conditions_and_in_casts_to_text() -> None:
    schema = Schema.of({"i": int, "b": "binary"})
    operators = (kept(col("i") * 2 > 0), mapped(s=col("b").cast(str)))
    good, wrapped, not_utf8 = {"i": 1, "b": b"x"}, {"i": 2**62, "b": b"x"}, {"i": 1, "b": b"\xff"}
    rows, result = run(operators, schema, not_utf8, good, wrapped)
    assert rows == [{"s": "x"}]
    assert [(f.operator, f.row, f.reason) for f in result.failures] == [
        ("m", 0, "field 's': value does not fit in cast(b as string)"),
        ("f", 2, "condition: integer overflow in i * 2"),
    ]


def test_bytes_that_are_no_text_reach_no_function_of_texts() -> None:
    """Neither where another branch answers, nor where the row fails."""
    schema = Schema.of({"ok": bool, "s": str, "b": "binary"})
    text = when(col("ok"), col("s")).otherwise(col("b").cast(str).lower())
    rows, result = run((mapped(s=text),), schema, {"ok": True, "s": "a", "b": b"\xff"}, {"ok": False, "s": "a", "b": b"\xff"})
    assert rows == [{"s": "a"}] and [failure.row for failure in result.failures] == [1]


OPEN = Schema.of({"i": int, "n": "int64?", "s": str, "b": "binary", "m": "string?"})
ZERO = {"i": 0, "n": 1, "s": "", "b": b"z", "m": None}
FIVE = {"i": 5, "n": None, "s": "7", "b": b"\xff", "m": "m"}


@pytest.mark.parametrize(
    "condition",
    [
        (col("i") != 0) & (10 // col("i") > 0),
        ~((col("i") == 0) | (10 // col("i") <= 0)),
        coalesce(col("n"), 10 // col("i")) > 0,
        (col("s") != "") & (col("s").cast(int) > 0),
        (col("i") != 0) & ((10 // col("i")).cast(str) != ""),
        (col("i") == 0) | ((10 // col("i")).cast(str).cast(int) == 2),
        coalesce(col("b").try_cast(str), (10 // col("i")).cast(str)) != "",
        coalesce(col("m"), col("b").cast(str)) != "",
        (col("i") == 5) | ~((col("b").cast(str) == "z") | (col("s").cast(int) < 5)),
    ],
)
def test_and_or_and_coalesce_do_not_compute_what_is_not_needed(condition: Expr) -> None:
    rows, result = run((kept(condition),), OPEN, ZERO, FIVE)
    assert FIVE in rows and not result.failures


@pytest.mark.parametrize(
    "condition",
    [
        (col("n") > 0) & (col("b").cast(str) == "x"),
        (col("n") > 0) | ((10 // (col("i") - 5)).cast(str) == ""),
        coalesce(col("n"), col("b").cast(str).cast(int)) > 0,
        (col("i") == 5) & (coalesce(col("b").try_cast(str), (1 // (col("i") - 5)).cast(str)) != ""),
    ],
)
def test_what_is_needed_beside_a_null_fails(condition: Expr) -> None:
    _, result = run((kept(condition),), OPEN, ZERO, FIVE)
    assert [failure.row for failure in result.failures] == [1]


def test_a_row_dropped_by_a_filter_cannot_fail_later() -> None:
    operators = (kept(col("i") != 0), mapped(q=10 // col("i"), s=col("s").cast(int)))
    rows, result = run(operators, Schema.of({"i": int, "s": str}), {"i": 0, "s": "x"}, {"i": 5, "s": "7"})
    assert rows == [{"q": 2, "s": 7}] and not result.failures


def test_a_chain_that_does_not_fit_is_refused() -> None:
    with pytest.raises(QueryError, match="operator 'f', condition: no column 'x'; there are y"):
        compile_chain((mapped(y=col("x")), kept(col("x") > 0)), PLAIN)


# --- text ------------------------------------------------------------------------------------------------------------

WRITTEN = Schema.of({"i": int, "j": "int32", "f": float, "p": bool, "t": "timestamp[us]"})
YEAR_1_US, YEAR_9999_US = -62_135_596_800_000_000, 253_402_300_799_999_999


@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {f.name: values_of(f.type) for f in WRITTEN.fields if f.name != "t"} | {"t": st.integers(YEAR_1_US, YEAR_9999_US)}
        )
    )
)
def test_what_is_written_as_text_reads_back_as_the_same(rows: list[Row]) -> None:
    back = mapped(**{f.name: col(f.name).cast(str).cast(f.type) for f in WRITTEN.fields})
    got, result = run((back,), WRITTEN, *rows)
    assert not result.failures
    assert all(same(row[name], wanted[name]) for row, wanted in zip(got, rows, strict=True) for name in row)


def test_text_taken_for_bytes_compares_with_bytes_also_where_it_is_null() -> None:
    schema = Schema.of({"s": "string?", "b": "binary"})
    fields = {
        "column": col("s").cast("binary") == col("b"),
        "literal": lit("é").cast("binary") == col("b"),
        "null": lit(None, "string").cast("binary") == col("b"),
    }
    rows, _ = run((mapped(**fields),), schema, {"s": "é", "b": "é".encode()}, {"s": None, "b": b"\xff"})
    assert rows == [{"column": True, "literal": True, "null": None}, {"column": None, "literal": False, "null": None}]


@pytest.mark.parametrize("text", ["", " 1", "1 ", "+", "1_0", "0x10", "1.", "1e3", "--1", "٣", "1\0", "nan", "2024-02-30"])
def test_texts_that_are_no_integers_of_any_type(text: str) -> None:
    fields = {name: col("s").try_cast(name) for name in ("int32", "int64", "timestamp", "timestamp[ms]", "bool")}
    rows, _ = run((mapped(**fields),), Schema.of({"s": str}), {"s": text})
    assert rows == [dict.fromkeys(fields)]
