"""Queries: all of them in one table."""

from __future__ import annotations

from nicegui import ui

from console.alarms import query_page
from console.rates import QueryRates, quantile_s
from console.shell import Shell, panel
from console.tables import Head, Sheet
from console.watch import Sight
from console.words import bytes_of, rate, share, span

HEADS = (
    Head("query"),
    Head("state"),
    Head("instances", True),
    Head("rows in/s", True),
    Head("rows out/s", True),
    Head("cores", True),
    Head("lag", True),
    Head("latency p50", True),
    Head("p99", True),
    Head("queue", True),
    Head("blocked", True),
    Head("held in state", True),
    Head("late", True),
    Head("dead letters", True),
)


def register(shell: Shell) -> None:
    @ui.page("/queries")
    def queries() -> None:
        def refresh(sight: Sight) -> None:
            sheet.show(
                [
                    query_line(each["name"], "preview" if each["lease_s"] else each["state"], each["instances"], sight)
                    for each in sight.queries
                ]
            )

        with shell.page("Queries", "/queries", refresh), panel("Queries"):
            sheet = Sheet(HEADS, to=query_page, state=1, filtered=True)


def query_line(name: str, state: str, instances: int, sight: Sight) -> tuple[object, ...]:
    found = sight.rates.queries.get(name, QueryRates(name))
    p50, p99 = quantile_s(found.latencies, 0.5), quantile_s(found.latencies, 0.99)
    return (
        name,
        state,
        instances,
        (rate(found.rows_in_s), found.rows_in_s),
        (rate(found.rows_out_s), found.rows_out_s),
        (f"{found.cpu:.2f}", found.cpu),
        (span(found.lag_s), found.lag_s or 0.0),
        (span(p50), p50 or 0.0),
        (span(p99), p99 or 0.0),
        (bytes_of(found.queue_bytes), found.queue_bytes),
        (share(found.blocked), found.blocked),
        (bytes_of(found.state_bytes), found.state_bytes),
        (f"{found.late:,}", found.late),
        (f"{found.dead:,}", found.dead),
    )
