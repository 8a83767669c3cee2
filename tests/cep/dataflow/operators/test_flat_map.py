"""FlatMap: as a Map, and then one tuple for each element of a list.

n  tags            n  tag   origin
1  [a, NULL, b]    1  a     (…, 0)
                   1  NULL  (…, 1)
                   1  b     (…, 2)
2  []                             nothing for an empty list
3  NULL                           nor for NULL
"""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from cep.compile.chain.chain import compile_chain
from cep.dataflow.dead_letters import DeadLetters
from cep.dataflow.operators.flat_map import FlatMapOperator, as_map
from cep.errors import QueryError
from cep.kernels.jit import interpreted
from cep.model.expr import col
from cep.model.functions import first, last
from cep.model.operators import Aggregate, Deduplicate, FlatMap, Sort, Union
from cep.model.query import Output, Query
from cep.model.schema import Schema
from cep.model.windows import TimeWindow
from cep.plan.validate import validate
from tests.support.single_operator import (
    Row,
    Tuple,
    as_planned,
    batch_of,
    drawn,
    made,
    planned_rows,
    query_of,
    run_alone,
    run_planned,
    tuples_of,
    without_origins,
)

SCHEMA = Schema.of({"t": "timestamp[us]", "n": "int64", "tags": "list<string>?", "numbers": "list<int64>"})
LEAST = -(2**63)


def operator(explode: str, letters: DeadLetters | None = None) -> FlatMapOperator:
    described = flat_map(explode)
    chain = compile_chain((as_map(described),), SCHEMA)
    return FlatMapOperator(described, chain, lambda: 0, DeadLetters() if letters is None else letters)


def flat_map(explode: str, name: str = "f") -> FlatMap:
    return FlatMap(name, "s", (("less", col("n") - 1), ("tags", col("tags")), ("numbers", col("numbers"))), explode)


def row(choose: random.Random) -> Row:
    words = [choose.choice((None, "", "a", "a\0b", "a longer word than others")) for _ in range(choose.randrange(4))]
    numbers = [choose.choice((None, 0, -1, 2**62)) for _ in range(choose.randrange(4))]
    return {"t": 0, "n": choose.choice((0, 1, 2, LEAST)), "tags": choose.choice((words, words, None)), "numbers": numbers}


def timed(arrivals: Iterable[Tuple]) -> list[Tuple]:
    return [Tuple(each.time, each.origin, {**each.row, "t": each.time}) for each in arrivals]


def exploded(tuples: Iterable[Tuple], explode: str) -> list[Tuple]:
    """The oracle."""
    found = []
    for each in tuples:
        if each.row["n"] != LEAST:
            mapped = {"less": each.row["n"] - 1, "tags": each.row["tags"], "numbers": each.row["numbers"]}
            for number, element in enumerate(mapped[explode] or ()):
                found.append(Tuple(each.time, (*each.origin, number), {**mapped, explode: element}))
    return found


def test_the_drawing() -> None:
    rows = [["a", None, "b"], [], None]
    tuples = [Tuple(5, (0, n), {"t": 5, "n": n, "tags": tags, "numbers": []}) for n, tags in enumerate(rows, 1)]
    (out,) = operator("tags").on_batch(batch_of(tuples, SCHEMA), 0)
    assert [(each.row["less"], each.row["tags"], each.origin) for each in tuples_of(out)] == [
        (0, "a", (0, 1, 0)),
        (0, None, (0, 1, 1)),
        (0, "b", (0, 1, 2)),
    ]


@pytest.mark.parametrize("explode", ["tags", "numbers"])
@pytest.mark.parametrize("seed", range(4))
def test_as_the_oracle(seed: int, explode: str) -> None:
    choose = random.Random(seed)
    arrivals = timed(drawn(choose, 100, row))
    letters = DeadLetters()
    expected = made(exploded(arrivals, explode))
    assert made(run_alone(operator(explode, letters), arrivals, SCHEMA, choose)) == expected
    assert letters.counts["f"] == sum(each.row["n"] == LEAST for each in arrivals)
    with interpreted():
        assert made(run_alone(operator(explode), arrivals, SCHEMA, choose)) == expected


def test_what_comes_out_is_cut() -> None:
    """However many elements one tuple has: its list is cut, and their numbers go on."""
    numbers = [range(200_000), range(3), range(50_000), range(50_000)]
    tuples = [Tuple(0, (0, n), {"t": 0, "n": 1, "tags": None, "numbers": list(each)}) for n, each in enumerate(numbers)]
    out = list(operator("numbers").on_batch(batch_of(tuples, SCHEMA), 0))
    assert max(map(len, out)) == 65_536
    assert [n for batch in out for n in batch.columns["numbers"].values.tolist()] == [n for each in numbers for n in each]
    ordinals = [n for batch in out if batch.origin is not None for n in batch.origin[:, 2].tolist()]
    assert ordinals == [n for each in numbers for n in each]


@pytest.mark.parametrize("seed", range(4))
def test_in_a_plan_elements_are_in_order_behind_each_other(seed: int) -> None:
    """A Deduplicate behind takes the first: of one tuple the element with the least number."""
    choose = random.Random(seed)
    arrivals = timed(drawn(choose, 60, row))
    ran = run_planned(query_of(SCHEMA, flat_map("tags"), Deduplicate("d", "f", ("tags",), None)), arrivals, choose)
    firsts: dict[object, Tuple] = {}
    for each in exploded(as_planned(arrivals), "tags"):
        firsts.setdefault(each.row["tags"], each)
    assert planned_rows(ran) == without_origins(firsts.values())
    assert ran.dead["f"] == sum(each.row["n"] == LEAST for each in arrivals)


@pytest.mark.parametrize("seed", range(4))
def test_first_and_last_know_the_order_of_elements(seed: int) -> None:
    """Of one tuple the element with the least and the greatest number, whatever their values."""
    choose = random.Random(seed)
    arrivals = timed(drawn(choose, 60, row))
    window = Aggregate("w", "f", TimeWindow(10, 10), ("less",), (("a", first("tags")), ("z", last("tags"))))
    ran = run_planned(query_of(SCHEMA, flat_map("tags"), window), arrivals, choose)
    groups: dict[tuple[int, int], list[str | None]] = {}
    for each in exploded(as_planned(arrivals), "tags"):
        groups.setdefault((each.time // 10 * 10 + 9, each.row["less"]), []).append(each.row["tags"])
    expected = (Tuple(end, (), {"less": less, "a": tags[0], "z": tags[-1]}) for (end, less), tags in groups.items())
    assert planned_rows(ran) == without_origins(expected)


@pytest.mark.parametrize("seed", range(3))
def test_beside_tuples_whose_origins_have_fewer_words(seed: int) -> None:
    choose = random.Random(seed)
    arrivals = [each for each in timed(drawn(choose, 60, row)) if each.row["n"] != LEAST]
    again = FlatMap("g", "f", (("less", col("less")), ("numbers", col("numbers"))), "numbers")
    narrow = FlatMap("p", "s", (("less", col("n") - 1), ("numbers", col("numbers"))), "numbers")
    streams = query_of(SCHEMA, again).streams
    operators = (flat_map("tags"), again, narrow, Union("u", ("g", "p")), Sort("in order", "u"))
    query = Query("q", streams, operators, (Output("out", "in order"),))
    ran = run_planned(query, arrivals, choose)
    expected = []
    for each in exploded(arrivals, "tags"):
        expected += [Tuple(each.time, (), {"less": each.row["less"], "numbers": number}) for number in each.row["numbers"]]
    for each in exploded(arrivals, "numbers"):
        expected.append(Tuple(each.time, (), {"less": each.row["less"], "numbers": each.row["numbers"]}))
    assert planned_rows(ran) == without_origins(expected)


def test_only_lists_are_exploded() -> None:
    wrong = query_of(SCHEMA, FlatMap("f", "s", (("n", col("n")),), "n"))
    with pytest.raises(QueryError, match="operator 'f': field 'n' is exploded: expected a list, got int64"):
        validate(wrong, {})
