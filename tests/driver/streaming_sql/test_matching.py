"""MATCH_RECOGNIZE: patterns as SQL are the documents that the builder makes, and find the same.

Tests `match_syntax.py`.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from cep.model.patterns.checks import with_by
from cep.model.patterns.parts import from_json, text_of, to_json
from cep.model.streams import Stream
from driver import Query, col, event, row, sql, stream
from driver.streaming_sql.errors import SqlError
from numa_cep import testing
from tests.project.test_patterns_page import names
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "features" / "sql.md").read_text()
(BLOCK,) = (block for block in re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL) if block.startswith("-- "))
TEXTS = dict(re.findall(r"-- (\w+)\n(.*?;)\n", BLOCK, re.DOTALL))
MINUTE = "WITHIN INTERVAL '1' MINUTE"
STREAMS = [each for each in names().values() if isinstance(each, Stream)]
BID = stream("bid", {"at": "timestamp[us]", "k": int, "v": int, "kind": str}, event_time="at", disorder="0s")


def pattern_of(text: str) -> dict[str, Any]:
    (found,) = (each for each in sql(text, streams=STREAMS).to_json()["operators"] if each["type"] == "pattern")
    return means(found)


def means(document: dict[str, Any]) -> dict[str, Any]:
    """Wherever it stands; a repetition says what it has of its sequence."""
    pattern = to_json(with_by(from_json(document["pattern"]), None, ""))
    return {key: value for key, value in document.items() if key not in ("name", "inputs")} | {"pattern": pattern}


def matching(inside: str) -> dict[str, Any]:
    return pattern_of_bid(f"PARTITION BY k ORDER BY at {inside}")


def pattern_of_bid(inside: str) -> dict[str, Any]:
    (found,) = sql(f"SELECT * FROM bid MATCH_RECOGNIZE ({inside})", streams=[BID]).to_json()["operators"]
    return dict(found)


@pytest.mark.parametrize("name", sorted(TEXTS.keys() - {"overdue"}))
def test_an_example_is_the_builders(name: str) -> None:
    (ours,) = names()[name].to_json()["operators"]
    assert pattern_of(TEXTS[name]) == means(ours)


def test_all_eight_are_there() -> None:
    assert len(TEXTS) == 8


@pytest.mark.parametrize(
    ("written", "document"),
    [
        ("A B C", {"seq": ["A", "B", "C"], "by": "next"}),
        ("A -> B C", {"seq": [{"seq": ["A", "B"], "by": "then"}, "C"], "by": "next"}),
        ("A (B -> C)", {"seq": ["A", {"seq": ["B", "C"], "by": "then"}], "by": "next"}),
        ("A | B C | D", {"any_of": ["A", {"seq": ["B", "C"], "by": "next"}, "D"]}),
        ("A !X -> B", {"seq": ["A", {"not": "X", "next": True}, "B"], "by": "then"}),
        ("A -> !X -> a", {"seq": ["A", {"not": "X"}, "A"], "by": "then"}),
        ("A+ -> B*?", {"seq": [{"repeat": "A"}, {"repeat": "B", "min": 0, "greedy": False}], "by": "then"}),
        ("A B? C", {"seq": ["A", {"repeat": "B", "min": 0, "max": 1}, "C"], "by": "next"}),
        ("A B?? C", {"seq": ["A", {"repeat": "B", "min": 0, "max": 1, "greedy": False}, "C"], "by": "next"}),
        ("A{2}", {"repeat": "A", "min": 2, "max": 2, "by": "next"}),
        ("A{,4} B", {"seq": [{"repeat": "A", "min": 0, "max": 4}, "B"], "by": "next"}),
        ("(A -> B)+", {"repeat": {"seq": ["A", "B"], "by": "then"}, "by": "next"}),
        ("(A+ | B{2}) -> C", {"seq": [{"any_of": [{"repeat": "A"}, {"repeat": "B", "min": 2, "max": 2}]}, "C"], "by": "then"}),
        ("PERMUTE(A, B, C+)", {"all_of": ["A", "B", {"repeat": "C"}], "by": "next"}),
        ("PERMUTE(A -> B)", {"all_of": ["A", "B"], "by": "then"}),
        ("(A -> B) GAP INTERVAL '5' SECOND", {"seq": ["A", "B"], "by": "then", "gap": "5s"}),
    ],
)  # fmt: skip
def test_a_pattern_is_read(written: str, document: Any) -> None:
    assert matching(f"PATTERN ({written}) {MINUTE}")["pattern"] == document


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("PATTERN (A B) WITHIN INTERVAL '1' MINUTE", {"within": "1m"}),
        ("PATTERN (A B) TTL INTERVAL '1' HOUR", {"ttl": "1h"}),
        ("PATTERN (A B) NO TTL", {"ttl": None}),
        ("PATTERN (A B) WITHIN INTERVAL '1' MINUTE TTL INTERVAL '1' HOUR", {"within": "1m", "ttl": "1h"}),
        ("AFTER MATCH SKIP TO NEXT ROW PATTERN (A B) NO TTL", {"ttl": None, "after": "to_next"}),
        ("AFTER MATCH SKIP TO FIRST b PATTERN (A B) NO TTL", {"ttl": None, "after": "to_first B"}),
        ("AFTER MATCH SKIP TO B PATTERN (A B) NO TTL", {"ttl": None, "after": "to_last B"}),
        ("AFTER MATCH SKIP PAST LAST ROW ONE ROW PER MATCH PATTERN (A B) NO TTL", {"ttl": None}),
        ("ALL MATCHES PATTERN (A ->> B) WITHIN INTERVAL '1' MINUTE", {"within": "1m", "matches": "all"}),
    ],
)
def test_how_it_goes_on_is_read(written: str, said: dict[str, Any]) -> None:
    found = matching(written)
    assert {key: value for key, value in found.items() if key not in ("name", "type", "inputs", "by", "define", "pattern")} == said


def test_a_condition_reads_rows_of_variables_and_rows_before() -> None:
    defined = matching(
        "PATTERN (A B) NO TTL DEFINE B AS last(a.v, 2) > 1 AND first(A.v) < v AND prev(v, 2) = b.v AND sum(A.V) > 1 AND count(B.*) = 1"
    )["define"]
    assert defined["A"] == {}
    reads = str(defined["B"])
    for each in (
        {"row": "A", "column": "v", "k": 2},
        {"row": "A", "function": "first", "column": "v"},
        {"prev": "v", "k": 2},
        {"row": "B", "column": "v"},
        {"row": "A", "function": "sum", "column": "v"},
        {"row": "B", "function": "count"},
    ):
        assert str(each) in reads, each


def test_state_ttl_is_that_of_patterns_that_say_nothing_else() -> None:
    text = "SET state_ttl = '2 h'; SELECT * FROM bid MATCH_RECOGNIZE (ORDER BY at MEASURES B.v AS v PATTERN (A B))"
    (found,) = sql(text, streams=[BID]).to_json()["operators"]
    assert found["ttl"] == "2h"


@pytest.mark.usefixtures("as_python")
def test_rows_of_two_streams() -> None:
    """Each order that is not delivered in two days."""
    query = sql(TEXTS["overdue"], streams=STREAMS).output("late")
    day = 86_400
    orders = [{"t": 0, "order": 1}, {"t": 10, "order": 2}]
    deliveries = [{"t": day, "order": 2}, {"t": 3 * day, "order": 1}]
    found = testing.answers(query, {"orders": orders, "deliveries": deliveries})["late"]
    assert [row["order"] for row in found] == [1]


@pytest.mark.usefixtures("as_python")
def test_all_rows_of_a_match_and_what_may_stand_behind() -> None:
    text = """
        SELECT m.v * 10 AS tenfold, var, no, best FROM (SELECT at, k, v + 1 AS v, kind FROM bid WHERE kind <> 'x') AS b MATCH_RECOGNIZE (
            PARTITION BY k ORDER BY at MEASURES FINAL max(A.v) AS best, CLASSIFIER() AS var, MATCH_NUMBER() AS no
            ALL ROWS PER MATCH PATTERN (A+ B) WITHIN INTERVAL '1' MINUTE DEFINE A AS kind = 'a', B AS kind = 'b'
        ) AS m WHERE v < 9
    """
    kinds = ["a", "x", "a", "b", "b", "a", "x", "b"]
    rows = [{"at": i, "k": 1, "v": i, "kind": kind} for i, kind in enumerate(kinds)]
    found = testing.answers(sql(text, streams=[BID]).output("out"), {"bid": rows})["out"]
    assert [(row["tenfold"], row["var"], row["no"], row["best"]) for row in found] == [
        (10, "A", 1, 3), (30, "A", 1, 3), (40, "B", 1, 3), (60, "A", 2, 6), (80, "B", 2, 6),
    ]  # fmt: skip


@pytest.mark.usefixtures("as_python")
def test_final_is_of_what_stands_behind_it() -> None:
    text = """
        SELECT v, d, e FROM bid MATCH_RECOGNIZE (
            PARTITION BY k ORDER BY at MEASURES FINAL LAST(B.v) - FINAL A.v AS d, 10 * FINAL (A.v + COUNT(B.*)) + 1 AS e
            ALL ROWS PER MATCH PATTERN (A B+) WITHIN INTERVAL '1' MINUTE DEFINE A AS kind = 'a', B AS kind = 'b')
    """
    rows = [{"at": i, "k": 1, "v": i * i, "kind": kind} for i, kind in enumerate("xabb")]
    found = testing.answers(sql(text, streams=[BID]).output("out"), {"bid": rows})["out"]
    assert [(row["v"], row["d"], row["e"]) for row in found] == [(1, 8, 31), (4, 8, 31), (9, 8, 31)]


@pytest.mark.usefixtures("as_python")
def test_all_words_of_an_order_go_before_those_of_the_next() -> None:
    """Of A+? (A B) B; behind the first A was B (A B)."""
    text = f"""
        SELECT var FROM bid MATCH_RECOGNIZE (ORDER BY at MEASURES CLASSIFIER() AS var ALL ROWS PER MATCH
            PATTERN (PERMUTE(A+?, (A B), B)) {MINUTE} DEFINE B AS kind = 'b')
    """
    rows = [{"at": i, "k": 1, "v": i, "kind": kind} for i, kind in enumerate("ababb")]
    found = testing.answers(sql(text, streams=[BID]).output("out"), {"bid": rows})["out"]
    assert "".join(row["var"] for row in found) == "AAABB"


@pytest.mark.usefixtures("as_python")
def test_all_columns_of_all_rows_are_in_the_order_of_the_standard() -> None:
    """Those of PARTITION BY, of ORDER BY, measures, the others."""
    measures = "MEASURES MATCH_NUMBER() AS no, FINAL LAST(B.v) AS best, CLASSIFIER() AS var"
    text = f"SELECT * FROM bid MATCH_RECOGNIZE (PARTITION BY kind, k ORDER BY at {measures} ALL ROWS PER MATCH PATTERN (A B) {MINUTE})"
    rows = [{"at": at, "k": 1, "v": at, "kind": "a"} for at in range(2)]
    found = testing.answers(sql(text, streams=[BID]).output("out"), {"bid": rows})["out"]
    assert [list(row) for row in found] == [["kind", "k", "at", "no", "best", "var", "v"]] * 2


@pytest.mark.parametrize(
    ("measure", "said"),
    [
        ("FINAL LAST(B.v) - LAST(A.v) AS d", "LAST(A.v) with ALL ROWS PER MATCH is of the rows so far; write instead: FINAL LAST(A.v)"),
        ("FINAL LAST(B.v) - A.v AS d", "A.v with ALL ROWS PER MATCH is of the rows so far; write instead: FINAL A.v"),
        ("FINAL MAX(B.v) - RUNNING MAX(B.v) AS d", "there is no RUNNING"),
        ("FINAL CLASSIFIER() AS c", "FINAL CLASSIFIER(): it is of each row"),
    ],
)
def test_a_measure_of_each_row_is_final_throughout(measure: str, said: str) -> None:
    with pytest.raises(SqlError, match=re.escape(said)):
        matching(f"MEASURES {measure} ALL ROWS PER MATCH PATTERN (A B+) {MINUTE}")


KINDS = "DEFINE A AS kind = 'a', B AS kind = 'b'"


def builders(**how: Any) -> Query:
    """Of the pattern that FOLLOWED is, in a query without a SELECT that chooses."""
    part = event("A", col("kind") == "a").then(event("B", col("kind") == "b"))
    return Query("sql").source(BID).pattern("match", part, by="k", within="1m", **how)


BIDS = "bid MATCH_RECOGNIZE (PARTITION BY k ORDER BY at"
FOLLOWED = f"PATTERN (A -> B) {MINUTE} {KINDS}"
A_V = {"v": row("A")["v"]}


@pytest.mark.parametrize(
    ("written", "built"),
    [
        ("MEASURES A.v AS v TIMED OUT", builders(measures=A_V, timed_out=True).at("match.timed_out")),
        ("UNMATCHED ROWS", builders(rows="all", unmatched=True).at("match.unmatched")),
    ],
)
def test_what_comes_out_in_place_of_matches_is_the_builders(written: str, built: Query) -> None:
    """Nothing reads the matches, and that is well."""
    text = f"SELECT * FROM {BIDS} {written} {FOLLOWED})"
    assert sql(text, streams=[BID]).output("out").to_json() == built.output("out").to_json()


@pytest.mark.usefixtures("as_python")
def test_matches_and_what_timed_out_come_of_one_pattern() -> None:
    """And rows of no match, of another one: all rows are in its sequence."""
    texts = {
        "late": f"SELECT v * 10 AS v FROM {BIDS} MEASURES A.v AS v TIMED OUT {FOLLOWED}) WHERE v > 1",
        "found": f"SELECT * FROM {BIDS} MEASURES A.v AS v {FOLLOWED})",
        "rest": f"SELECT k, m.v FROM {BIDS} UNMATCHED ROWS {FOLLOWED}) AS m",
    }
    sinks = "".join(f"CREATE SINK {name} WITH (connector = 'stream'); INSERT INTO {name} {text};" for name, text in texts.items())
    query = sql(sinks, streams=[BID])
    assert [each["type"] for each in query.to_json()["operators"]].count("pattern") == 2
    rows = [{"at": 20_000_000 * i, "k": 1, "v": i, "kind": kind} for i, kind in enumerate("axbaxxxxab")]
    found = testing.answers(query, {"bid": rows})
    assert [each["v"] for each in found["found"]] == [0, 8]
    assert [each["v"] for each in found["late"]] == [30]
    assert sorted(each["v"] for each in found["rest"]) == [1, 3, 4, 5, 6, 7]


def test_the_page_has_both_of_one_operator() -> None:
    (block,) = (block for block in re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL) if "TIMED OUT" in block)
    document = sql(block, streams=STREAMS).to_json()
    assert [(each["type"], each["timed_out"]) for each in document["operators"]] == [("pattern", True)]
    assert [each["stream"] for each in document["outputs"]] == ["bought", "left_behind"]


def test_what_is_read_is_written_again() -> None:
    """`explain` writes parts as SQL does."""
    written = "A -> !X -> (B | C{2,3}?)+"
    part = sql(f"SELECT * FROM bid MATCH_RECOGNIZE (ORDER BY at MEASURES A.v AS v PATTERN ({written}) {MINUTE})", streams=[BID]).operators[
        0
    ]
    assert text_of(part.pattern) == written
    assert to_json(part.pattern)["by"] == "then"
