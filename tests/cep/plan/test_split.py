"""A query cut into subqueries (paper 4, Figures 3 and 4)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings

from cep.errors import QueryError
from cep.model.operators import Union
from cep.model.query import Query
from cep.plan.split import split, streams_read, topological
from tests.support import plans
from tests.support.plans import figure_3, fixed_window, group, keep, pick, query

CHAIN = (
    pick("m", "s"),
    keep("f", "m"),
    group("a", "f", "ip"),
    pick("p", "a", **dict.fromkeys(plans.SCHEMA.names, "ip")),
)


def cut(asked: Query) -> list[str]:
    """`streams | operators` of each subquery."""
    return [f"{' '.join(s.streams)}|{' '.join(s.operators)}" for s in split(asked)]


SPLITS: dict[str, tuple[Query, list[str]]] = {
    "fixed window": (fixed_window(), ["visits|pick", "|window stamp"]),
    "paper, Figures 3 and 4": (figure_3(), ["s|m1 f1", "|a1 m2", "t|f2", "|u f3", "|a2"]),
    "stateless: one subquery": (query(pick("m", "s"), keep("f", "m")), ["s|m f"]),
    "no operators": (query(outputs=("s",)), ["s|"]),
    "stateful straight behind a stream: the reading is a subquery": (query(group("a", "s", "ip")), ["s|", "|a"]),
    "union straight behind streams": (query(Union("u", ("s", "t")), keep("f", "u")), ["s|", "t|", "|u f"]),
    "two chains of one stream: it is read once": (query(pick("m", "s"), keep("f", "s")), ["s|m f"]),
    "a stateless and a stateful reader of one stream": (query(pick("m", "s"), group("a", "s", "ip")), ["s|m", "|a"]),
    "two stateful readers of one operator": (
        query(pick("m", "s"), group("a", "m", "ip"), group("b", "m", "url")),
        ["s|m", "|a", "|b"],
    ),
    "diamond": (query(keep("x", "s"), keep("y", "s"), Union("u", ("x", "y"))), ["s|x y", "|u"]),
    "listed backwards": (query(*CHAIN[::-1]), ["s|m f", "|a p"]),
    "single": (query(*CHAIN, split="single"), ["s|m f a p"]),
    "single, two streams": (query(Union("u", ("s", "t")), split="single"), ["s t|u"]),
    "single, no operators": (query(outputs=("s",), split="single"), ["s|"]),
    "per operator": (query(*CHAIN, split="per-operator"), ["s|m", "|f", "|a", "|p"]),
    "per operator, a stream with two readers": (
        query(pick("m", "s"), keep("f", "s"), split="per-operator"),
        ["s|", "|m", "|f"],
    ),
    "the user's own": (query(*CHAIN, subqueries=[["m"], ["f", "a", "p"]]), ["s|m", "|f a p"]),
    "the user's own, reading too": (query(*CHAIN, subqueries=[["a", "m", "f"], ["p"]]), ["s|m f a", "|p"]),
    "the user's own, one that reads a stream and more": (
        query(keep("x", "s"), keep("y", "t"), Union("u", ("x", "y")), subqueries=[["x"], ["y", "u"]]),
        ["s|x", "t|", "|y u"],
    ),
}


@pytest.mark.parametrize("case", SPLITS)
def test_split(case: str) -> None:
    asked, expected = SPLITS[case]
    assert cut(asked) == expected


REFUSED: dict[str, tuple[list[list[str]], str, str]] = {
    "incomplete": ([["m", "f"], ["a"]], "operators 'p' are in no subquery", ""),
    "unknown": ([["m", "f", "x"], ["a", "p"]], "no operator 'x'", "/0/2"),
    "overlapping": ([["m", "f"], ["f", "a", "p"]], "operator 'f' is listed twice", "/1/0"),
    "listed twice in one": ([["m", "f", "m"], ["a", "p"]], "operator 'm' is listed twice", "/0/2"),
    "empty": ([["m", "f", "a", "p"], []], "subquery 2 lists no operator", "/1"),
    "in pieces": ([["m", "a"], ["f"], ["p"]], "subquery 1 is in pieces: nothing joins 'a' to the others", "/0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_users_split_is_checked(case: str) -> None:
    subqueries, message, place = REFUSED[case]
    with pytest.raises(QueryError) as raised:
        split(query(*CHAIN, subqueries=subqueries))
    assert message in raised.value.message
    assert raised.value.pointer == f"/options/subqueries{place}"


def test_a_users_split_has_no_cycle() -> None:
    asked = query(pick("m", "s"), keep("f", "m"), Union("u", ("m", "f")), subqueries=[["m", "u"], ["f"]])
    with pytest.raises(QueryError, match="subqueries 1 and 2 wait for each other's output"):
        split(asked)


def test_a_cycle_of_operators_is_refused() -> None:
    with pytest.raises(QueryError, match="'x', 'y' wait for each other's output"):
        topological(query(keep("x", "y"), keep("y", "x"), keep("z", "s"), outputs=("y", "z")))


RULES: dict[str, Callable[[Query], bool]] = {
    "each operator runs in one subquery": lambda q: (
        sorted(name for s in split(q) for name in s.operators) == sorted(o.name for o in q.operators)
    ),
    "each stream is read in one subquery": lambda q: sorted(n for s in split(q) for n in s.streams) == sorted(streams_read(q)),
    "stateful says whether there is state": lambda q: all(
        s.stateful == any(topological(q)[name].stateful for name in s.operators) for s in split(q)
    ),
    "only `single` reads several streams": lambda q: q.options.split == "single" or all(len(s.streams) < 2 for s in split(q)),
    "inputs come from the same subquery or an earlier one": lambda q: _in_order(q),
    "no part has neither operators nor a stream": lambda q: all(s.operators or s.streams for s in split(q)),
    "what reads a stream gets nothing else": lambda q: all(
        {name for o in s.operators for name in topological(q)[o].inputs} <= {*s.operators, *s.streams} for s in split(q) if s.streams
    ),
}


def _in_order(asked: Query) -> bool:
    seen: set[str] = set()
    for subquery in split(asked):
        seen |= {*subquery.streams}
        for name in subquery.operators:
            if not seen.issuperset(topological(asked)[name].inputs):
                return False
            seen.add(name)
    return True


@pytest.mark.parametrize("rule", RULES)
@settings(deadline=None)
@given(asked=plans.queries())
def test_rules(rule: str, asked: Query) -> None:
    assert RULES[rule](asked)


@settings(deadline=None)
@given(asked=plans.queries())
def test_the_default_begins_a_subquery_at_state_and_at_several_inputs(asked: Query) -> None:
    operators = topological(asked)
    for subquery in split(asked):
        if asked.options.split == "stateful" and not asked.options.subqueries:
            heads = [name for name in subquery.operators if operators[name].stateful or len(operators[name].inputs) > 1]
            assert heads == ([] if subquery.streams else [subquery.operators[0]])
