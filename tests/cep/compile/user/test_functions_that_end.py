"""Users' code that raises what is no Exception, or gives what cannot be said: a dead letter or its query's failure, nothing else ends."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from cep.compile.user.aggregates import Folds
from cep.compile.user.functions import allowed, resolve_function
from cep.errors import QueryError
from cep.model.expr import col
from cep.model.operators import Aggregate, Apply, Map, Operator, StatefulMap
from cep.model.schema import Schema
from cep.model.windows import TIME
from driver.builder.functions import aggregate_function, udf
from tests.support import functions_that_end as functions
from tests.support.single_operator import Tuple, query_of, run_planned

MODULE = "tests.support.functions_that_end"
SCHEMA = Schema.of({"t": "timestamp[us]", "n": "int64"})
MADE = Schema.of({"r": "string"})
LAST = aggregate_function(f"{MODULE}:Last", "n", returns="string?")

OPERATORS: dict[str, Operator] = {
    "expression": Map("o", "s", (("r", udf(f"{MODULE}:text", returns=str)(col("n"))),)),
    "batch": Apply("o", "s", f"{MODULE}:batch", ("n",), MADE),
    "state": StatefulMap("o", "s", ("n",), None, function=f"{MODULE}:state", columns=("n",), schema=MADE),
    "aggregate": Aggregate("o", "s", TIME("10us"), ("n",), (("r", LAST),)),
}


@pytest.fixture(autouse=True)
def _modules() -> Iterator[None]:
    with allowed(MODULE, "tests.support.module_that_exits"):
        yield


@pytest.mark.parametrize("kind", OPERATORS)
@pytest.mark.parametrize("way", functions.WAYS)
def test_a_call_that_does_its_worst_is_a_dead_letter(way: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "way", way)
    arrivals = [Tuple(k, (0, k), {"t": k, "n": n}) for k, n in enumerate((1, 13, 2, 13, 3))]
    ran = run_planned(query_of(SCHEMA, OPERATORS[kind]), arrivals, random.Random(0))
    assert sorted(row[-1] for _, row in ran.outputs["out"] if row[-1] is not None) == ["1", "2", "3"]
    letters = [each for letters in ran.outcome.dead_letters for each in letters.take(9)]
    assert len(letters) == (1 if kind == "aggregate" else 2)
    if not (kind == "batch" and way in ("surrogate", "unspeakable")):  # there Arrow says it
        assert all(functions.WAYS[way][1] in each.reason for each in letters), letters
    for each in letters:
        each.reason.encode()  # it can be sent


def test_a_module_that_ends_its_importer_is_refused_by_name() -> None:
    with pytest.raises(QueryError, match=r"module 'tests.support.module_that_exits' cannot be imported: SystemExit: 5"):
        resolve_function("tests.support.module_that_exits:never")


def test_a_class_that_ends_its_maker_is_refused_by_name() -> None:
    bad = aggregate_function(f"{MODULE}:NotMade", "n", returns="string?")
    with pytest.raises(QueryError, match=r"aggregate function 'tests.support.functions_that_end:NotMade' cannot be made: SystemExit: 4"):
        Folds(Aggregate("o", "s", TIME("10us"), ("n",), (("r", bad),)))
