"""Users' aggregate functions: over the rows of a window in stream order, whatever the cut, the instances and the order of arrival.

Tests `aggregates.py`, `cep/dataflow/operators/user_aggregate.py`.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

import pytest

from cep.compile.user.aggregates import Folds
from cep.compile.user.functions import allowed
from cep.errors import QueryError
from cep.model import functions as models
from cep.model.expr import col
from cep.model.functions import Function, collect, count
from cep.model.operators import Aggregate, Map, Union
from cep.model.schema import Schema
from cep.model.windows import SESSION, SIZE, TIME, TRANSACTION, UNBOUNDED, TimeWindow, Window
from cep.plan.validate import validate
from driver.builder.functions import aggregate_function
from tests.support import functions_of_users as functions
from tests.support.single_operator import Row, Tuple, as_planned, drawn, planned_rows, query_of, run_planned, without_origins

MODULE = "tests.support.functions_of_users"
SCHEMA = Schema.of({"t": "timestamp[us]", "word": "string", "n": "int64?", "x": "float64"})
LONGEST = aggregate_function(functions.Longest, "n", returns=int)
MEAN = aggregate_function(f"{MODULE}:WeightedMean", "n", "x", returns="float64?")
FUNCTIONS: tuple[tuple[str, Function], ...] = (("rows", count()), ("longest", LONGEST), ("mean", MEAN))


@pytest.fixture(autouse=True)
def _modules() -> Iterator[None]:
    with allowed(MODULE):
        yield


def row(choose: random.Random) -> Row:
    return {"t": 0, "word": choose.choice("ab"), "n": choose.choice((None, 1, 1, 2, 13)), "x": choose.choice((0.0, 0.1, 1.5))}


def answers(tuples: Iterable[Tuple], window: TimeWindow) -> tuple[list[Tuple], int]:
    """The oracle, and how many answers failed."""
    groups: defaultdict[tuple[int, str], list[Row]] = defaultdict(list)
    for each in sorted(tuples, key=lambda each: each.place):
        start = each.time // window.advance * window.advance
        while start > each.time - window.size:
            groups[start, each.row["word"]].append(each.row)
            start -= window.advance
    found, failed = [], 0
    for (start, word), rows in groups.items():
        numbers = [row["n"] for row in rows if row["n"] is not None]
        longest: int | None = longest_run(numbers)
        if numbers and numbers[-1] == 13:
            longest, failed = None, failed + 1
        total = weights = 0.0
        for each in rows:
            if each["n"] is not None:
                total, weights = total + each["n"] * each["x"], weights + each["x"]
        mean = total / weights if weights else None
        found.append(Tuple(start + window.size - 1, (), {"word": word, "rows": len(rows), "longest": longest, "mean": mean}))
    return found, failed


def longest_run(numbers: list[int]) -> int:
    longest = run = 0
    for k, n in enumerate(numbers):
        run = run + 1 if k and n == numbers[k - 1] else 1
        longest = max(longest, run)
    return longest


@pytest.mark.parametrize("window", [TIME("10us"), TIME("12us", "4us")], ids=["tumbling", "sliding"])
@pytest.mark.parametrize("seed", range(4))
def test_as_the_oracle(window: TimeWindow, seed: int) -> None:
    choose = random.Random(seed)
    arrivals = [Tuple(e.time, e.origin, {**e.row, "t": e.time}) for e in drawn(choose, choose.choice((3, 150)), row)]
    asked = query_of(SCHEMA, Aggregate("w", "s", window, ("word",), FUNCTIONS))
    expected, failed = answers(as_planned(arrivals), window)
    for pre_aggregation in ("auto", "on"):
        ran = run_planned(asked, arrivals, choose, pre_aggregation=pre_aggregation)
        assert planned_rows(ran) == without_origins(expected)
        assert ran.dead["w"] == failed


def test_a_result_that_fails_names_its_group() -> None:
    arrivals = [Tuple(k, (0, k), {"t": k, "word": "a", "n": 13, "x": 1.0}) for k in range(2)]
    ran = run_planned(query_of(SCHEMA, Aggregate("w", "s", TIME("10us"), ("word",), FUNCTIONS)), arrivals, random.Random(0))
    (letter,) = (each for letters in ran.outcome.dead_letters for each in letters.take(9))
    assert letter.reason == f"field 'longest': {MODULE}:Longest: ValueError: thirteen"
    assert letter.position == "group word='a', event time 1970-01-01T00:00:00.000009Z"


def test_a_row_that_is_not_taken_fails_the_answers_of_its_windows_and_no_others() -> None:
    """As docs/custom_functions.md says: another function counts the row, and the letter does not say which it was."""
    numbers = [("a", 1), ("a", 13), ("b", 2), ("a", 4), ("b", 3), ("a", 5)]
    arrivals = [Tuple(2 * k, (0, k), {"t": 2 * k, "word": word, "n": n, "x": 1.0}) for k, (word, n) in enumerate(numbers)]
    picky = aggregate_function(functions.Picky, "n", returns=int)
    ran = run_planned(
        query_of(SCHEMA, Aggregate("w", "s", TIME("8us", "4us"), ("word",), (("rows", count()), ("y", picky)))), arrivals, random.Random(0)
    )
    expected = [(3, "a", 2, None), (7, "a", 3, None), (7, "b", 1, 2), (11, "a", 2, 9), (11, "b", 2, 5), (15, "a", 1, 5), (15, "b", 1, 3)]
    assert sorted((time, *values) for time, values in ran.outputs["out"]) == expected
    letters = [each for letters in ran.outcome.dead_letters for each in letters.take(9)]
    assert sorted(each.position for each in letters) == [f"group word='a', event time 1970-01-01T00:00:00.00000{t}Z" for t in (3, 7)]
    assert {(each.reason, each.record) for each in letters} == {(f"field 'y': {MODULE}:Picky: ValueError: thirteen", "")}


def test_a_merge_is_not_used_which_is_said() -> None:
    longest, mean = (Folds(Aggregate("w", "s", TIME("10us"), (), (("y", function),))).notes for function in (LONGEST, MEAN))
    assert ["merge is not used" in note for note in (*longest, *mean)] == [False, False, True]


def test_rows_that_tie_keep_their_values_together() -> None:
    """Two ways from one stream: equal event times and origins. The rows are in the order of their columns."""
    back = tuple((name, col(name)) for name in SCHEMA.names)
    other = (*back[:2], ("n", col("n") * 2), back[3])
    operators = (Map("m", "s", back), Map("k", "s", other), Union("u", ("m", "k")), Aggregate("w", "u", TIME("10us"), (), FUNCTIONS))
    arrivals = [Tuple(k, (k % 2, k), {"t": k, "word": "a", "n": 1 + k % 2, "x": float(k)}) for k in range(10)]
    (found,) = {tuple(planned_rows(run_planned(query_of(SCHEMA, *operators), arrivals, random.Random(seed)))) for seed in range(4)}
    rows = [(n, float(k)) for k in range(10) for n in (1 + k % 2, 2 * (1 + k % 2))]
    mean = sum(n * x for n, x in rows) / sum(x for _, x in rows)
    assert found == ((9, repr((20, longest_run([n for n, _ in rows]), mean))),)


def test_json_is_the_identity() -> None:
    document = models.to_json(MEAN)
    assert document == {"function": f"{MODULE}:WeightedMean", "columns": ["n", "x"], "returns": "float64?"}
    assert models.from_json(document) == MEAN
    for wrong in ({"columns": []}, {"returns": 7}, {"more": 1}, {"function": ":x"}):
        with pytest.raises(QueryError, match="expected"):
            models.from_json({**document, **wrong})


def test_what_does_not_fit() -> None:
    def check(function: Function, message: str) -> None:
        asked = query_of(SCHEMA, Aggregate("w", "s", TIME("10us"), (), (("y", function),)))
        with pytest.raises(QueryError, match=message):
            validate(asked, {})

    check(aggregate_function(functions.Longest, "m", returns=int), "operator 'w', field 'y': no column 'm'; there are t, word, n, x")
    with pytest.raises(QueryError, match="expected at least one column"):
        aggregate_function(functions.Longest, returns=int)
    asked = query_of(SCHEMA, Aggregate("w", "s", TIME("10us"), (), (("y", aggregate_function(functions.ratio, "n", returns=int)),)))
    with pytest.raises(QueryError, match="expected a class with init, add and result, got one without init, add, result"):
        run_planned(asked, [], random.Random(0))


WINDOWS: dict[str, Window] = {
    "size": SIZE(3),
    "sliding size": SIZE(4, 2),
    "session": SESSION("2us"),
    "transaction": TRANSACTION(col("n") == 1, col("n") == 2),
    "periodic": UNBOUNDED("10us", ttl="20us"),
    "each": UNBOUNDED(ttl="20us"),
}


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
@pytest.mark.parametrize("seed", range(2))
def test_over_other_windows_it_folds_what_collect_answers(as_python: None, window: Window, seed: int) -> None:
    choose = random.Random(seed)
    arrivals = [Tuple(e.time, e.origin, {**e.row, "t": e.time}) for e in drawn(choose, 60, row)]
    ran, lists = (
        run_planned(query_of(SCHEMA, Aggregate("w", "s", window, ("word",), (("y", function),))), arrivals, choose)
        for function in (LONGEST, collect("n", 1000))
    )
    expected = Counter((time, repr((word, folded(values)))) for time, (word, values) in lists.outputs["out"])
    assert planned_rows(ran) == expected and expected


def folded(values: list[int | None]) -> int | None:
    numbers = [value for value in values if value is not None]
    return None if numbers and numbers[-1] == 13 else longest_run(numbers)
