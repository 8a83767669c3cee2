"""How instance managers have died, as the processes that keep them up report it, and the queries that are blamed for it. Pure.

A query that was at work when its instance manager died fails with it, as all others there do, and its user may deploy it again. With the
third such death it has failed for good: the same document is refused, wherever it would be placed. What it is blamed for is kept beside
the queries, for a query may be deleted between two deaths; it is forgotten with another document of the name, or when the name is
deleted once more, with no query there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from cep.errors import Conflict, ProtocolError
from cep.model.shapes import read_shape
from cep.service.mark import Work
from orchestrator.records import Process

DEATHS_MAX = 3


@dataclass(frozen=True, slots=True)
class BlamedDeath:
    """`how` in words, with what it was at; `blamed`: whose fault it seems to be."""

    how: str
    blamed: Work | None = None


#: (instance manager, its process) -> how that ended.
Deaths = Mapping[tuple[str, Process], BlamedDeath]


def deaths_in(reports: Iterable[Mapping[str, Any]]) -> Deaths:
    """The deaths that the reports of supervisors tell of (`driver.processes.children`)."""
    found: dict[tuple[str, Process], BlamedDeath] = {}
    for report in reports:
        with suppress(ProtocolError):  # of another version, or of no query
            for child in read_shape(_Report, report).children:
                found |= {(child.name, Process(death.pid, death.started)): _death(death) for death in child.last_deaths}
    return found


def _death(died: _Died) -> BlamedDeath:
    work = died.blamed
    return BlamedDeath(died.how, None if work is None else Work(work.query, work.subquery, work.instance, work.operator))


@dataclass(frozen=True, slots=True)
class _Work:
    query: str
    subquery: str
    operator: str
    instance: int | None = None


@dataclass(frozen=True, slots=True)
class _Died:
    pid: int
    started: int
    how: str
    blamed: _Work | None = None


@dataclass(frozen=True, slots=True)
class _Child:
    name: str
    last_deaths: Sequence[_Died]


@dataclass(frozen=True, slots=True)
class _Report:
    children: Sequence[_Child]


@dataclass(frozen=True, slots=True)
class Blame:
    """`deaths`: by what names one, how it was."""

    query: str
    document: str
    deaths: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(document: Any) -> Blame:
        """Raises ProtocolError."""
        return read_shape(Blame, document)


def fingerprint(document: Mapping[str, Any]) -> str:
    """The fingerprint of a query's document."""
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def blamed(known: Blame | None, query: str, document: Mapping[str, Any], deaths: Mapping[str, str]) -> Blame | None:
    """With these deaths as well; None: there are none."""
    found = fingerprint(document)
    before = known if known is not None and known.document == found else Blame(query, found, {})
    more = {**before.deaths, **deaths}
    return replace(before, deaths=dict(list(more.items())[-DEATHS_MAX:])) if more else None


def check_blame(known: Blame | None, query: str, document: Mapping[str, Any]) -> None:
    """Raises Conflict: that document has ended too many."""
    if known is None or len(known.deaths) < DEATHS_MAX or known.document != fingerprint(document):
        return
    how = "; ".join(known.deaths.values())
    raise Conflict(
        f"query {query!r} is refused: it has ended {len(known.deaths)} instance managers ({how}). Change it; or, if it was not to blame, "
        f"delete {query!r} once more, which forgets that, and deploy it again"
    )
