"""The examples as patterns and as SQL: the answers are those of the first form, and the page counts their lines."""

from __future__ import annotations

import importlib
import inspect
import random
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from numa_cep import testing
from tests.examples.test_pages import NAMES
from tests.support.jumbled import jumbled
from tests.support.paths import ROOT

FORMS = ("query", "as_pattern", "as_sql")
START = datetime(2024, 5, 1, 9, tzinfo=UTC)
Rows = dict[str, list[dict[str, Any]]]


def form(name: str, which: str) -> Any:
    return getattr(importlib.import_module(f"examples.{name}"), which, None)


def other_forms() -> list[tuple[str, str]]:
    return [(name, which) for name in NAMES for which in FORMS[1:] if form(name, which)]


def at(second: float) -> datetime:
    return START + timedelta(seconds=second)


def rows_of(name: str, seed: int = 3) -> Rows:
    """Few, and such that most cases are among them; several of one instant."""
    draw = random.Random(seed)
    logins = [
        {"user": draw.choice("ab"), "address": draw.choice("xyz"), "ok": draw.random() < 0.3, "at": at(draw.randrange(1500))}
        for _ in range(80)
    ]
    readings = [{"sensor": draw.choice("ab"), "value": draw.gauss(20, 1) * draw.choice([1] * 9 + [2]), "at": at(9 * n)} for n in range(130)]
    sensors = [{"sensor": "a", "place": f"p{n}", "in_service": n != 2, "since": at(300 * n)} for n in range(4)]
    clicks = [
        {
            "visitor": draw.choice("abc"),
            "action": draw.choice(["view", "cart", "buy", "search"]),
            "cents": n,
            "at": at(60 * draw.randrange(600)),
        }
        for n in range(80)
    ]
    trades = [
        {"symbol": draw.choice("AB"), "price": draw.randrange(9) / 7, "size": n + 1, "at": at(draw.randrange(300))} for n in range(80)
    ]
    quotes = [{"symbol": draw.choice("AB"), "bid": draw.random(), "ask": 1.0, "at": at(draw.randrange(300))} for _ in range(40)]
    found: dict[str, Rows] = {
        "fraud": {"logins": logins},
        "sensors": {"readings": readings, "sensors": sensors},
        "clicks": {"clicks": clicks},
        "market": {"trades": trades, "quotes": quotes},
    }
    lateness = {"fraud": 5, "sensors": 0, "clicks": 10, "market": 1}[name]
    times = {stream: "since" if stream == "sensors" else "at" for stream in found[name]}
    return {stream: jumbled(rows, times[stream], timedelta(seconds=lateness), seed) for stream, rows in found[name].items()}


def answers(query: Any, rows: Rows, instances: int) -> dict[str, Counter[tuple[tuple[str, Any], ...]]]:
    found = testing.answers(query, rows, instances=instances)
    return {name: Counter(tuple(sorted(row.items())) for row in answered) for name, answered in found.items()}


@pytest.mark.usefixtures("as_python")
@pytest.mark.parametrize(("name", "which"), other_forms())
def test_another_form_has_the_same_answers(name: str, which: str) -> None:
    rows = rows_of(name)
    expected = answers(form(name, "query")(), rows, 1)
    assert all(expected.values())
    assert answers(form(name, which)(), rows, 2) == expected


def lines_of(name: str, which: str) -> int | None:
    """What says the query: of a function its source, of SQL the text. Blank lines and comments do not count."""
    if (made := form(name, which)) is None:
        return None
    text = form(name, "SQL") if which == "as_sql" else inspect.getsource(made)
    return sum(bool(line.strip()) and not line.strip().startswith("#") for line in text.splitlines())


def test_the_page_counts_the_lines() -> None:
    page = (ROOT / "docs" / "forms.md").read_text()
    counted = {name: cells.split("|") for name, cells in re.findall(r"^\| \[(\w+)\]\([^)]*\) \|(.*)\|$", page, re.MULTILINE)}
    assert sorted(counted) == NAMES
    for name, cells in counted.items():
        assert [cell.strip().split()[0] for cell in cells] == [str(lines_of(name, which) or "none") for which in FORMS], name
