"""Searches on real clusters, one after the other, and what they come to: a table, JSON, and the records of all probes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from cep.errors import PlacementError, QueryError
from cep.model.topology import Topology
from hibench.numa.machine import Machine
from hibench.report.paper import FIGURE_13, MACHINE, WORKLOAD
from hibench.runs.record import now_text
from hibench.screen import Screen
from hibench.searching.grid import Cell
from hibench.searching.host_grid import HostCell
from hibench.searching.probing import Probe, ProbeOptions, cluster_of_cell, probed
from hibench.searching.search import Found, Limits, search_rates


@dataclass(frozen=True)
class Searched:
    """One cell of the grid, searched. `impossible`: why the query cannot be run so; then `found` is None."""

    cell: Cell | HostCell
    found: Found | None
    probes: tuple[Probe, ...] = ()
    impossible: str = ""

    @property
    def best(self) -> Probe | None:
        """The probe of the highest sustained rate."""
        return next((probe for probe in self.probes if self.found and probe.rate == self.found.rate and not probe.verdict.why_not), None)

    def to_json(self) -> dict[str, Any]:
        probes = [
            {"rate": probe.rate, **asdict(probe.verdict), "record": probe.record.id if probe.record else None} for probe in self.probes
        ]
        head = {"name": self.cell.name, **asdict(self.cell), "impossible": self.impossible}
        return {**head, **(asdict(self.found) if self.found else {"rate": None}), "probes": probes}


@dataclass(frozen=True)
class SearchResult:
    """All that one `hibench search` found."""

    options: ProbeOptions
    limits: Limits
    series: str
    machine: Machine
    topology: Topology
    searched: tuple[Searched, ...]

    def to_json(self) -> dict[str, Any]:
        settings = {**asdict(self.options), "workload": self.options.workload.name, "keys": str(self.options.keys)}
        return {
            "workload": self.options.workload.name,
            "series": self.series,
            "settings": settings,
            "limits": asdict(self.limits),
            "machine": asdict(self.machine),
            "topology": self.topology.to_json(),
            "searches": [each.to_json() for each in self.searched],
        }

    def evidence(self) -> dict[str, Any]:
        """`to_json`, and for each search where the kernel says that its processes and their pages were: in its best probe, or the last
        one if none was sustained."""
        document = self.to_json()
        for each, search in zip(self.searched, document["searches"], strict=True):
            shown = each.best or (each.probes[-1] if each.probes else None)
            record = shown.record if shown else None
            search["placed"] = [asdict(placed) for placed in record.placed] if record else []
            search["pages"] = record.tables["pages"].to_pylist() if record and "pages" in record.tables else []
        return document

    def write_json(self, file: Path) -> None:
        file.write_text(json.dumps(self.to_json(), indent=1) + "\n")


def run_searches(
    cells: Sequence[Cell | HostCell], options: ProbeOptions, limits: Limits, topology: Topology, runs: Path, scratch: Path, screen: Screen
) -> SearchResult:
    """A search in each cell; each probe leaves a record under `runs`. A search begins where the one before it ended.

    Raises what the driver raises, except that a query cannot be run in a cell: that is a finding.
    """
    series = f"{now_text()}-{options.workload.name}-search"
    searched: list[Searched] = []
    for cell in cells:
        best = next((each.found.rate for each in reversed(searched) if each.found and each.found.rate), limits.first)
        searched.append(_searched(cell, options, _beginning(limits, best), runs, scratch, series, screen))
    return SearchResult(options, limits, series, Machine.here(), topology, tuple(searched))


def _beginning(limits: Limits, rate: int) -> Limits:
    return Limits(**{**asdict(limits), "first": rate})


def _searched(
    cell: Cell | HostCell, options: ProbeOptions, limits: Limits, runs: Path, scratch: Path, series: str, screen: Screen
) -> Searched:
    probes: list[Probe] = []
    try:
        with cluster_of_cell(cell, scratch, options) as cluster:

            def probe(rate: int) -> str:
                with screen.step(f"{cell.name}: {rate:,}/s", options.dataset(rate).events) as progress:
                    done = probed(cluster, cell, options, rate, scratch, series, progress)
                probes.append(Probe(rate, done.verdict, done.record and done.record.write(runs)))
                screen.say(f"  {rate:,}/s: {done.verdict.why_not or f'sustained, latency p99 {done.verdict.p99_ms:,.1f} ms'}")
                return done.verdict.why_not

            result, _ = search_rates(probe, limits)
    except (PlacementError, QueryError) as error:
        return Searched(cell, None, impossible=str(error))
    return Searched(cell, result, tuple(probes))


def show_search(result: SearchResult, console: Console) -> None:
    """The table, why there is no more, what it is about, and what it cannot say."""
    console.print(_table(result))
    for each in result.searched:
        console.print(f"{each.cell.name}: {each.found.why if each.found else each.impossible}", highlight=False)
    console.print(_rules(result), highlight=False)
    if result.options.cluster is not None:
        console.print(_about_hosts(result), highlight=False)
    elif len(result.topology.nodes) == 1:
        console.print(
            "This machine has one NUMA node, so no gain by NUMA awareness can be measured on it: ON is pinned, each instance manager "
            "bound to a core, OFF is not. On a machine with more nodes: hibench numa-report.",
            highlight=False,
        )
    elif result.options.workload.name == WORKLOAD:
        console.print(_paper(), highlight=False)


def _table(result: SearchResult) -> Table:
    title = f"{result.options.workload.name}: highest sustained rate, records a second"
    first, last = ("hosts", "against one host") if result.options.cluster is not None else ("nodes", "ON against OFF")
    table = Table(first, "cores", "query", "NUMA", "records/s", "p50 ms", "p99 ms", last, title=title)
    for each in result.searched:
        best = each.best
        latency = (f"{best.verdict.p50_ms:,.1f}", f"{best.verdict.p99_ms:,.1f}") if best else ("-", "-")
        rate = f"{each.found.rate:,}" if each.found else "not possible"
        table.add_row(*_head(each.cell), rate, *latency, _gain(each, result.searched))
    return table


def _head(cell: Cell | HostCell) -> tuple[str, str, str, str]:
    numa = "ON" if cell.numa else "OFF"
    if isinstance(cell, HostCell):
        return str(len(cell.hosts)), str(cell.instance_managers), cell.way, numa
    return str(len(cell.nodes)), str(len(cell.cores)), cell.way, numa


def _rules(result: SearchResult) -> str:
    options, best = result.options, [each.best.record.id for each in result.searched if each.best and each.best.record]
    return (
        f"A rate is sustained when over {options.steady_ms / 1000:g} s, behind a warm-up of {options.warm_up_ms / 1000:g} s, "
        f"latency p99 is at most {options.latency_limit_ms:,} ms and the backlog does not grow. An instance manager on each core. "
        f"The best probes in full: hibench report {' '.join(best)}"
    )


def _gain(on: Searched, searched: Sequence[Searched]) -> str:
    """By how much the rate with NUMA on is above that of the same cell with NUMA off, or the rate of more hosts above that of one; ''
    where not both of them have met their limit."""
    off = next((each for each in searched if _is_base(each.cell, on.cell)), None)
    if off is None or not (on.found and off.found and on.found.failed and off.found.failed and off.found.rate):
        return ""
    return f"{on.found.rate / off.found.rate - 1:+.0%}"


def _is_base(cell: Cell | HostCell, other: Cell | HostCell) -> bool:
    """Is it what the other is held against?"""
    if isinstance(other, HostCell):
        return isinstance(cell, HostCell) and cell.way == "one host" and cell != other
    return other.numa and cell == replace(other, numa=False)


def _about_hosts(result: SearchResult) -> str:
    names: dict[int, tuple[str, ...]] = {
        len(each.cell.hosts): each.cell.hosts for each in result.searched if isinstance(each.cell, HostCell)
    }
    used = "; ".join(f"{count}: {', '.join(name or 'this machine' for name in hosts)}" for count, hosts in names.items())
    return (
        f"The hosts of the cluster that were used, those with the most instance managers: {used}. Nothing else may run on them meanwhile."
    )


def _paper() -> str:
    figures = "; ".join(
        f"{paper.nodes} node{'s' if paper.nodes > 1 else ''} {paper.unaware:,} → {paper.aware:,} ({paper.gain_percent:+d}%)"
        for paper in FIGURE_13
    )
    return f"The paper's Figure 13, NUMA off → on, on its machine ({MACHINE}): {figures}."
