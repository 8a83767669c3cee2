"""Nexmark's queries as SQL: each has the answers of the witness, and binds as the builder's query where that says the same."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from benchmarks.nexmark.asked import ANSWERS, ROWS_OF, STREAMS, Given
from benchmarks.nexmark.generator import DrawnEvents
from benchmarks.nexmark.made import write_side_input
from benchmarks.nexmark.queries import QUERIES
from benchmarks.nexmark.texts import FOLDER, NO_TEXT, query_of
from benchmarks.nexmark.witness import Witness
from cep.kernels.jit import interpreted
from cep.model.query import Options
from driver import Query
from numa_cep import sql, testing
from tests.reference import Partition, assert_same_answer
from tests.strategies import Case, Execution
from tests.support.running import expected_of, run_case

EVENTS = DrawnEvents(2500, rate=40)
BY_NAME = {query.name: query for query in QUERIES}
TEXTS = [query.name for query in QUERIES if query.name not in NO_TEXT]

#: Those that are the builder's document but for the names of operators and what a projection leaves out.
ALIKE = ("q0", "q2", "q11", "q12", "q18", "q22")


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Given:
    found = Given(tmp_path_factory.mktemp("nexmark"), EVENTS.open_ms_max, checked=True)
    write_side_input(found.side_input)
    return found


@cache
def tables() -> dict[str, pa.Table]:
    """With bidders who are persons: the generator has them 1,000 above, which so few events do not reach."""
    found = EVENTS.tables()
    bids, place = found["bid"], found["bid"].schema.get_field_index("bidder")
    return found | {"bid": bids.set_column(place, bids.schema.field(place), pc.subtract(bids["bidder"], 1000))}


@pytest.fixture(scope="module")
def witness() -> Witness:
    return Witness(tables())


def answered(query: Query) -> dict[str, pa.Table]:
    """The answers to all events, by output, as tables."""
    with testing.run(query) as run:
        for name in run.streams:
            run.send(name, tables()[ROWS_OF.get(name, name)].drop(["n"]))
        run.close()
        return {
            output: pa.Table.from_pylist(run.answers(output, event_time="event_time"), schema=_timed(schema.arrow))
            for output, schema in run.outputs.items()
        }


def _timed(schema: pa.Schema) -> pa.Schema:
    return schema.append(pa.field("event_time", pa.timestamp("us", tz="UTC")))


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_has_the_answers_of_the_witness(name: str, given: Given, witness: Witness) -> None:
    found = answered(query_of(name, given))
    if "stamped" in found:
        witness.add("stamped", found["stamped"])
    assert witness.difference(BY_NAME[name].sql, _in_order(found[ANSWERS].drop(["event_time"]), name)) == ""
    assert found[ANSWERS].num_rows


def _in_order(table: pa.Table, name: str) -> pa.Table:
    """q14's text has the suite's order of columns, the witness another."""
    if name != "q14":
        return table
    return table.select(["auction", "bidder", "price", "dateTime", "extra", "bidTimeType", "c_counts"])


@pytest.mark.parametrize("name", ALIKE)
def test_a_text_is_the_builders_query(name: str, given: Given) -> None:
    assert _shape(query_of(name, given)) == _shape(BY_NAME[name].build(given))


def _shape(query: Query) -> list[str]:
    """The operators, their names by place, in a topological order that both have."""
    document = query.to_json()
    places = {each["name"]: f"#{i}" for i, each in enumerate(document["operators"])}
    text = json.dumps([document["operators"], document["outputs"]], sort_keys=True)
    for name, place in places.items():
        text = text.replace(f'"{name}"', f'"{place}"')
    return text.split("}, {")


def test_every_query_has_a_text_or_a_reason() -> None:
    assert Counter(path.stem for path in FOLDER.glob("*.sql")) == Counter(TEXTS)
    assert set(STREAMS) >= {name for query in QUERIES for name in query.reads}


@pytest.mark.parametrize("name", ["q0", "q1", "q2", "q3"])
def test_a_pattern_of_the_suite_finds_what_the_definitions_say(name: str) -> None:
    """On bids of few bidders; DuckDB has no MATCH_RECOGNIZE."""
    query = sql((FOLDER / "patterns" / f"{name}.sql").read_text(), streams=STREAMS.values()).output(ANSWERS).build()
    bids = tables()["bid"].drop(["n"]).slice(0, 60)
    columns = {each: bids[each].to_pylist() for each in bids.column_names}
    columns["dateTime"] = bids["dateTime"].cast(pa.int64()).to_pylist()
    columns |= {
        "auction": [0] * 60,
        "bidder": [each % 3 for each in columns["bidder"]],
        "price": [price % 20_000 for price in columns["price"]],
    }
    rows = list(zip(*(columns[each] for each in query.streams[0].schema.names), strict=True))
    inputs = {"bid": [Partition(0, rows)]}
    expected = expected_of(query, inputs).outputs
    with interpreted():
        ran = run_case(Case(query, inputs), Execution(Options(parallelism=2), (2,), (), (0, 1), 1 << 20, 0))
    assert_same_answer(expected, ran.outputs)
    assert expected[ANSWERS]
