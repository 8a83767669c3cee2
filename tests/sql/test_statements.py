"""Every statement of the files beside this one, here and in DuckDB, over the same rows: equal answers, as multisets."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from driver import sql, stream
from numa_cep import testing
from tests.support.sql_in_duckdb import Database

HERE = Path(__file__).parent
BEGIN = datetime(2024, 5, 1)

BID = stream(
    "bid",
    {"auction": int, "bidder": int, "price": "int64?", "channel": "string?", "url": str, "at": "timestamp[ms]"},
    event_time="at",
    disorder="4s",
)
AUCTION = stream(
    "auction",
    {"id": int, "seller": int, "category": int, "at": "timestamp[ms]", "expires": "timestamp[ms]"},
    event_time="at",
    disorder="4s",
)
PERSON = stream("person", {"id": int, "name": str, "state": str, "at": "timestamp[ms]"}, event_time="at", disorder="4s")
STREAMS = [BID, AUCTION, PERSON]


@cache
def rows() -> dict[str, list[dict[str, Any]]]:
    """Of every stream, in the order of event time; no two rows have the same, for SQL knows no order of those."""
    chance = random.Random(5)
    times = sorted(chance.sample(range(0, 60_000), 120))

    def at(i: int) -> datetime:
        return BEGIN + timedelta(milliseconds=times[i])

    bids = [
        {
            "auction": chance.randint(1, 6),
            "bidder": chance.randint(1, 5),
            "price": chance.choice([None, *range(1, 100, 3)]) if chance.random() < 0.4 else chance.randint(1, 99),
            "channel": chance.choice([None, "apple", "google", "football"]),
            "url": f"https://a.com/item/{chance.randint(1, 40)}/x_{chance.randint(1, 3)}",
            "at": at(i),
        }
        for i in range(0, 100)
    ]
    starts = sorted(chance.sample(range(0, 50_000), 6))
    auctions = [
        {
            "id": i + 1,
            "seller": chance.randint(1, 4),
            "category": chance.randint(1, 4),
            "at": BEGIN + timedelta(milliseconds=start),
            "expires": BEGIN + timedelta(milliseconds=start + chance.randint(1_000, 20_000)),
        }
        for i, start in enumerate(starts)
    ]
    persons = [
        {
            "id": chance.randint(1, 5),
            "name": chance.choice(["Ann", "Bob", "Clara"]),
            "state": chance.choice(["OR", "CA"]),
            "at": BEGIN + timedelta(milliseconds=time),
        }
        for time in sorted(chance.sample(range(0, 50_000), 12))
    ]
    return {"bid": bids, "auction": auctions, "person": persons}


def cases() -> dict[str, str]:
    """File and name -> statements."""
    found = {}
    for path in sorted(HERE.glob("*.sql")):
        for name, text in re.findall(r"^-- : (.+)\n((?:(?!-- : ).*\n)*)", path.read_text(), re.MULTILINE):
            found[f"{path.stem}: {name}"] = text
    return found


CASES = cases()


@pytest.fixture(scope="module")
def side(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tables") / "side.csv"
    path.write_text("key,value\n" + "".join(f"{i},v{i}\n" for i in range(0, 12, 2)))
    return path


@pytest.fixture(scope="module")
def database(side: Path) -> Database:
    tables = {each.name: pa.Table.from_pylist(rows()[each.name], schema=_naive(each.schema.arrow)) for each in STREAMS}
    found = Database(tables)
    found.connection.execute(f"CREATE TABLE side AS SELECT key::BIGINT AS key, value FROM read_csv('{side}')")
    return found


def _naive(schema: pa.Schema) -> pa.Schema:
    return pa.schema([(f.name, pa.timestamp("us") if pa.types.is_timestamp(f.type) else f.type) for f in schema])


def answered(text: str, side: Path, instances: int = 1) -> list[tuple[Any, ...]]:
    """Our answers, the values of each in the order of the columns."""
    table = f"CREATE TABLE side (key BIGINT NOT NULL, value VARCHAR NOT NULL) WITH (path = '{side}');\n"
    query = sql(table + text, streams=STREAMS).output("answers")
    read = {each.name for each in query.streams}
    found = testing.answers(query, {name: rows()[name] for name in read}, instances=instances)
    return [tuple(row.values()) for row in found["answers"]]


def multiset(found: list[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(map(_value, row)) for row in found)


def _value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) and not value.is_integer() and (value := float(f"{value:.12g}")) else _whole(value)
    if isinstance(value, list):
        return tuple(value)
    return value


def _whole(value: float) -> Any:
    return int(value) if math.isfinite(value) else str(value)


@pytest.mark.parametrize("case", CASES)
def test_a_statement_has_duckdbs_answers(case: str, database: Database, side: Path) -> None:
    expected = multiset(database.rows(CASES[case]))
    found = multiset(answered(CASES[case], side))
    assert found == expected, (found - expected, expected - found)
    assert expected


def test_there_are_many() -> None:
    assert len(CASES) >= 60
