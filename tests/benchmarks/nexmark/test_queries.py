"""Every Nexmark query in one process, on few events: its answers are DuckDB's.

Tests `queries.py`, `asked.py`, `joined.py`, `plain.py`, `windowed.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from benchmarks.nexmark.asked import ANSWERS, ROWS_OF, Given, Nexmark
from benchmarks.nexmark.generator import NUMBER, DrawnEvents
from benchmarks.nexmark.made import write_side_input
from benchmarks.nexmark.queries import QUERIES, chosen
from benchmarks.nexmark.witness import Witness
from numa_cep import testing

EVENTS = DrawnEvents(5_000, rate=50, first=100_000)
"""100 s of event time, so windows close while events come; persons whose ids are as great as those of bidders."""

Tables = Mapping[str, pa.Table]


@pytest.fixture(scope="module")
def tables() -> Tables:
    return EVENTS.tables()


@pytest.fixture(scope="module")
def witness(tables: Tables) -> Witness:
    return Witness(tables)


def answers(query: Nexmark, events: DrawnEvents, tables: Tables, folder: Path) -> dict[str, pa.Table]:
    """What it puts out, by name of the output; `stamped` with event times."""
    given = Given(folder, events.open_ms_max, checked=True)
    write_side_input(given.side_input)
    with testing.run(query.build(given), instances=2) as run:
        for name in query.reads:
            run.send(name, tables[ROWS_OF.get(name, name)].drop_columns([NUMBER]))
        run.close()
        assert run.late_rows == 0 and not run.dead_letters()
        schemas = {name: run.outputs[name].arrow for name in run.outputs}
        found = {ANSWERS: pa.Table.from_pylist(run.answers(ANSWERS), schema=schemas[ANSWERS])}
        if "stamped" in schemas:
            found["stamped"] = pa.Table.from_pylist(run.answers("stamped", event_time=True))
        return found


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_its_answers_are_those_of_duckdb(query: Nexmark, tables: Tables, witness: Witness, tmp_path: Path) -> None:
    found = answers(query, EVENTS, tables, tmp_path)
    if "stamped" in found:
        witness.add("stamped", found["stamped"])
    assert found[ANSWERS].num_rows > 0
    assert witness.difference(query.sql, found[ANSWERS]) == ""


def test_q14_at_every_time_of_day(tmp_path: Path) -> None:
    events = DrawnEvents(5_000, rate=0.05)
    tables = events.tables()
    (query,) = chosen(["q14"])
    found = answers(query, events, tables, tmp_path)[ANSWERS]
    assert set(found["bidTimeType"].to_pylist()) == {"dayTime", "nightTime", "otherTime"}
    assert Witness(tables).difference(query.sql, found) == ""


def test_there_are_all_of_the_suite() -> None:
    assert [query.name for query in QUERIES] == [f"q{i}" for i in range(24)]
    assert chosen(["q5", "q2"]) == [QUERIES[2], QUERIES[5]]
    with pytest.raises(ValueError, match="no query 'q24'; there are q0 to q23"):
        chosen(["q24"])
