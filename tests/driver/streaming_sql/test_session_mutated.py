"""Statements with words left out, doubled, swapped or replaced are taken, or refused as wrong SQL: nothing else happens."""

from __future__ import annotations

import re
from random import Random

import pytest

from driver.streaming_sql.errors import SqlError
from driver.streaming_sql.session import Session, query_of, session_of
from driver.streaming_sql.wrong import GIVEN, WRONG
from tests.support.sql_grammar import Grammar

EACH, SHARES, LONG = 250, 3, 60
_WORD = re.compile(r"'[^']*'|\w+|\S")


def texts(seed: int) -> list[str]:
    grammar = Grammar(seed)
    return [statement for listed in WRONG.values() for statement in listed if len(statement) < 500] + [
        grammar.statement() for _ in range(40)
    ]


def mutated(text: str, chance: Random, words: list[str]) -> str:
    found = _WORD.findall(text)
    for _ in range(chance.randint(1, 3)):
        place = chance.randrange(len(found))
        match chance.randrange(5):
            case 0:
                del found[place : place + chance.randint(1, 2)]
            case 1:
                found.insert(place, found[place])
            case 2:
                other = chance.randrange(len(found))
                found[place], found[other] = found[other], found[place]
            case _:
                found[place] = chance.choice(words)
        found = found or ["SELECT"]
    return " ".join(found)


@pytest.fixture(scope="module")
def session() -> Session:
    return query_of(GIVEN + "SELECT auction FROM bid", "given", session_of())[1]


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=[pytest.mark.long] * (seed >= SHARES)) for seed in range(LONG)])
def test_a_mutated_statement_is_taken_or_wrong(seed: int, session: Session) -> None:
    chance, known = Random(seed), texts(seed)
    words = [word for text in known for word in _WORD.findall(text)]
    wrong = 0
    for _ in range(EACH):
        text = mutated(chance.choice(known), chance, words)
        try:
            query_of(text, "mutated", session)
        except SqlError as error:
            wrong += 1
            assert 0 < error.line <= text.count("\n") + 1, text
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}: {error}: {text}") from error
    assert wrong > EACH / 2
