"""Expressions as values: their documents, and how they are written."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from cep.errors import QueryError
from cep.model.expr import FUNCTIONS, Expr, col, from_json, to_json
from cep.model.expr_functions import atan2, concat, format_time, from_epoch, greatest, hash_, least, nullif, parse_time, try_, when
from cep.model.types import infer, text_of
from tests.cep.compile.chain.test_functions import SCHEMA


@pytest.mark.parametrize(
    "expression",
    [
        when(col("i") > 0, "a").when(col("n") > 0, "b").otherwise(col("s")),
        when(col("i") > 0, "a"),
        try_(col("i") // 0).fill_null(1).between(0, 5) & col("i").is_in([1, 2, 3]) & ~col("n").is_not_null(),
        concat(col("s"), "-", col("m")).extract("(a)(b)", 2).replace("a", "").pad_left(3),
        atan2(greatest(col("f"), 1).round(3), least(col("i"), 2).pow(2)),
        from_epoch(col("i"), "ms").truncate("1h").epoch_s() + hash_(col("i"), col("s")),
        col("s").split(",").element(0).nullif("").matches("^a"),
        nullif(col("w").join("-"), "x"),
        format_time(parse_time(col("s"), "%d.%m.%Y"), "%Y-%j %%"),
    ],
)
def test_documents_say_the_same_expression(expression: Expr) -> None:
    document = json.loads(json.dumps(to_json(expression)))
    assert to_json(from_json(document)) == document
    assert infer(from_json(document), SCHEMA) == infer(expression, SCHEMA)


@pytest.mark.parametrize(
    ("document", "message", "pointer"),
    [
        ({"call": "when", "args": [True]}, "when takes 2 or more arguments, got 1", "/args"),
        ({"call": "sqrt", "args": []}, "sqrt takes 1 arguments, got 0", "/args"),
        ({"call": "round", "args": [1, 2, 3]}, "round takes 1 to 2 arguments, got 3", "/args"),
        ({"call": "try", "args": [{"call": "sqrt", "args": [{"column": 1}]}]}, "no expression", "/args/0/args/0"),
        ({"call": "try", "args": [{"call": "sqtr", "args": [1]}]}, "no function 'sqtr' .did you mean 'sqrt'.*; there", "/args/0/call"),
        ({"call": "cast", "args": [1]}, 'a cast is {"cast": an expression, "to": a type}', "/call"),
        ({"call": "sqrt"}, "function 'sqrt' lacks args, a list of expressions", ""),
        ({"op": "div", "args": [1, 2]}, r"there is no operator 'div'; there are \+, -, \*, /, //, %, =, !=, <, <=, >, >=, and, or,", "/op"),
        ({"op": "nott", "args": [1]}, r"there is no operator 'nott' \(did you mean 'not'\?\)", "/op"),
        ({"op": "-", "args": [1, 2, 3]}, r"operator '-' takes 1 or 2 args, in a list; got", ""),
        ({"op": "not", "args": True}, "operator 'not' takes 1 args, in a list", ""),
        ({"colum": "a"}, 'no expression: expected {"column": name}, {"literal": value}', ""),
        ({"udf": "module:f", "args": []}, "a call of a user's function lacks 'returns'", ""),
    ],
)
def test_documents_of_no_function_say_why_and_where(document: Any, message: str, pointer: str) -> None:
    with pytest.raises(QueryError, match=message) as raised:
        from_json(document)
    assert raised.value.pointer == pointer


def test_a_method_misspelt() -> None:
    expression: Any = col("a")
    with pytest.raises(AttributeError, match=r"an expression has no method 'uppercase' \(did you mean 'upper'\?\)"):
        expression.uppercase()
    assert not hasattr(expression, "__array__") and pickle.loads(pickle.dumps(expression + 1)).op == "+"


def test_functions_are_written_as_people_would() -> None:
    assert text_of(when(col("a") > 1, "x").otherwise(col("s"))) == "case when a > 1 then 'x' else s end"
    assert text_of(try_(col("a") + 1)) == "try(a + 1)"


def test_every_method_is_a_function_or_stands_for_one() -> None:
    """What people call is what documents name."""
    desugared = {"is_null", "is_not_null", "fill_null", "between", "is_in", "cast", "try_cast"}
    methods = {name for name, value in vars(Expr).items() if not name.startswith("_") and callable(value)}
    assert methods - desugared <= set(FUNCTIONS)
    assert set(FUNCTIONS) - methods == {
        "now",
        "coalesce",
        "greatest",
        "least",
        "concat",
        "hash",
        "when",
        "try",
        "atan2",
        "format_time",
        "parse_time",
    }
