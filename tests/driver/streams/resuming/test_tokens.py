"""Tokens: texts that say where a program is, and what is refused as none."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.errors import QueryError
from driver.streams.resuming.tokens import Position, ResumeToken

TOKEN = ResumeToken("q", 7, "out", "s-1", False, (Position(0, "0.1", 12), Position(1, "2.1", 4, ended=True)))
POSITIONS = st.builds(Position, st.integers(0, 4095), st.text(max_size=20), st.integers(0, 1 << 62), st.booleans())
TOKENS = st.builds(ResumeToken, st.text(max_size=20), st.integers(0, 1 << 40), st.text(max_size=20), st.text(max_size=20), st.booleans(),
                   st.lists(POSITIONS, max_size=5).map(tuple))  # fmt: skip


@given(TOKENS)
def test_a_token_comes_back_from_its_text(token: ResumeToken) -> None:
    assert ResumeToken.of(token.text) == token


def test_it_is_one_word_that_stands_in_a_url() -> None:
    assert TOKEN.text.startswith("cep1-") and TOKEN.text.replace("-", "").replace("_", "").replace("=", "").isalnum()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "expected a token, .* got ''"),
        ("s-1", "expected a token, .* got 's-1'"),
        (TOKEN.text.replace("cep1-", "cep2-"), "is of version 2, and this client reads version 1"),
        (TOKEN.text[:-4], "is damaged"),
        (TOKEN.text[:20] + ("A" if TOKEN.text[20] != "A" else "B") + TOKEN.text[21:], "is damaged"),
        ("cep1-" + base64.urlsafe_b64encode(b"\0\0\0\0").decode(), "is damaged"),
        ("cep1-é", "is damaged"),
    ],
)
def test_what_is_none_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(QueryError, match=why) as found:
        ResumeToken.of(text)
    assert found.value.pointer == "/resume"


@given(st.integers(5, len(TOKEN.text) - 1), st.characters(codec="ascii"))
def test_a_letter_that_is_changed_is_found(at: int, letter: str) -> None:
    text = TOKEN.text[:at] + letter + TOKEN.text[at + 1 :]
    try:
        assert ResumeToken.of(text) == TOKEN  # bits of base64's padding say nothing
    except QueryError as error:
        assert "damaged" in str(error)


def test_it_is_held_to_what_is_asked_for() -> None:
    TOKEN.check("out", None, False)
    TOKEN.check("out", "q", False)
    with pytest.raises(QueryError, match="expected a token of stream 'other', got one of stream 'out' of query 'q'"):
        TOKEN.check("other", None, False)
    with pytest.raises(QueryError, match="expected a token of stream 'out' of query 'r', got"):
        TOKEN.check("out", "r", False)
    with pytest.raises(QueryError, match="are without their event times") as found:
        TOKEN.check("out", "q", True)
    assert found.value.pointer == "/event_time"
