"""The examples of the pages about the language are run as they are written, or as one call of what they stand in."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

import numa_cep
from numa_cep import Query, stream, testing
from tests.support.paths import ROOT


def blocks(page: str) -> list[str]:
    """Of the page, the pieces of Python."""
    found: list[str] = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    return found


def at(second: float) -> datetime:
    return datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=second)


def names() -> dict[str, Any]:
    return {name: getattr(numa_cep, name) for name in numa_cep.__all__}


def test_trailing_windows() -> None:
    (code,) = blocks("docs/features/trailing_windows.md")
    exec(code, there := names())
    values = [10.0, 11.0] * 20 + [50.0]
    rows = [{"sensor": "s", "at": at(i), "value": value} for i, value in enumerate(values)]
    (found,) = testing.answers(there["unusual"], {"readings": rows})["unusual"]
    assert (found["value"], found["before"], found["at"]) == (50.0, 11.0, at(40)) and 11 < found["mean"] < 12


def test_sql() -> None:
    (code,) = blocks("docs/features/sql.md")
    exec(code, {})


def test_sql_statements() -> None:
    statements, *_ = re.findall(r"```sql\n(.*?)```", (ROOT / "docs/features/sql.md").read_text(), re.DOTALL)
    made = numa_cep.sql(statements)
    assert [output.stream for output in made.outputs] == ["out"]


def test_lookups(tmp_path: Path) -> None:
    """The rate that holds then; and once the file has been replaced, that of the file then."""
    (code,) = blocks("docs/features/lookups.md")
    path = tmp_path / "rates.parquet"

    def write(*rates: tuple[str, float, int]) -> None:
        columns = {"currency": [r[0] for r in rates], "rate": [r[1] for r in rates], "valid_from": [at(r[2]) for r in rates]}
        types = pa.schema([("currency", pa.string()), ("rate", pa.float64()), ("valid_from", pa.timestamp("ms", "UTC"))])
        pyarrow.parquet.write_table(pa.table(columns, types), path)

    write(("eur", 1.0, 0), ("eur", 1.5, 20))
    orders = stream("orders", currency=str, at="timestamp[ms]", event_time="at", disorder="0s")
    there = {**names(), "query": Query("q").source(orders)}
    exec(code.replace("/data/rates.parquet", str(path)).replace("\nquery.", "\nquery = query."), there)
    with testing.run(there["query"].output("out")) as run:
        run.send("orders", [{"currency": c, "at": at(second)} for c, second in (("eur", 10), ("eur", 30), ("usd", 31))])
        write(("eur", 1.0, 0), ("eur", 1.5, 20), ("eur", 2.0, 25))
        run.send("orders", [{"currency": "eur", "at": at(second)} for second in (61, 62)])
        run.close()
        assert [row["rate"] for row in run.answers("out")] == [1.0, 1.5, None, 2.0, 2.0]


@pytest.mark.parametrize(
    ("call", "source", "rows", "expected"),
    [
        (
            0,
            stream("s", auction=int, price=int, bidder=str, url=str, at="timestamp", event_time="at", disorder="0s"),
            [
                {"auction": 1, "price": p, "bidder": b, "url": u, "at": at(p)}
                for p, b, u in ((3, "x", "/3"), (7, "y", "/7"), (5, "z", "/5"))
            ],
            {"auction": 1, "bids": 3, "price": 7, "bidder": "y", "url": "/7"},
        ),
        (
            1,
            stream("s", symbol=str, price=float, at="timestamp", event_time="at", disorder="0s"),
            [{"symbol": "a", "price": p, "at": at(second)} for second, p in ((4, 9.0), (2, 8.0), (6, 7.0))],
            {"symbol": "a", "open": 8.0, "began": at(2), "close": 7.0},
        ),
    ],
)
def test_several_columns_of_one_row(call: int, source: Any, rows: list[dict[str, Any]], expected: dict[str, Any]) -> None:
    (code,) = blocks("docs/functions.md")
    written = code.strip().splitlines()
    assert len(written) == 2
    query = eval(f"query{written[call]}", {**names(), "query": Query("q").source(source)})
    assert testing.answers(query.output("out"), {"s": sorted(rows, key=lambda row: row["at"])})["out"] == [expected]
