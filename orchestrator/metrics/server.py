"""Counts what the instance managers report (`python -m orchestrator.metrics.server '<config>'`).

A small process of its own, so that a killed orchestrator loses no figure. Reports are JSON in messages (`cep.transport.sockets`) and hold
totals, so that a report lost, or this process started anew, is made up for by the next; only dead letters come once each. Questions
are JSON on a REP socket: `{"get": "metrics"}` -> `{"text"}`; `{"get": "query", "query"}` -> `{"instances"}`; `{"get": "figures"}` ->
`{"time", "instances", "managers"}`; `{"get": "history", "query"}` -> figures of the last hours, of a query or (null) of all;
`{"get": "trace"}` -> `{"time", "managers"}`, what has held those up; `{"get": "load", "query"}` ->
`{"instances"}`, with rows by bucket; `{"get": "dead_letters", "query"}` -> `{"counts", "total", "letters"}`; `{"get": "cpu"}` ->
`{"instances"}`, of each query, epoch, subquery, instance, instance manager, CPU time in ns, and when that was so.
"""

from __future__ import annotations

import json
import logging
import re
import signal
import sys
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import zmq

from cep.config import ClusterConfig
from cep.errors import ProtocolError
from cep.model.packed import unpacked
from cep.service.keys import keyring_of, read_pair
from cep.service.logs import begin_logging
from cep.transport import wire
from cep.transport.endpoints import LOCAL_SCHEME
from cep.transport.linked import LinkSockets
from cep.transport.sockets import Sockets, open_sockets
from cep.world.clock import SystemClock
from cep.world.descriptors import raise_descriptor_limit
from orchestrator.metrics.exposition import InstanceReport, ReportedInstance, exposition, letter_counts
from orchestrator.metrics.history import FigureHistory
from orchestrator.metrics.key_watch import KeyWatch
from orchestrator.metrics.stalls import ReportedStalls
from orchestrator.records import Now
from orchestrator.reports import read_report

LETTERS_MAX = 10_000
"""Dead letters kept per query; counts are exact whatever is kept (rule 4.9)."""

SILENT_S_MAX = 600.0
"""How long the last figures of an instance outlive its last report. An idle one is reported every 250 s."""

WITHDRAWN_MAX = 200
"""Instances that are gone from their instance managers and whose figures are kept yet: a process that sees a query end asks for them."""

_PARK_MS = 60_000

_AGO = re.compile(r"last row (\d+) s ago")  # in what an instance waits for: so it was when it was reported

_LOG = logging.getLogger(__name__)
_CLOCK = SystemClock()


class Metrics:
    """Everything reported so far; no socket, no clock of its own."""

    def __init__(self) -> None:
        self.instances: dict[ReportedInstance, InstanceReport] = {}
        self.managers: dict[str, tuple[Now, Mapping[str, Any]]] = {}
        self.letters: dict[str, deque[Mapping[str, Any]]] = {}
        self.epochs: dict[str, int] = {}
        self.queries: dict[str, set[ReportedInstance]] = {}
        self.stalls = ReportedStalls()
        self.history = FigureHistory()
        self._complete: dict[str, float] = {}  # instance manager -> when all its figures were as reported
        self._withdrawn: deque[tuple[ReportedInstance, InstanceReport]] = deque()  # the oldest first
        self._look_at = 0.0  # when the silent are forgotten next

    def take(self, report: Mapping[str, Any], now: Now) -> None:
        """Notes a report. Raises KeyError or TypeError: it is none."""
        im = report["im"]
        self.managers[im] = now, {**report.get("process", {}), "compiling": report.get("compiling", "")}
        self.stalls.take(im, report.get("stalls"), now.wall)
        if report.get("complete"):
            self._complete[im] = now.wall
        for where in report.get("withdrawn", ()):
            if (known := self.instances.get(ReportedInstance(where[0], where[1], int(where[2])))) is not None and known.im == im:
                known.withdrawn = True
                self._withdrawn.append((ReportedInstance(where[0], where[1], int(where[2])), known))
        for each in report["instances"]:
            self._take_instance(im, each, now)
        self._forget_silent(now.steady)
        self.history.note(self.instances, self.managers, now)
        while len(self._withdrawn) > WITHDRAWN_MAX:
            where, figures = self._withdrawn.popleft()
            if self.instances.get(where) is figures:
                self._drop(where)

    def answer(self, question: Mapping[str, Any], now: Now) -> dict[str, Any]:
        """What is asked for; `{"error"}` where that makes no sense."""
        match question:
            case {"get": "metrics"}:
                return {"text": "".join(exposition(self.instances.items(), self.managers, self.stalls, now.wall))}
            case {"get": "query", "query": query}:
                return {"instances": [self._told(where, self.instances[where], now) for where in self.queries.get(query, ())]}
            case {"get": "figures"}:
                managers = [{"im": im, "reported": at.wall, **process} for im, (at, process) in sorted(self.managers.items())]
                return {"time": now.wall, "instances": [self._told(*each, now) for each in self.instances.items()], "managers": managers}
            case {"get": "history", "query": query}:
                return self.history.answer(query)
            case {"get": "trace"}:
                return {"time": now.wall, "managers": self.stalls.answer()}
            case {"get": "load", "query": query}:
                return {"instances": [_load(where, f) for where, f in self.instances.items() if where.query == query]}
            case {"get": "cpu"}:
                return {"instances": [self._cpu(where, figures) for where, figures in self.instances.items()]}
            case {"get": "dead_letters", "query": query}:
                return self.dead_letters(query)
        known = "'metrics' | 'query' | 'figures' | 'history' | 'trace' | 'load' | 'cpu' | 'dead_letters'"
        return {"error": f"expected {{'get': {known}}}, got {question!r}"}

    def dead_letters(self, query: str) -> dict[str, Any]:
        """Exact counts, and the last letters."""
        counts: dict[str, int] = {}
        for where in self.queries.get(query, ()):
            for name, count in letter_counts(self.instances[where].report):
                counts[name] = counts.get(name, 0) + count
        return {"counts": counts, "total": sum(counts.values()), "letters": list(self.letters.get(query, ()))}

    def _take_instance(self, im: str, report: Mapping[str, Any], now: Now) -> None:
        where = ReportedInstance(report["query"], report["subquery"], report["instance"])
        if self.epochs.setdefault(where.query, report["epoch"]) != report["epoch"]:
            self._forget(where.query, report["epoch"])
        letters = report.get("dead_letters", {}).get("letters", ())
        at = {"subquery": where.subquery, "instance": where.instance}
        if letters:
            self.letters.setdefault(where.query, deque(maxlen=LETTERS_MAX)).extend({**letter, **at} for letter in letters)
        self.instances[where] = InstanceReport(im, now, report)
        self.queries.setdefault(where.query, set()).add(where)

    def _cpu(self, where: ReportedInstance, figures: InstanceReport) -> list[Any]:
        report = figures.report
        return [where.query, report["epoch"], where.subquery, where.instance, figures.im, report["cpu_ns"], self._reported(figures)]

    def _reported(self, figures: InstanceReport) -> float:
        """Until when they were so."""
        return figures.at.wall if figures.withdrawn else max(figures.at.wall, self._complete.get(figures.im, 0.0))

    def _told(self, where: ReportedInstance, figures: InstanceReport, now: Now) -> dict[str, Any]:
        """`reported`: when they were so; an instance that has done nothing since is not reported anew."""
        report = {key: value for key, value in figures.report.items() if key not in ("dead_letters", "buckets")}
        since_s = now.steady - figures.at.steady
        waits_for = _AGO.sub(lambda ago: f"last row {int(ago[1]) + since_s:.0f} s ago", report.get("waits_for") or "")
        dead = sum(count for _, count in letter_counts(figures.report))
        return {**report, **where._asdict(), "dead": dead, "waits_for": waits_for, "im": figures.im, "reported": self._reported(figures)}

    def _forget(self, query: str, epoch: int) -> None:
        """Another deployment of that name has begun."""
        self.epochs[query] = epoch
        self.letters.pop(query, None)
        for where in self.queries.pop(query, ()):
            del self.instances[where]

    def _forget_silent(self, steady: float) -> None:
        if steady < self._look_at:
            return
        self._look_at = steady + SILENT_S_MAX / 60
        for where in [w for w, f in self.instances.items() if steady - f.at.steady > SILENT_S_MAX]:
            self._drop(where)
        for im in [im for im, (at, _) in self.managers.items() if steady - at.steady > SILENT_S_MAX]:
            del self.managers[im]
            self._complete.pop(im, None)
            self.stalls.forget(im)

    def _drop(self, where: ReportedInstance) -> None:
        """An instance; with the last one its query."""
        del self.instances[where]
        self.queries[where.query].discard(where)
        if not self.queries[where.query]:
            del self.queries[where.query], self.epochs[where.query]
            self.letters.pop(where.query, None)


def _load(where: ReportedInstance, figures: InstanceReport) -> dict[str, Any]:
    report = {key: figures.report.get(key) for key in ("epoch", "attempt", "cpu_ns", "rows_in")}
    buckets = {head: list(unpacked(counts)) for head, counts in (figures.report.get("buckets") or {}).items()}
    return {**report, "buckets": buckets, **where._asdict(), "reported": figures.at.wall}


# --- the process -----------------------------------------------------------------------------------------------------


def serve_metrics(config: ClusterConfig) -> None:
    """Takes reports and answers questions, for ever."""
    metrics, lock = Metrics(), threading.Lock()
    reports = _open_reports(config)
    questions: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.REP)
    questions.bind(config.metrics_out)
    threading.Thread(target=_answer_all, args=(questions, metrics, lock), name="cep-questions", daemon=True).start()
    while True:
        reports.park(_PARK_MS)
        while (message := _next(reports)) is not None:
            with lock:
                _take(metrics, message)


def _open_reports(config: ClusterConfig) -> Sockets:
    """With the keys of the cluster's members, where instance managers of other hosts reach it over links that have any."""
    if config.members is None or config.metrics_in.startswith(LOCAL_SCHEME):
        return open_sockets(config.metrics_in)
    keyring = keyring_of(read_pair(Path(config.members)))
    sockets = LinkSockets(config.metrics_in, keyring)
    KeyWatch(config, keyring, sockets.rekey).start()
    return sockets


def _next(reports: Sockets) -> bytes | None:
    """What has been reported next; None: no more for now."""
    while True:
        try:
            message = reports.receive()
        except ProtocolError as error:
            _LOG.warning("message not understood: %s", error)
            continue
        if message is not None and reports.speaker is not None and not reports.speaker.is_member:
            _LOG.warning("no report of a member: %s, with the key of %s", message[0], reports.speaker.name)
            continue
        if message is None or message[0].kind == wire.REPORT:
            return None if message is None else bytes(message[1])
        _LOG.warning("not a report: %s", message[0])


def _answer_all(questions: zmq.Socket[bytes], metrics: Metrics, lock: threading.Lock) -> None:
    while True:
        question = questions.recv()
        with lock:
            answer = _answer(metrics, question)
        questions.send(answer)


def _take(metrics: Metrics, message: bytes) -> None:
    try:
        metrics.take(read_report(message), Now.by(_CLOCK))
    except ValueError as error:
        _LOG.warning("not a report: %s: %.200r", error, message)


def _answer(metrics: Metrics, message: bytes) -> bytes:
    try:
        return json.dumps(metrics.answer(json.loads(message), Now.by(_CLOCK))).encode()
    except Exception as error:  # whatever is asked, the next question is answered
        return json.dumps({"error": f"{type(error).__name__}: {error}"}).encode()


def main(arguments: Sequence[str]) -> int:
    config = ClusterConfig.from_json(json.loads(arguments[0]))
    begin_logging("metric-server", config.log)
    raise_descriptor_limit()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    serve_metrics(config)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
