"""What the console knows of its cluster: one thread asks, for all pages that are open, and none when none is.

Rules:
1. A page reads the last `Sight`, a value; it never waits for the cluster.
2. After answers that took long there is a longer pause, so that looking costs a busy cluster little.
3. What cannot be had (a role that the token lacks, an orchestrator that is away) is said on the page, and the rest is shown.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cep.errors import CepError, NotFound
from cep.service.access import Access, Role, checked_roles
from console.rates import ClusterRates, LastReports, latencies_between, placed_figures, quantile_s, rates_between
from driver.rest import Rest, path

_LOG = logging.getLogger(__name__)

PERIOD_S = 1.0
SHARE = 0.2
PAUSE_S_MAX = 5.0
UNUSED_S = 15.0
"""So long after a page has looked last, nothing is asked any more."""
SLOW_S = 5.0
"""What changes seldom is asked for as often."""
KEPT = 300
"""Seconds of figures for curves."""
PLANS_S = 0.5
"""So long at a time plans are asked for, of many queries."""


@dataclass(frozen=True, slots=True)
class ClusterMoment:
    """The cluster in one second, for curves."""

    time: float
    rows_in_s: float
    rows_out_s: float
    lag_s: float | None
    cpu: float
    memory_bytes: int
    p50_s: float | None
    p99_s: float | None


@dataclass(frozen=True, slots=True)
class Sight:
    """What was last seen.

    Args:
        error: why the last question had no answer; empty: it had.
        at: when the last answer came, seconds since 1970; 0: none yet.
        plans: query -> its physical plan, of those that have been asked for by now.
        figures: as `GET /figures` has them.
        trace: as `GET /trace` has it.
    """

    error: str = ""
    at: float = 0.0
    rates: ClusterRates = field(default_factory=ClusterRates)
    figures: Mapping[str, Any] = field(default_factory=lambda: {"time": 0.0, "instances": [], "managers": []})
    queries: tuple[Mapping[str, Any], ...] = ()
    managers: tuple[Mapping[str, Any], ...] = ()
    cluster: Mapping[str, Any] = field(default_factory=dict)
    hosts: tuple[Mapping[str, Any], ...] = ()
    topology: Mapping[str, Any] = field(default_factory=dict)
    streams: tuple[Mapping[str, Any], ...] = ()
    connectors: tuple[Mapping[str, Any], ...] = ()
    plans: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    trace: Mapping[str, Any] | None = None
    moments: tuple[ClusterMoment, ...] = ()
    number: int = 0

    def query(self, name: str) -> Mapping[str, Any] | None:
        return next((each for each in self.queries if each["name"] == name), None)

    def may(self, role: Role) -> bool:
        """What needs that role? It is not known before the first answer."""
        roles = self.cluster.get("roles")
        return roles is None or Access("", checked_roles(roles)).allows(role)


class ClusterWatch:
    """Asks `rest`, in a thread of its own, for as long as `sight` is read."""

    def __init__(self, rest: Rest) -> None:
        self.rest = rest
        self._sight = Sight()
        self._wanted, self._used = threading.Event(), 0.0
        self._moments: deque[ClusterMoment] = deque(maxlen=KEPT)
        self._latencies: dict[str, deque[tuple[float, tuple[int, ...]]]] = {}
        self._plans: dict[str, tuple[object, Mapping[str, Any]]] = {}
        self._slow_at = 0.0
        self._reports = LastReports()
        threading.Thread(target=self._run, name="console-watch", daemon=True).start()

    def sight(self) -> Sight:
        """What was last seen; a page that asks each second keeps it new."""
        self._used = time.monotonic()
        self._wanted.set()
        return self._sight

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def latencies(self, query: str) -> Sequence[tuple[float, tuple[int, ...]]]:
        """(time, rows by class of latency) of the last minutes."""
        return tuple(self._latencies.get(query, ()))

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            begun = time.monotonic()
            if begun - self._used > UNUSED_S:
                self._wanted.clear()
                continue
            try:
                self._sight = self._look(self._sight)
            except Exception as error:  # whatever is answered, the next look is taken
                if not isinstance(error, CepError):
                    _LOG.exception("what the cluster answered is not understood")
                self._sight = replace(self._sight, error=str(error) or type(error).__name__, number=self._sight.number + 1)
            took = time.monotonic() - begun
            threading.Event().wait(max(PERIOD_S - took, min(PAUSE_S_MAX, took * (1 / SHARE - 1))))

    def _look(self, before: Sight) -> Sight:
        figures = self.rest.get("/figures")
        seen = replace(before, queries=tuple(self.rest.get("/queries")), figures=figures)
        if time.monotonic() - self._slow_at > SLOW_S or {each["im"] for each in figures["managers"]} != {
            each["id"] for each in seen.managers
        }:
            seen = self._look_at_rest(seen)
        seen = replace(seen, plans=self._known_plans(seen))
        figures = placed_figures(figures, seen.plans)
        reports, seen = self._reports.take(figures), replace(seen, figures=figures)
        if before.figures["time"]:
            rates = rates_between(*reports, seen.managers)
            self._note(rates, latencies_between(before.figures, figures))
            seen = replace(seen, rates=rates, moments=tuple(self._moments))
        return replace(seen, at=figures["time"], error="", number=before.number + 1)

    def _look_at_rest(self, seen: Sight) -> Sight:
        self._slow_at = time.monotonic()
        get = self.rest.get
        return replace(
            seen,
            managers=tuple(get("/instance-managers")),
            cluster=get("/cluster"),
            hosts=tuple(get("/hosts")),
            topology=get("/topology"),
            streams=tuple(get("/streams")),
            connectors=tuple(get("/connectors")),
            trace=get("/trace"),
        )

    def _note(self, rates: ClusterRates, latencies: Mapping[str, tuple[int, ...]]) -> None:
        counts = rates.latencies
        p50, p99 = quantile_s(counts, 0.5), quantile_s(counts, 0.99)
        self._moments.append(
            ClusterMoment(rates.time, rates.rows_in_s, rates.rows_out_s, rates.lag_s, rates.cpu, rates.memory_bytes, p50, p99)
        )
        for gone in self._latencies.keys() - latencies.keys():
            del self._latencies[gone]
        for name, found in latencies.items():
            self._latencies.setdefault(name, deque(maxlen=KEPT)).append((rates.time, found))

    def _known_plans(self, seen: Sight) -> Mapping[str, Mapping[str, Any]]:
        """A plan is asked for once, and again when its instances are others or elsewhere, or it has recovered, as it does when it is
        scaled; of many queries a few at a time."""
        where: dict[str, set[tuple[str, int, str]]] = {}
        for each in seen.figures["instances"]:
            where.setdefault(each["query"], set()).add((each["subquery"], each["instance"], each["im"]))
        wanted = {
            each["name"]: (frozenset(where.get(each["name"], ())), each["times"].get("deploying"), (each["recovery"] or {}).get("attempts"))
            for each in seen.queries
        }
        until = time.monotonic() + PLANS_S
        for name in [name for name, key in wanted.items() if self._plans.get(name, (None,))[0] != key]:
            if time.monotonic() > until:
                break
            try:
                self._plans[name] = wanted[name], self.rest.get(path("queries", name) + "/plan")
            except NotFound:  # just now
                continue
        for gone in self._plans.keys() - wanted.keys():
            del self._plans[gone]
        return {name: plan for name, (_, plan) in self._plans.items()}
