"""`json_get`: what stands in a JSON text at a path, as Python's `json` finds it; which texts are JSON, as `json` decides.

Tests `cep/kernels/json_path.py`, `cep/model/json_paths.py`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from cep.compile.chain.calls import CALLS
from cep.kernels.columns import from_arrow, to_arrow
from cep.kernels.jit import interpreted
from cep.kernels.json_path import DEPTH_MAX
from cep.model.expr import Call, Literal, col
from cep.model.json_paths import STEPS_MAX, steps_of
from cep.model.schema import STRING
from cep.model.types import Typed
from numa_cep import Query, stream, testing, try_
from tests.reference.functions import json_get


def found(texts: Sequence[str | None], path: str) -> list[str | None]:
    column = from_arrow(pa.array(texts, pa.string()), STRING)
    args = Typed(col("s"), STRING, True), Typed(Literal(path, STRING), STRING, False)
    values: list[str | None] = to_arrow(CALLS["json_get"](Typed(Call("json_get", ()), STRING, True, args), [column])).to_pylist()
    return values


NAMES = st.sampled_from(("a", "b", "é", "a b", '"', "\\", "\n", "", "😀"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**25), 10**25) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
BLANKS = st.text(" \t\r\n", max_size=2)
PIECES = ("", '"', "\\", "\\u12", "\\ud83d", ",", ":", "[", "]", "{", "}", "-", "0", "1e", ".", "\x01", "nul", "NaN")


@st.composite
def texts_and_paths(draw: DrawFn) -> tuple[str, str]:
    """A text with escapes or without, blanks anywhere, names twice now and then; and a path into it, or beside it."""
    value = draw(VALUES)
    text = draw(BLANKS) + written(draw, value) + draw(BLANKS)
    path = "$"
    while isinstance(value, dict | list) and value and draw(st.integers(0, 4)):
        step = draw(st.sampled_from(sorted(value)) if isinstance(value, dict) else st.integers(0, len(value)))
        path += f"[{json.dumps(step)}]"
        value = value[step] if isinstance(value, dict) or step < len(value) else None
    return text, path


def written(draw: DrawFn, value: object) -> str:
    blank = draw(BLANKS)
    if isinstance(value, dict):
        pairs = [(name, member) for name, member in value.items()]
        again = draw(st.booleans()) and pairs
        pairs = [*((name, draw(st.sampled_from((1, [2], {"a": 3})))) for name, _ in pairs[:1] if again), *pairs]
        escaped = draw(st.booleans())
        members = [f"{json.dumps(name, ensure_ascii=escaped)}{blank}:{blank}{written(draw, member)}" for name, member in pairs]
        return f"{{{blank}{f'{blank},{blank}'.join(members)}{blank}}}"
    if isinstance(value, list):
        return f"[{blank}{f'{blank},{blank}'.join(written(draw, member) for member in value)}{blank}]"
    return json.dumps(value, ensure_ascii=draw(st.booleans()))


@st.composite
def damaged(draw: DrawFn) -> tuple[str, str]:
    """A piece more, less or another somewhere in a text: maybe no JSON any more."""
    text, path = draw(texts_and_paths())
    at = draw(st.integers(0, len(text)))
    piece = draw(
        st.sampled_from(("", '"', "\\", "\\u12", "\\ud83d", ",", ":", "[", "]", "{", "}", "-", "0", "1e", ".", "\x01", "nul", "NaN"))
    )
    return text[:at] + piece + text[at + draw(st.integers(0, 2)) :], path


@given(texts_and_paths() | damaged())
def test_as_pythons_json(case: tuple[str, str]) -> None:
    text, path = case
    with interpreted():
        (made,) = found([text], path)
    assert made == json_get(text, path)
    value = navigated(text, path)
    if isinstance(value, str):
        assert made == (value if value.encode(errors="ignore").decode() == value else None)
    else:
        assert (None if made is None else json.loads(made)) == value


def navigated(text: str, path: str) -> object:
    """The value, None where there is none, by what Python makes of the whole text."""
    try:
        value: object = json.loads(text, parse_constant=int)  # NaN is no JSON, and no integer
    except ValueError:
        return None
    for step in steps_of(path):
        if isinstance(value, dict) and isinstance(step, str):
            value = value.get(step)
        else:
            value = value[step] if isinstance(value, list) and isinstance(step, int) and step < len(value) else None
    return value


def test_machine_code_finds_what_the_source_does() -> None:
    """One batch with NULL, what is no JSON, and escapes beside none; and one without escapes, whose answers are parts of its texts."""
    texts = ['{"a": [0, "x\\u00e9\\ud83d\\ude00"]}', None, '{"a": [0, "plain"]}', "[", '{"a": [0, "\\ud83d"]}', '{"a": [0, {"b": []}]}', ""]
    assert found(texts, "$.a[1]") == ["xé😀", None, "plain", None, None, '{"b": []}', None]
    assert found(texts[1:4], "$.a[1]") == [None, "plain", None]
    assert found([f'{{"\\u0061": {n}}}' for n in (1, -0.5, 1e300)], "$.a") == ["1", "-0.5", "1e+300"]


def test_how_deep_it_looks(as_python: None) -> None:
    for depth, answer in ((DEPTH_MAX, "1"), (DEPTH_MAX + 1, None)):
        assert found(["[" * depth + "1" + "]" * depth], "$" + "[0]" * min(depth, STEPS_MAX))[0] == (
            None if answer is None else "[" * (depth - STEPS_MAX) + "1" + "]" * (depth - STEPS_MAX)
        )


@pytest.mark.parametrize(
    ("path", "steps"),
    [("$", ()), ("$.a.b", ("a", "b")), ("$[0][10]", (0, 10)), ('$.é["a.b"]', ("é", "a.b")), ('$["\\"\\u0061"].0', ('"a', "0"))],
)
def test_paths(path: str, steps: tuple[str | int, ...]) -> None:
    assert steps_of(path) == steps


@pytest.mark.parametrize(
    "path", ["", "a", "$a", "$.", "$..a", "$[", "$[-1]", "$[a]", "$['a']", '$["a]', '$["\\ud83d"]', "$.a b", "$" + ".a" * 65]
)
def test_what_is_no_path(path: str) -> None:
    with pytest.raises(ValueError, match=r"a path|a name"):
        steps_of(path)


def test_in_a_query_with_types() -> None:
    events = stream("events", body="string?")
    query = (
        Query("q")
        .source(events)
        .map(
            "read",
            who=col("body").json_get("$.user.name"),
            price=col("body").json_get("$.price", float),
            n=col("body").json_get("$.n", "int64"),
            ok=col("body").json_get("$.ok", bool),
            bad=col("body").json_get("$").is_null(),
            never=try_(col("body").json_get("$.price").cast("int64")),
        )
        .output("out")
    )
    bodies = [
        '{"user": {"name": "Zoë"}, "price": 1.5, "n": 9223372036854775807, "ok": true}',
        '{"n": 9223372036854775808, "ok": 1}',
        "{",
        None,
    ]
    found_ = testing.answers(query, {"events": [{"body": body} for body in bodies]})["out"]
    names = ("who", "price", "n", "ok", "bad", "never")
    assert [tuple(row[name] for name in names) for row in found_] == [
        ("Zoë", 1.5, 2**63 - 1, True, False, None),
        (None, None, None, True, False, None),  # a cast takes 1 for true
        (None, None, None, None, True, None),
        (None, None, None, None, True, None),
    ]
