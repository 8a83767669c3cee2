"""Which columns decide where the rows of several operators have to go."""

from __future__ import annotations

from cep.model.expr import col
from cep.model.operators import Map, Union
from cep.plan.lineage import common_key
from tests.support.plans import group, keep, pick


def test_labels_of_two_ways_have_to_agree() -> None:
    same = (pick("x", "s"), keep("y", "s"), Union("u", ("x", "y")), group("a", "u", "ip"))
    other = (pick("x", "s", ip="url"), *same[1:])
    assert common_key(same).fields == {"s": ("ip",)}
    assert common_key(other).obstacle == other[-1]


def test_a_computed_column_is_no_label() -> None:
    computed = Map("m", "s", (("ip", col("bytes") + 1),))
    assert common_key((computed, group("a", "m", "ip"))).obstacle is not None
    assert common_key((group("a", "m", "ip"),)).fields == {"m": ("ip",)}


def test_streams_that_never_meet_have_keys_of_their_own() -> None:
    assert common_key((group("a", "s", "ip"), group("b", "t", "url"))).fields == {"s": ("ip",), "t": ("url",)}


def test_streams_that_meet_late_still_need_one_key() -> None:
    """a groups s by ip, b groups t by url, c groups both by one column that is the one here, the other there."""
    meet = (
        group("a", "s", "ip"),
        group("b", "t", "url"),
        Map("x", "a", (("k", col("ip")), ("n", col("n")))),
        Map("y", "b", (("k", col("url")), ("n", col("n")))),
        Union("u", ("x", "y")),
    )
    assert common_key((*meet, group("c", "u", "k"))).fields == {"s": ("ip",), "t": ("url",)}
    assert common_key((*meet, group("c", "u", "n"))).obstacle is not None
