"""What has to change: each case is what is declared, what is there, and the changes.

Tests `difference.py`, `change.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cep.model.query import Query
from cep.model.streams import Stream
from driver import Query as Builder
from driver import col, stream
from driver.applications.change import Change
from driver.applications.declared import Application, DeclaredConnector
from driver.applications.difference import ClusterContents, DeployedQuery, conflicts, differences, leaving_order, with_readers
from driver.applications.reading import ApplicationPart

NUMBERS = stream("numbers", n="int64")
WIDER = stream("numbers", n="int64", more="string?")


def query(name: str, reads: str = "numbers", least: int = 0) -> Query:
    return Builder(name).source(reads).filter("f", col("n") > least).output(f"{name}.out").value()


def application(*queries: Query, streams: Iterable[Stream] = (NUMBERS,)) -> Application:
    return Application("a", {each.name: each for each in streams}, {each.name: each for each in queries})


def there(
    *queries: Query, state: str = "running", owned: bool = True, streams: Iterable[Stream] = (NUMBERS,), owners=None
) -> ClusterContents:
    """Queries of which one that reads `x.out` reads query x."""
    deployed = {each.name: DeployedQuery(each, state, "why" * (state == "failed"), _read_by(each)) for each in queries}
    mine = [("stream", each.name) for each in streams] + [("query", each.name) for each in queries]
    return ClusterContents({each.name: each for each in streams}, deployed, {}, mine if owned else [], owners)


def _read_by(query: Query) -> frozenset[str]:
    reads = query.operators[0].inputs[0]
    return frozenset([reads.removesuffix(".out")] if reads.endswith(".out") else [])


def told(changes: Iterable[Change]) -> list[str]:
    return [f"{change.action} {change.kind} {change.name}" + (f": {change.why}" if change.why else "") for change in changes]


Q, R = query("q"), query("r", "q.out")
CASES = {
    "nothing is there": (application(Q), there(streams=[]), ["create stream numbers", "create query q"]),
    "all is there": (application(Q), there(Q), []),
    "it was there before the application": (application(Q), there(Q, owned=False), ["adopt stream numbers", "adopt query q"]),
    "another query of its name": (application(query("q", least=1)), there(Q), ["change query q"]),
    "it has failed": (application(Q), there(Q, state="failed"), ["restart query q: failed: why"]),
    "it was stopped": (application(Q), there(Q, state="stopped"), ["restart query q: stopped"]),
    "it has ended": (application(Q), there(Q, state="ended"), []),
    "columns more": (application(streams=[WIDER]), there(), ["extend stream numbers"]),
    "columns less": (application(), there(streams=[WIDER]), []),
    "another application's": (
        application(Q),
        there(Q, owners={("query", "q"): "b", ("stream", "numbers"): "b"}),
        ["refused stream numbers: it belongs to application 'b'", "refused query q: it belongs to application 'b'"],
    ),
    "declared no more, and read": (application(Q, streams=[]), there(Q), ["refused stream numbers: query 'q' reads it"]),
    "declared no more": (application(streams=[]), there(Q, R), ["remove query r", "remove query q", "remove stream numbers"]),
}


IN, OUT = {"name": "in", "stream": "numbers", "from": {}}, {"name": "out", "stream": "q.out", "to": {}}


def connected(*documents: dict[str, Any], owned: bool = True, owners=None) -> tuple[Application, ClusterContents]:
    """One that declares both connectors, and these are there."""
    wanted = {name: DeclaredConnector(each, ApplicationPart(Path(), "", each)) for name, each in (("in", IN), ("out", OUT))}
    found = replace(there(Q, owners=owners), connectors={each["name"]: each for each in documents})
    mine = [("connector", each["name"]) for each in documents] if owned else []
    return replace(application(Q), connectors=wanted), replace(found, owned=[*found.owned, *mine])


def test_connectors() -> None:
    assert told(differences(*connected())) == ["create connector in", "create connector out"]
    assert told(differences(*connected(IN, OUT))) == []
    assert told(differences(*connected(IN, OUT, owned=False))) == ["adopt connector in", "adopt connector out"]
    assert told(differences(*connected(IN, OUT | {"to": {"path": "/"}}))) == ["redeclare connector out"]
    assert told(differences(*connected(OUT, owners={("connector", "in"): "b"}))) == ["refused connector in: it belongs to application 'b'"]
    other = {"name": "other", "stream": "s", "to": {}}
    assert told(differences(*connected(IN, OUT, other))) == ["remove connector other"]
    wanted, found = connected()
    wrong = DeclaredConnector(OUT | {"stream": "q.uot"}, ApplicationPart(Path(), "", {}))
    [_, change] = differences(replace(wanted, connectors=wanted.connectors | {"out": wrong}), found)
    assert told([change]) == ["refused connector out: there is no stream 'q.uot' (did you mean 'q.out'?)"]


@pytest.mark.parametrize("wanted, found, changes", CASES.values(), ids=CASES)
def test_what_changes(wanted: Application, found: ClusterContents, changes: list[str]) -> None:
    assert told(differences(wanted, found)) == changes


def test_a_stream_that_cannot_become_that() -> None:
    [change] = differences(application(streams=[stream("numbers", n="string")]), there())
    assert change.action == "refused" and "exists already with another schema" in change.why


def test_the_lines_that_differ() -> None:
    [change] = differences(application(query("q", least=7)), there(Q))
    assert [line for line in change.lines if line[0] in "+-"] == ["-    - literal: 0", "+    - literal: 7"]
    [change] = differences(application(streams=[WIDER]), there())
    assert [line for line in change.lines if line[0] in "+-"] == ["+- name: more", "+  type: string?"]


def test_readers_of_a_query_that_begins_anew_do_so_too() -> None:
    found, last = there(Q, R, query("s", "r.out")), query("s", "r.out")
    changes = [Change("stream", "numbers", "extend"), Change("query", "q", "replace", why="so")]
    assert told(with_readers(changes, application(Q, R, last), found)) == [
        "extend stream numbers",
        "replace query q: so",
        "replace query r: it reads 'q', which begins anew",
        "replace query s: it reads 'r', which begins anew",
    ]


@pytest.mark.parametrize("action", ["replace", "restart", "remove"])
def test_a_reader_of_another_owner_keeps_it(action: str) -> None:
    changes = [Change("query", "q", action)]
    assert told(with_readers(changes, application(Q), there(Q, R))) == ["refused query q: query 'r', which is not of it, reads it"]


def test_a_reader_that_is_over_keeps_nothing() -> None:
    found = there(Q, R)
    found = replace(found, queries={**found.queries, "r": replace(found.queries["r"], state="ended")})
    assert told(with_readers([Change("query", "q", "remove")], application(), found)) == ["remove query q"]


def test_an_upgrade_concerns_no_reader() -> None:
    assert told(with_readers([Change("query", "q", "upgrade")], application(Q, R), there(Q, R))) == ["upgrade query q"]


def test_those_that_go_go_before_what_they_read() -> None:
    deployed = there(query("a", "b.out"), query("b", "c.out"), query("c"), query("d", "a.out")).queries
    assert leaving_order(deployed, ["a", "b", "c", "gone"]) == ["a", "b", "c"]
    assert leaving_order(deployed, ["c", "d", "a"]) == ["d", "a", "c"]


def test_an_output_of_two() -> None:
    other = replace(query("other"), outputs=Q.outputs)
    assert list(conflicts(application(Q), there(other, owned=False))) == [
        "query 'q' puts out stream 'q.out', and so does query 'other', which is running"
    ]
    assert not list(conflicts(application(Q), there(other)))  # it goes
    assert not list(conflicts(application(Q), there(other, owned=False, state="ended")))
