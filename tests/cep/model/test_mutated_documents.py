"""A query that is wrong somewhere is refused where it is made, and nothing but a QueryError says so; what is not refused there can be
planned and built. The mistakes are drawn: a part of a good document becomes something else."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cep.dataflow.local import LocalRun
from cep.dataflow.operators.static_table import check_inline
from cep.errors import QueryError
from cep.kernels.jit import interpreted
from cep.model import query as queries
from cep.model.query import Query
from cep.plan.planner import check_plannable
from tests.strategies.queries import published_queries
from tests.support.plans import one_node, planned

ANYTHING: list[Any] = [None, True, 0, -1, 2**31, 2**70, 1.5, "", "x", "1s", "-1s", "3650000d", "a/b", "\x00", [], {}, ["x"], {"x": 1}]


def parts(document: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where its parts stand."""
    for key, value in document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ():
        yield (*place, key)
        yield from parts(value, (*place, key))


def holder(document: Any, place: tuple[Any, ...]) -> Any:
    for key in place[:-1]:
        document = document[key]
    return document


@st.composite
def mistaken(draw: st.DrawFn) -> dict[str, Any]:
    """The document of a good query in which one part, or two, is left out, or is anything, or is another part."""
    document: dict[str, Any] = json.loads(json.dumps(queries.to_json(draw(published_queries(operators_max=3)))))
    for _ in range(draw(st.integers(1, 2))):
        places = list(parts(document))
        place = draw(st.sampled_from(places))
        other = draw(st.sampled_from(places))
        there = holder(document, place)
        match draw(st.sampled_from(["anything", "anything", "another", "left out"])):
            case "anything":
                # a copy: the second mistake may change what the first one put in
                there[place[-1]] = copy.deepcopy(draw(st.sampled_from(ANYTHING)))
            case "another":
                there[place[-1]] = copy.deepcopy(holder(document, other)[other[-1]])
            case _:
                del there[place[-1]]
    return document


def accepted(document: Any) -> Query | None:
    """As `Query.build` does it, and REST."""
    try:
        query = queries.from_json(document)
        check_plannable(query, {})
        check_inline(query)
    except QueryError:
        return None
    return query


def is_accepted_everywhere(document: Any) -> bool:
    query = accepted(document)
    if query is None:
        return False
    assert queries.to_json(queries.from_json(queries.to_json(query))) == queries.to_json(query)
    with interpreted():
        LocalRun(planned(query, one_node(2), numa=False))
    return True


@given(mistaken())
def test_what_is_not_refused_can_be_built(document: dict[str, Any]) -> None:
    is_accepted_everywhere(document)
