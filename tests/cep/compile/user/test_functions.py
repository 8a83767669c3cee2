"""Users' functions in expressions: which may run, what becomes of each row, compiled and not; and how they get into a cluster.

Tests `functions.py`, `rows.py`, `values.py`, `cep/kernels/machine/user_code.py`, `driver/builder/functions.py`,
`driver/builder/own_functions.py`.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cep.compile.chain.chain import Chain, compile_chain
from cep.compile.user.functions import allowed, resolve_function
from cep.compile.user.rows import Failures, RowFunction
from cep.compile.user.values import column_of_values, python_values
from cep.errors import ClusterError, QueryError
from cep.kernels.columns import columns_from_arrow
from cep.kernels.jit import compilations, interpreted
from cep.model import expr as expressions
from cep.model import query as queries
from cep.model.expr import Expr, coalesce, col, lit
from cep.model.expr_functions import try_, when
from cep.model.operators import Filter, Map
from cep.model.references import check_references, references_in
from cep.model.schema import Field, Schema, parse_type
from driver.builder.functions import udf
from driver.builder.own_functions import forget, module_source, register_functions
from driver.local import _folder_of as folder_of
from tests.support import functions_of_users as functions
from tests.support.paths import ROOT
from tests.support.single_operator import Tuple, as_planned, planned_rows, query_of, run_planned, without_origins

MODULE = "tests.support.functions_of_users"


@pytest.fixture(autouse=True)
def _modules() -> Iterator[None]:
    with allowed(MODULE):
        yield


# --- which may run ---------------------------------------------------------------------------------------------------


def test_what_a_module_defines_may_run() -> None:
    assert resolve_function(f"{MODULE}:ratio") is functions.ratio
    assert resolve_function(f"{MODULE}:Longest") is functions.Longest


NOT_THERE = [
    ("os:system", "not started with module 'os'.*functions of the modules it was started with only.*cep up --module os.*LocalCluster"),
    (f"{MODULE}:path_exists", "expected a function that module .* defines.*it is defined in 'genericpath'"),
    (f"{MODULE}:os.path.exists", "expected a function that module .* defines"),
    (f"{MODULE}:nothing", "there is no 'nothing' in module"),
    (f"{MODULE}:_untyped", "expected a function that module .* defines, got \\[0.5"),
    (f"{MODULE}:_untyped.append", "expected a function that module .* defines"),
    (f"{MODULE}:ratio.__globals__", "expected 'module:name'"),
    ("ratio", "expected 'module:name'"),
    ("", "expected 'module:name'"),
]


@pytest.mark.parametrize(("reference", "message"), NOT_THERE)
def test_nothing_else_may(reference: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        resolve_function(reference)


def test_a_module_that_cannot_be_imported() -> None:
    with allowed("no_such_module"), pytest.raises(QueryError, match="module 'no_such_module' cannot be imported: ModuleNotFoundError"):
        resolve_function("no_such_module:f")


def test_where_a_document_names_functions() -> None:
    schema = Schema.of({"t": "timestamp[us]", "n": int})
    asked = query_of(schema, Map("m", "s", (("x/y", col("n") + udf("other:f", int)(col("n"))), ("n", col("n")))))
    document = queries.to_json(asked)
    assert list(references_in(document)) == [("other:f", "/operators/0/fields/x~1y/args/1/udf")]
    check_references(document, ("other",))
    with pytest.raises(QueryError) as caught:
        check_references(document, ("mine", "yours"))
    assert "(mine, yours)" in caught.value.message and caught.value.pointer == "/operators/0/fields/x~1y/args/1/udf"


# --- row by row ------------------------------------------------------------------------------------------------------


def called(name: str, arguments: Sequence[str], rows: Sequence[tuple[Any, ...]], returns: str) -> tuple[list[Any], Failures, RowFunction]:
    """What it makes of rows, where none of the values is NULL."""
    types = [parse_type(argument)[0] for argument in arguments]
    function = RowFunction(f"{MODULE}:{name}", types, Field("", *parse_type(returns)))
    function.warm()
    columns = [column_of_values([row[k] for row in rows], type_) for k, type_ in enumerate(types)]
    made, failures = function.run(columns, np.array([None not in row for row in rows], np.uint8))
    return python_values(made), failures, function


CALLS: list[tuple[str, list[str], list[tuple[Any, ...]], str, list[Any]]] = [
    ("ratio", ["int64", "int32"], [(1, 2), (2, 0), (None, 1), (6, 3)], "float64", [0.5, ZeroDivisionError, None, 2.0]),
    ("half", ["float64"], [(1.0,), (4.0,)], "float64?", [None, 2.0]),
    ("half", ["float64"], [(1.0,), (4.0,)], "float64", ["expected float64, got NoneType", 2.0]),
    ("is_late", ["timestamp"], [(600_000,), (400_000,)], "bool", [True, False]),
    ("next_second", ["timestamp[ms]"], [(600_000,)], "timestamp", [1_000_000]),
    ("large", ["int64"], [(1,), (3,)], "int32", [10**9, "expected int32, from -2147483648 to 2147483647, got 3000000000"]),
    ("picky", ["int64"], [(1,), (3,), (4,), (6,)], "int64", [2, "a multiple of three", 5, "a multiple of three"]),
    ("three", [], [(), ()], "int64", [3, 3]),
]


@pytest.mark.parametrize(("name", "arguments", "rows", "returns", "expected"), CALLS)
def test_compiled_and_not_are_one(name: str, arguments: list[str], rows: list[tuple[Any, ...]], returns: str, expected: list[Any]) -> None:
    values, failures, function = called(name, arguments, rows, returns)
    assert function.notes == ()
    with interpreted():
        assert called(name, arguments, rows, returns)[:2] == (values, failures)
    failed = dict(failures)
    for row, wanted in enumerate(expected):
        if isinstance(wanted, str | type):
            assert values[row] is None
            assert (wanted if isinstance(wanted, str) else wanted.__name__) in failed.pop(row)
        else:
            assert values[row] == wanted
    assert failed == {}


SLOW = [
    ("shout", ["string"], [("a",), (None,)], "string", ["A!", None], "string is not compiled"),
    ("of_two_kinds", ["int64"], [(2,), (3,)], "int64", [2, "expected int64, got str '3'"], "Numba does not compile it: .*list"),
    ("half", ["float64"], [(4.0,)], "int64", ["expected int64, got float 2.0"], "it returns .*float64.* where int64 is declared"),
]


@pytest.mark.parametrize(("name", "arguments", "rows", "returns", "expected", "why"), SLOW)
def test_what_numba_refuses_runs_and_says_so(
    name: str, arguments: list[str], rows: list[tuple[Any, ...]], returns: str, expected: list[Any], why: str
) -> None:
    values, failures, function = called(name, arguments, rows, returns)
    (note,) = function.notes
    assert re.search(f"function '{MODULE}:{name}' runs row by row as plain Python, \\d+ times slower than compiled or more: .*{why}", note)
    assert "\n" not in note
    failed = dict(failures)
    assert all(wanted in failed[row] if row in failed else values[row] == wanted for row, wanted in enumerate(expected))


def test_many_rows_with_failures() -> None:
    choose = random.Random(1)
    rows = [(choose.randrange(100), choose.choice((0, 1, 2, None))) for _ in range(5000)]
    values, failures, _ = called("ratio", ["int64", "int64"], rows, "float64")
    assert values == [a / b if b else None for a, b in rows]
    assert [row for row, _ in failures] == [row for row, (_, b) in enumerate(rows) if b == 0]


# --- in chains -------------------------------------------------------------------------------------------------------

SCHEMA = Schema.of({"a": "int64", "b": "int64?", "text": "string"})
RATIO = udf(functions.ratio)
ROWS = [(1, 2, "x"), (2, 0, "y"), (3, None, "z"), (9, 3, "x")]


def chain(*operators: Map | Filter) -> Chain:
    return compile_chain(operators, SCHEMA)


def through(made: Chain) -> tuple[list[tuple[Any, ...]], list[tuple[str, int, str]]]:
    """Rows out of ROWS, and failures."""
    batch = pa.RecordBatch.from_arrays([pa.array(column) for column in zip(*ROWS, strict=True)], schema=SCHEMA.arrow)
    result = made.process(columns_from_arrow(batch, SCHEMA), len(ROWS), 0)
    columns = [python_values(result.columns[name]) for name in made.schema.names]
    return list(zip(*columns, strict=True)), [(each.operator, each.row, each.reason) for each in result.failures]


def test_a_row_that_fails_goes_to_the_dead_letters_and_the_rest_goes_on() -> None:
    rows, failures = through(chain(Map("m", "s", (("r", RATIO(col("a"), col("b")) * 2), ("a", col("a"))))))
    assert rows == [(1.0, 1), (None, 3), (6.0, 9)]
    assert failures == [("m", 1, "field 'r': ratio(2, 0): ZeroDivisionError: division by zero")]


def test_in_a_filter_between_loops() -> None:
    made = chain(
        Map("m", "s", (("a", col("a") + 1), ("b", col("b")), ("text", col("text")))),
        Filter("f", "m", (RATIO(col("a") * 2, 1) > 4.0) & (udf("tests.support.functions_of_users:shout", str)(col("text")) != "Z!")),
        Map("n", "f", (("back", col("a") - 1), ("text", udf(functions.shout)(col("text"))))),
    )
    assert through(made) == ([(2, "Y!"), (9, "X!")], [])
    assert len(made.notes) == 2


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (coalesce(col("b"), RATIO(col("a"), 0).cast("int64")), [2, 0, "dead", 3]),
        (coalesce(RATIO(col("a"), col("b")), 7.0), [0.5, "dead", 7.0, 3.0]),
        ((col("b") != 0) & (RATIO(col("a"), col("b")) > 1.0), [False, False, None, True]),
        (when(col("b") == 0, -1.0).otherwise(RATIO(col("a"), col("b"))), [0.5, -1.0, None, 3.0]),
        (try_(RATIO(col("a"), col("b"))), [0.5, None, None, 3.0]),
        (
            try_(udf(functions.shout)(udf("tests.support.functions_of_users:of_two_kinds", "string")(col("a")))),
            ["1!", None, "3!", "9!"],
        ),
        (RATIO(udf(functions.picky)(col("a")), 2), [1.0, 1.5, "dead", "dead"]),
        (RATIO(lit(1), col("a")), [1.0, 0.5, 1 / 3, 1 / 9]),
        (RATIO(lit(None, "int64"), col("a")), [None, None, None, None]),
    ],
)
def test_called_only_where_it_is_needed(expr: Expr, expected: list[Any]) -> None:
    made = chain(Map("m", "s", (("x", expr),)))
    rows, failures = through(made)
    assert [row for _, row, _ in failures] == [row for row, wanted in enumerate(expected) if wanted == "dead"]
    assert [value for (value,) in rows] == [wanted for wanted in expected if wanted != "dead"]


def test_one_call_in_two_places_is_made_wherever_it_is_needed() -> None:
    length = udf(functions.shout)(col("text")).length()
    rows, _ = through(chain(Map("m", "s", (("x", when(col("a") > 2, length).otherwise(0)), ("y", length)))))
    assert rows == [(0, 2), (0, 2), (2, 2), (2, 2)]


def test_nothing_compiles_after_it_is_ready() -> None:
    made = chain(Map("m", "s", (("r", RATIO(col("a"), col("b"))), ("s", udf(functions.shout)(col("text"))))))
    before = compilations()
    through(made)
    assert compilations() == before


def test_in_a_plan() -> None:
    schema = Schema.of({"t": "timestamp[us]", "a": "int64", "b": "int64"})
    choose = random.Random(4)
    arrivals = [Tuple(t, (t % 2, t), {"t": t, "a": choose.randrange(9), "b": choose.randrange(3)}) for t in range(200)]
    asked = query_of(schema, Map("m", "s", (("r", RATIO(col("a"), col("b"))), ("t", col("t")))))
    ran = run_planned(asked, arrivals, choose)
    kept = [Tuple(each.time, each.origin, {"r": each.row["a"] / each.row["b"], "t": each.time}) for each in arrivals if each.row["b"]]
    assert planned_rows(ran) == without_origins(as_planned(kept))
    assert ran.dead == {"m": len(arrivals) - len(kept)}


def test_json_is_the_identity() -> None:
    document = expressions.to_json(RATIO(col("a"), 2) + 1)
    assert document["args"][0] == {
        "udf": f"{MODULE}:ratio",
        "args": [{"column": "a"}, {"literal": 2, "type": "int64"}],
        "returns": "float64",
    }
    assert expressions.to_json(expressions.from_json(document)) == document
    with pytest.raises(QueryError, match="expected 'module:name'") as caught:
        expressions.from_json({"udf": "rm -rf", "args": [], "returns": "int64"})
    assert caught.value.pointer == "/udf"


# --- from the user's program into the cluster --------------------------------------------------------------------------


def test_functions_that_only_this_process_knows() -> None:
    def inner(x: int) -> int:
        return x

    for function in (lambda x: x, inner):
        with pytest.raises(QueryError, match=r"LocalCluster\(functions=\[\w+\]\) as cluster.*features\.py.*--module features"):
            udf(function, int)
    with pytest.raises(QueryError, match="expected a function or 'module:name', got 7"):
        udf(7, int)  # type: ignore[arg-type]
    with pytest.raises(QueryError, match="say what it returns"):
        udf("features:score")
    register_functions([inner])
    assert expressions.to_json(udf(inner)(1))["udf"] == "local_functions:inner"
    forget([inner])
    with pytest.raises(QueryError, match="known to this process only"):
        udf(inner)


RATE = 2.5
TABLE = {"a": 1}


def scaled(x: float) -> float:
    return _doubled(x) * RATE + math.pi + np.float64(1.0)


def _doubled(x: float) -> float:
    return 2 * x if isinstance(x, float) else _doubled(float(x))


def looked_up(x: str) -> int:
    return TABLE[x]


def test_functions_of_a_script_become_a_module() -> None:
    source = module_source([scaled, _doubled, functions.Longest])
    assert "import numpy as np\n" in source and "RATE = 2.5\n" in source and "from typing import Any as Any" in source
    module = ModuleType("made")
    exec(compile(source, "made", "exec"), vars(module))
    assert module.scaled(1.5) == scaled(1.5)
    assert module.Longest().result((1, 2, 3)) == 3


def test_what_of_a_script_cannot_be_taken_along() -> None:
    free = 3

    def closure(x: int) -> int:
        return x + free

    for given, message in (
        ([looked_up], r"'looked_up' uses the variable 'TABLE' \(dict\), which the processes of a cluster cannot see: make it an argument"),
        ([closure], "'closure' uses 'free' of the function it is defined in.*make it an argument"),
        ([lambda x: x], "a lambda has no name"),
        ([7], "expected functions or classes, got 7"),
        ([scaled, scaled], "two are named 'scaled'"),
        ([len], "Python does not know its source"),
    ):
        with pytest.raises(QueryError, match=message):
            module_source(given)  # type: ignore[arg-type]


def test_a_helper_of_a_script_has_to_be_given_along(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_doubled, "__module__", "__main__")
    with pytest.raises(QueryError, match=r"'scaled' uses '_doubled' of this script: give it along, functions=\[..., _doubled\]"):
        module_source([scaled])


def test_where_modules_lie(tmp_path: Any) -> None:
    (tmp_path / "features.py").write_text("")
    assert folder_of("features", [str(tmp_path)]) is None
    assert folder_of(MODULE, []) == str(ROOT)
    assert folder_of("sys", []) is None
    with pytest.raises(ClusterError, match="module 'no_such_module' is not found where Python looks: give its folder"):
        folder_of("no_such_module", [])


@pytest.mark.parametrize(
    ("arguments", "got"), [(["int64"], "missing a required argument"), (["int64"] * 9, "too many positional arguments")]
)
def test_a_function_that_cannot_be_called_so(arguments: list[str], got: str) -> None:
    types = [parse_type(each) for each in arguments]
    with pytest.raises(QueryError, match=rf"functions_of_users:ratio'\(.*called with {len(types)} argument.*{got}"):
        RowFunction(f"{MODULE}:ratio", types, Field("f", parse_type("float64")))
