"""Random statements from a small grammar, here, on one to three instances, and in DuckDB. `-k 'seed-17-'` replays one share."""

from __future__ import annotations

import pytest

from tests.sql.test_statements import answered, database, multiset, side
from tests.support.sql_grammar import Grammar
from tests.support.sql_in_duckdb import Database

SHARES, LONG, EACH = 3, 250, 20

__all__ = ["database", "side"]


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, id=f"seed-{seed}-", marks=[pytest.mark.long] * (seed >= SHARES)) for seed in range(LONG)]
)
def test_random_statements_have_duckdbs_answers(seed: int, database: Database, side: object) -> None:
    grammar = Grammar(seed)
    for number in range(EACH):
        text = grammar.statement()
        expected = multiset(database.rows(text))
        found = multiset(answered(text, side, 1 + seed % 3))  # type: ignore[arg-type]
        assert found == expected, (number, text, found - expected, expected - found)
