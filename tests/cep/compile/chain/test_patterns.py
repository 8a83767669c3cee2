"""Regular expressions as tables find what RE2 finds, and parts of texts are those that a split makes.

Tests `patterns.py`, `cep/kernels/search.py`.
"""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.compile.chain.calls import _extracted, _found
from cep.compile.chain.chain import compile_chain
from cep.compile.chain.patterns import pattern_of
from cep.compile.chain.steps import Convert
from cep.kernels.columns import from_arrow, to_arrow
from cep.model.expr import col
from cep.model.operators import Map
from cep.model.schema import STRING, Field, Schema

#: (expression, how many groups it has): each next byte decides
DECIDED = [
    ("(&|^)channel_id=([^&]*)", 2),
    ("([a-c]+)=([0-9]*)", 2),
    ("a(b)?c", 1),
    ("^(a|b)*c$", 1),
    ("(a*)$", 1),
    ("(a)|b|", 1),
    ("(?:ab)+?c(.)", 1),
    ("(a+?)b", 1),
    ("a??(b)", 1),
    ("(é|€)(.)", 2),
    (r"\[([^\]]*)\]", 1),
    (r"(\d)(\s|-)([\w.]+)", 3),
    ("(a$|b)", 1),
    ("a^b", 0),
    ("", 0),
    ("(^|b)a$", 1),
]
UNDECIDED = ["a|ab", "é|ü", "(a*)a", "(.*)=", "(a|b)*?b", "x{2}", "(?i)a", "[[:digit:]]", r"\bab", "[é]", "(a*)*", r"\pL"]

texts = st.lists(
    st.none() | st.text(st.sampled_from("aabbcc=&-.[]12 \né€😀_"), max_size=12) | st.sampled_from(["channel_id=12&x", "?a=1&channel_id=é&"])
)


@pytest.mark.parametrize(("regex", "groups"), DECIDED, ids=[regex for regex, _ in DECIDED])
@given(values=texts)
def test_what_a_table_finds_is_what_re2_finds(regex, groups, values):
    array = pa.array(["first", *values], pa.string())[1:]
    for group in range(groups + 1):
        found = _found(from_arrow(array, STRING), regex, group)
        assert found is not None, "it is followed by a table"
        assert to_arrow(found).to_pylist() == to_arrow(_extracted(array, regex, group)).to_pylist()


pieces = st.recursive(
    st.sampled_from(["a", "b", "c", ".", "[^a]", "[a-b]", r"\d", "^", "$", "é", "="]),
    lambda inner: (
        st.tuples(inner, inner).map("".join)
        | st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})")
        | inner.map(lambda one: f"({one})")
        | st.tuples(inner, st.sampled_from(["*", "+", "?", "*?", "+?", "??"])).map(lambda two: f"(?:{two[0]}){two[1]}")
    ),
    max_leaves=6,
)


@given(regex=pieces, values=texts)
def test_whatever_the_expression(regex, values):
    array = pa.array(values, pa.string())
    for group in range(min(regex.count("(") - regex.count("(?"), 2) + 1):
        found = _found(from_arrow(array, STRING), regex, group)
        if found is not None:
            assert to_arrow(found).to_pylist() == to_arrow(_extracted(array, regex, group)).to_pylist()


@pytest.mark.parametrize("regex", UNDECIDED)
def test_what_no_byte_decides_is_left_to_re2(regex):
    assert pattern_of(regex, 0) is None


def test_texts_at_which_matches_break_off_late_are_left_to_re2():
    array = pa.array(["=" + "a" * 10_000, "a" * 20 + "b"])
    assert _found(from_arrow(array, STRING), "(a+)b", 1) is None
    assert to_arrow(_found(from_arrow(array[1:], STRING), "(a+)b", 1)).to_pylist() == ["a" * 20]


def test_a_match_behind_many_blocks_is_found_in_the_bytes_of_the_text():
    array = pa.array(["x" * 1000 + "&k=" + "v" * 100, "y" * 70, "&k="])
    column = from_arrow(array, STRING)
    found = _found(column, "&k=(v*)", 1)
    assert to_arrow(found).to_pylist() == ["v" * 100, None, ""]
    assert np.shares_memory(found.data, column.data)


@given(values=texts, separator=st.sampled_from(["a", "b", "aa", "ab", "é", "=&"]), place=st.integers(-1, 3))
def test_a_part_is_the_element_of_what_the_text_is_split_into(values, separator, place):
    schema = Schema((Field("t", STRING, True),))
    parts = col("t").split(separator)
    chain = compile_chain(
        (
            Map(
                "m",
                "in",
                (("part", parts.element(place)), ("again", parts.element(place)), ("parts", parts)),
            ),
        ),
        schema,
    )
    assert [part.tree.expr.function for part in chain.parts if isinstance(part, Convert)] == ["part", "split"]
    columns = {"t": from_arrow(pa.array(["x", *values], pa.string())[1:], STRING)}
    made = chain.process(columns, len(values), 0).columns
    lists = [[] if each is None else each for each in to_arrow(made["parts"]).to_pylist()]
    expected = [each[place] if 0 <= place < len(each) else None for each in lists]
    assert to_arrow(made["part"]).to_pylist() == to_arrow(made["again"]).to_pylist() == expected
