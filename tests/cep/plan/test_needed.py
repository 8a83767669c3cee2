"""What of a stream is needed below it: how fine its watermarks, how wide its origins, and whether an operator orders by them."""

from __future__ import annotations

import pytest

from cep.model.expr import col, lit
from cep.model.functions import arg_max, count, first
from cep.model.operators import Aggregate, Delay, Filter, FlatMap, IntervalJoin, Join, Map, Operator, Sample, Sort, TopN, Union
from cep.model.query import Output, Query
from cep.model.schema import Schema
from cep.model.streams import Stream
from cep.model.windows import SESSION, SIZE, TIME, UNBOUNDED, Window
from cep.plan.needed import grain, leaves_with_origin, needed_columns, origin_words, wants_origin
from cep.plan.validate import validate

S = Stream("s", Schema.of({"t": "timestamp[us]", "k": "int64", "v": "list<int64>"}), col("t"), 0)


def query(*operators: Operator) -> Query:
    last = operators[-1].name
    return Query("q", (S,), operators, (Output("out", last),))


def aggregate(window: Window, input_: str = "s", name: str = "a", **functions: object) -> Aggregate:
    found = functions or {"n": count()}
    return Aggregate(name, input_, window, ("k",), tuple(found.items()))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (TIME("10us"), 10),
        (TIME("10us", "4us"), 2),
        (UNBOUNDED("6us", ttl=None), 6),
        (UNBOUNDED(ttl=None), 1),
        (SESSION("5us"), 1),
        (SIZE(3), 1),
    ],
)
def test_watermarks_are_as_fine_as_the_windows_below(window: Window, expected: int) -> None:
    assert grain(query(aggregate(window)), "s") == expected


def test_a_delay_shifts_the_windows_below_it() -> None:
    """A window that ends at 10 ends for rows of 7 where they are delayed by 3."""
    delayed = query(Delay("d", "s", 3), aggregate(TIME("10us"), "d"))
    assert (grain(delayed, "d"), grain(delayed, "s")) == (10, 1)
    assert grain(query(Delay("d", "s", 4), aggregate(TIME("10us"), "d")), "s") == 2
    assert grain(query(Delay("d", "s", 4)), "s") == 0, "nobody waits"


def test_all_that_wait_are_counted() -> None:
    two = Query("q", (S,), (aggregate(TIME("6us")), aggregate(TIME("4us"), name="b")), (Output("x", "a"), Output("y", "b")))
    assert grain(two, "s") == 2
    chain = query(aggregate(TIME("6us"), t=first("t")), aggregate(TIME("9us"), "a", "b"))
    assert (grain(chain, "s"), grain(chain, "a")) == (3, 9)
    joined = Join("j", "s", "f", TIME("6us", "3us"), TIME("9us", "3us"), (("k", "k"),), prefix="r_")
    assert grain(query(Filter("f", "s", lit(True)), joined), "s") == 3
    for how, own in (("inner", 9), ("left", 1)):  # what has met a partner waits for nothing
        met = IntervalJoin("m", "s", "f", 0, 5, (("k", "k"),), how, None, "r_")
        assert grain(query(Filter("f", "s", lit(True)), met, aggregate(TIME("9us"), "m")), "s") == own
    ranked = TopN("n", "s", TIME("10us", "4us"), (), (("k", False),), 3)
    assert grain(query(ranked), "s") == 2 and grain(query(Sort("o", "s")), "s") == 1


def test_an_ordinal_is_a_word_more_and_an_aggregate_begins_anew() -> None:
    numbered = query(FlatMap("e", "s", (("k", col("k")), ("x", col("v"))), "x"), FlatMap("g", "e", (("k", col("k")), ("y", col("x"))), "y"))
    assert [origin_words(numbered, name) for name in ("s", "e", "g")] == [2, 3, 4]
    assert origin_words(numbered, "g", {"s": 3}) == 5
    behind = query(FlatMap("e", "s", (("k", col("k")), ("x", col("v"))), "x"), aggregate(TIME("1us"), "e"))
    assert origin_words(behind, "a") == 2
    running = query(FlatMap("e", "s", (("k", col("k")), ("x", col("v"))), "x"), aggregate(UNBOUNDED(ttl=None), "e"))
    assert origin_words(running, "a") == 3, "an answer has the origin of the tuple that it is at"


@pytest.mark.parametrize(
    ("operators", "expected"),
    [
        ((aggregate(TIME("1us")),), False),
        ((aggregate(TIME("1us"), t=first("t")),), False),  # the first event time is the least
        ((aggregate(TIME("1us"), x=first("k")),), True),
        ((aggregate(TIME("1us"), t=arg_max("t", "k")),), True),
        ((aggregate(SESSION("1us")),), True),
        ((Map("m", "s", (("k", col("k")), ("u", col("t")))), aggregate(TIME("1us"), "m", u=first("u"))), False),
        ((Map("m", "s", (("k", col("k")), ("u", col("t") + 1))), aggregate(TIME("1us"), "m", u=first("u"))), True),
        ((Delay("d", "s", 1), aggregate(TIME("1us"), "d", t=first("t"))), True),  # there `t` is the event time no more
        ((aggregate(TIME("1us"), t=first("t")), Sort("o", "a")), False),  # it orders the answers, by origins of their own
        ((Filter("f", "s", lit(True)), Sort("o", "f")), True),
        ((Sample("p", "s", 0.5),), True),
    ],
)
def test_origins_are_wanted_where_somebody_orders_by_them(operators: tuple[Operator, ...], expected: bool) -> None:
    asked = query(*operators)
    assert wants_origin(asked, "s", validate(asked, {}).event_time_columns) is expected


def test_origins_leave_with_what_comes_out_but_for_those_that_an_aggregate_replaces() -> None:
    asked = query(Filter("f", "s", lit(True)), Filter("g", "f", lit(True)))
    assert leaves_with_origin(asked, "s")
    assert not leaves_with_origin(query(aggregate(TIME("1us"))), "s") and leaves_with_origin(query(aggregate(SIZE(2))), "s")


def test_what_ties_is_needed_whole_by_who_orders_it() -> None:
    ways = (Filter("f", "s", col("k") > 1), Filter("g", "s", col("k") < 9), Union("u", ("f", "g")))
    counted = query(*ways, aggregate(TIME("1us"), "u"))
    ordered = query(*ways, aggregate(TIME("1us"), "u", x=first("k")))
    names = S.schema.names
    assert needed_columns(counted, "s", names) == ("k",) and needed_columns(ordered, "s", names) == names
