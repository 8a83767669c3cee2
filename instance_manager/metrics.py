"""Reports to the metric server: twice a second, one JSON message with what the instances that have done something have done so far.

A report takes a hundredth of the time; where more have done something than that allows, each comes in its turn. An idle one is reported
so seldom that it costs nothing, for the metric server may have been started anew meanwhile.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from cep.config import InstanceManagerConfig
from cep.dataflow.operators.operator import AggregateOperator
from cep.dataflow.operators.sequential_aggregate import SequentialAggregate
from cep.dataflow.outputs.balancer import RouteKey
from cep.dataflow.outputs.output import EdgeOutput
from cep.dataflow.reports import notes_of, unused_of, waits_for, watermark_of
from cep.elements import MAX_TIME, MIN_TIME
from cep.kernels.jit import compilations, compiling
from cep.model.packed import packed
from cep.transport import wire
from cep.transport.sockets import Sockets
from cep.transport.wire import Header
from cep.world.clock import Clock
from cep.world.stalls import Stalls
from cep.world.usage import Usage
from instance_manager.accounts import settle, step_accounts
from instance_manager.hosting import InstanceHost
from instance_manager.loop import Loop

LOG = logging.getLogger(__name__)
INTERVAL_NS = 500_000_000
LETTERS_MAX = 500  # per instance and report
REPORT_NS = INTERVAL_NS // 100
ROUND = 500  # reports in which every instance comes at least once: 250 s


class Reporter:
    """Sends a report when it is due; `tick` is called by the loop, in whose thread this is made."""

    def __init__(
        self,
        config: InstanceManagerConfig,
        sockets: Sockets,
        clock: Clock,
        usage: Usage,
        stalls: Stalls | None = None,
        memory_limit_bytes: int | None = None,
    ) -> None:
        self.memory_limit_bytes = memory_limit_bytes
        self.config, self.sockets, self.clock, self.usage, self.stalls = config, sockets, clock, usage, stalls
        self._due = 0
        self._cpu_ns, self._mark = usage.thread_cpu_ns(), clock.steady_ns()
        self._round: deque[str] = deque()  # those that have not come in this round
        self._made: dict[str, Any] | None = None  # and not yet sent

    def tick(self, loop: Loop, at_once: bool) -> None:
        """Makes a report if one is due, and sends it with the next tick, so that tuples that come meanwhile wait for one half of the work
        only. Or both at once: an instance is over, and a client that sees its end asks for its dead letters next."""
        now = self.clock.steady_ns()
        if self.stalls is not None:
            self.stalls.look_at_others()
        try:
            if self._made is not None:
                self._send()
            if at_once:
                self._make(loop, now)
                self._send()
            elif now >= self._due:
                self._make(loop, now)
        except Exception:  # a report that cannot be made must not end the queries it is about
            LOG.exception("no report this time")
        loop.meter.charge(loop.accounts.reports)

    def _make(self, loop: Loop, now: int) -> None:
        self._due = now + INTERVAL_NS
        with loop.settled():
            self._made = self._report(loop)

    def _send(self) -> None:
        report, self._made = self._made, None
        self.sockets.send(self.config.cluster.metrics_in, Header(wire.REPORT, 0), wire.to_json(report))

    def _report(self, loop: Loop) -> dict[str, Any]:
        share = self._cpu_share(loop)
        loop_cpu_ns = loop.accounts.settle(share)
        loop.network.account.settle(share)
        now_us = self.clock.wall_ns() // 1000
        told = [(hosted, _instance(hosted, share, now_us)) for hosted in self._due_now(loop)]
        complete = not loop.ready.has_unreported
        for hosted, _ in told:
            if _goes_on(hosted):
                loop.ready.report(hosted)
        return {
            "im": self.config.id,
            "time": self.clock.wall_ns() / 1e9,
            "instances": [figures for _, figures in told],
            "complete": complete,  # what is not among them has done nothing since it was
            "stalls": None if self.stalls is None else self.stalls.report(),
            "withdrawn": [list(place) for place in loop.ready.withdrawn()],
            "compiling": compiling(),
            "process": {
                "pid": os.getpid(),
                "cpu_ns": self.usage.process_cpu_ns(),
                "engine_cpu_ns": self._cpu_ns,
                "loop_cpu_ns": loop_cpu_ns,
                "network_cpu_ns": loop.network.account.cpu_ns,
                "rss_bytes": self.usage.resident_bytes(),
                "memory_limit_bytes": self.memory_limit_bytes,
                "strays": loop.network.strays,
                "fast_path": loop.fast_paths.messages,
                "compilations": compilations(),
            },
        }

    def _due_now(self, loop: Loop) -> Iterator[InstanceHost]:
        """All that are over, and of the others as many as there is time for."""
        end, told = self.clock.steady_ns() + REPORT_NS, set()
        for hosted in loop.ready.unreported():
            if not _tells(hosted):
                continue
            told.add(hosted.key)
            yield hosted
            if self.clock.steady_ns() > end and not hosted.instance.done:
                break
        if not self._round:
            self._round.extend(loop.hosted)
        for key in [self._round.popleft() for _ in range(min(len(self._round), len(loop.hosted) // ROUND + 1))]:
            if key in loop.hosted and key not in told and _tells(loop.hosted[key]):
                yield loop.hosted[key]

    def _cpu_share(self, loop: Loop) -> float:
        """How much of the time that the loop has worked since the last report its thread had a core."""
        cpu_ns, mark = self.usage.thread_cpu_ns(), loop.meter.mark
        worked = mark - self._mark - loop.idle.busy_ns
        share = min(1.0, (cpu_ns - self._cpu_ns) / worked) if worked > 0 else 1.0
        self._cpu_ns, self._mark, loop.idle.busy_ns = cpu_ns, mark, 0
        return share


def _tells(hosted: InstanceHost) -> bool:
    """Of the two places of an instance that moves: the old one until all is on its way, the new one once it has its totals."""
    instance = hosted.instance
    return instance.state not in ("moved", "arriving")


def _goes_on(hosted: InstanceHost) -> bool:
    """Is there more to tell although it does nothing? The time that an output waits, letters that were too many for one report."""
    return bool(hosted.instance.dead_letters.letters) or any(output.blocked for output in hosted.instance.outputs)


def _instance(hosted: InstanceHost, share: float, now_us: int) -> dict[str, Any]:
    billed, instance = list(step_accounts(hosted)), hosted.instance
    cpu_ns = settle(billed, share)
    query = instance.query
    letters, unused = instance.dead_letters.take(LETTERS_MAX), unused_of(instance)
    stateful = [node.stateful for node in instance.nodes if node.stateful is not None]
    aggregates = [operator for operator in stateful if isinstance(operator, AggregateOperator)]
    return {
        "query": query,
        "subquery": instance.subquery,
        "instance": instance.index,
        "epoch": hosted.epoch,
        "attempt": hosted.attempt,
        "state": instance.state,
        "watermark": None if instance.done or (watermark := watermark_of(instance)) in (MIN_TIME, MAX_TIME) else watermark,
        "waits_for": waits_for(instance, now_us),
        "rows_in": max((node.rows_in for node in instance.nodes), default=0),
        "rows_out": sum(output.rows for output in instance.outputs),
        "queue_bytes": sum(port.inbox.held() for port in hosted.ports.incoming.values()) + _published_bytes(hosted),
        "cpu_ns": cpu_ns,
        "bytes_in": sum(step.account.bytes for step in billed),
        "bytes_out": sum(output.bytes for output in instance.outputs),
        **{name: unused[name] for name in ("late", "odd_times", "before_since")},
        "state_bytes": sum(operator.state_bytes for operator in stateful),
        "open_panes_max": max((operator.open_panes_max for operator in aggregates), default=0),
        "incomplete": sum(operator.incomplete for operator in stateful),
        "outside": sum(n.operator.outside for n in instance.nodes if isinstance(n.operator, SequentialAggregate)),
        "dropped_rows": _dropped(hosted),
        "subscriptions": sum(len(outlet.subscriptions) for outlet in hosted.outlets.values()),
        "vanished_publishers": sorted({name for entry in hosted.entries.values() for name in entry.source.vanished}),
        **_moves(hosted),
        "buckets": _buckets(hosted),
        "notes": notes_of(instance),
        "operators": [step.to_json() for step in billed],
        "outputs": [_output(output, query, instance.meter.mark) for output in instance.outputs],
        "dead_letters": {
            "count": list(unused["dead_letters"].items()),
            "letters": [letter.to_json() for letter in letters],
        },
    }


def _moves(hosted: InstanceHost) -> dict[str, int]:
    moving = hosted.movement.buckets
    if moving is None:
        return {}
    figures = {"moves": moving.moves, "moved_rows": moving.rows_moved, "moved_bytes": moving.bytes_moved}
    return figures | {"move_ns": moving.paused_us * 1000, "table": moving.version}


def _buckets(hosted: InstanceHost) -> dict[str, str]:
    """Subquery that it routes to -> a sample of rows by bucket, packed."""
    balancers = [(head, output.balancer) for head, outputs in hosted.movement.routes.items() for output in outputs]
    counts: dict[str, np.ndarray] = {}
    for head, balancer in balancers:
        if isinstance(balancer, RouteKey):
            counts[head] = counts.get(head, 0) + balancer.counts
    return {head: packed(each) for head, each in counts.items()}


def _output(output: EdgeOutput, query: str, now: int) -> dict[str, Any]:
    """Backpressure, how long it has waited for credit; and, of what leaves the query, how old its tuples were."""
    figures: dict[str, Any] = {"name": output.name.removeprefix(f"{query}/"), "blocked": output.blocked}
    figures["blocked_ns"] = output.stall.until(now)
    if output.latency is not None:
        figures["latency_us"] = {"sum": output.latency.sum_us, "counts": output.latency.counts}
    return figures


def _published_bytes(hosted: InstanceHost) -> int:
    """Of publishers, waiting to be read."""
    return sum(publisher.inbox.held() for entry in hosted.entries.values() for publisher in entry.source.publishers.values())


def _dropped(hosted: InstanceHost) -> int:
    """Answers without a subscriber, and those dropped for subscribers that were slow or went away."""
    subscribers = sum(o.dropped_rows + sum(s.dropped for s in o.subscriptions.values()) for o in hosted.outlets.values())
    return subscribers + sum(output.discarded for output in hosted.instance.outputs)
