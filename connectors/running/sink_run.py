"""A sink at work: a subscription whose token is kept with the rows, where the sink can; else behind them."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa

from cep.errors import ClusterError, NotFound, QueryError, StreamEnded
from connectors.contract import AnswerSink, AnswerWriter, ConnectorError
from connectors.running.run import ConnectorRun
from driver.rest import path
from driver.streams.resuming.tokens import ResumeToken
from driver.streams.subscription import Subscription

LOG = logging.getLogger(__name__)
KEEP_S = 600.0
"""For so long answers are kept for a connector that is not there."""

BUDGET_BYTES = 64 << 20
LOOK_S = 0.2


class SinkRun(ConnectorRun):
    """Subscribes, writes, commits, acknowledges."""

    recovers = True  # as far as is known the query does
    beginning: str | None = None  # the first token, which the sink may have failed to keep

    def work(self) -> bool:
        sink: AnswerSink = self.made(self.described.connector.sink)
        writer = sink.open(self.described.name, self.epoch)
        try:
            return self._deliver(sink, writer)
        finally:
            writer.close()

    def _deliver(self, sink: AnswerSink, writer: AnswerWriter) -> bool:
        subscription = self._subscribe(self._token(sink, writer))
        if subscription is None:
            return False
        try:
            done = Delivery(self, sink, writer, subscription).run()
        except QueryError as error:
            if error.pointer != "/resumable":
                raise
            self.recovers = False
            done = False
        except Exception:
            with suppress(Exception):  # what has gone wrong before is what is told
                writer.abort()
            raise
        finally:
            if self.deleted and subscription.core.options.resumable:
                subscription.forget()
            else:
                subscription.close()
        return done

    def _token(self, sink: AnswerSink, writer: AnswerWriter) -> str | None:
        """None: there is none, or the stream had ended there; the next deployment of its query is waited for."""
        note = {"token": writer.token()} if sink.keeps_tokens else self.notes.read(self.described.name)
        token = (None if note is None else note["token"]) or self.beginning
        return None if not token or all(each.ended for each in ResumeToken.of(token).positions) else token

    def _subscribe(self, token: str | None) -> Subscription | None:
        """Behind what is there already; where that is not possible from now on. None: its query has ended just now."""
        stream, cluster = self.described.stream, self.cluster
        if token:
            try:
                return cluster.subscribe(stream, resume=token, keep_s=KEEP_S, budget_bytes=BUDGET_BYTES, apart=True)
            except (QueryError, StreamEnded, NotFound) as error:
                LOG.warning("connector %s begins anew, from now on: %s", self.described.name, error)
                self.figures.note = f"began anew: {error}"
        try:
            recovers = self._recovers()
            return cluster.subscribe(stream, resumable=recovers, keep_s=KEEP_S, budget_bytes=BUDGET_BYTES, apart=True)
        except StreamEnded:
            return None

    def _recovers(self) -> bool:
        """Does the query that puts the stream out? Of one that is not there yet it is found out when it is."""
        try:
            query = self.cluster.rest.get(path("streams", self.described.stream))["fed_by"]
            return self.recovers if query is None else bool(self.cluster.query(query).status()["recovers"])
        except NotFound:
            return self.recovers


class Delivery:
    """What comes of one subscription, to one writer."""

    def __init__(self, run: SinkRun, sink: AnswerSink, writer: AnswerWriter, subscription: Subscription) -> None:
        self.run_, self.sink, self.writer, self.subscription = run, sink, writer, subscription
        self.bytes = self.rows = 0
        self.due = 0.0
        self.schema: pa.Schema | None = None  # of the rows before
        self.kept = subscription.core.token is not None  # a token is, from which the next one goes on

    def run(self) -> bool:
        """Is there nothing more to do?"""
        while not self.run_.stopping.is_set():
            self._tell()
            try:
                found = self.subscription.next_named(timeout=LOOK_S if not self.rows else max(0.001, self.due - time.monotonic()))
            except TimeoutError:
                pass
            else:
                if found is None:
                    self._commit()
                    self.run_.figures.turn("ended")
                    return False
                self._write(*found)
            if self._is_due():
                self._commit()
        self._commit()
        return True

    def _tell(self) -> None:
        if self.run_.figures.state != "ended" or self.subscription.core.query:
            waits = not self.subscription.core.query
            self.run_.figures.turn("waiting" if waits else "running", "no query puts the stream out" if waits else "")

    def _write(self, rows: pa.RecordBatch, origin: str) -> None:
        """Raises ConnectorError: the format cannot hold such rows. It would leave out of them what it has no place for."""
        if rows.schema != self.schema:
            try:
                self.run_.described.check_rows(rows.schema)
            except ValueError as error:
                raise ConnectorError(f"format: stream {self.run_.described.stream!r}: {error}") from None
            self.schema = rows.schema
        if not self.kept and self.subscription.core.options.resumable:
            self._keep(self._beginning())
        if not self.rows:
            self.due = time.monotonic() + self.sink.commit_s
        self.writer.write(rows, origin)
        self.rows += rows.num_rows
        self.bytes += rows.nbytes

    def _beginning(self) -> str:
        """The token before the first rows. Without one, who comes in our place, if we die now, would begin behind them."""
        token = ResumeToken.of(self.subscription.token())
        return replace(token, positions=tuple(replace(each, following=0, ended=False) for each in token.positions)).text

    def _keep(self, token: str) -> None:
        if not self.kept:
            self.run_.beginning = token
        self.writer.commit(token)
        if not self.sink.keeps_tokens:
            self.run_.notes.write(self.run_.described.name, {"token": token}, lasting=True)
        self.kept = True

    def _is_due(self) -> bool:
        if not self.rows:
            return not self.kept and bool(self.subscription.core.query)
        return time.monotonic() >= self.due or self.bytes >= self.sink.commit_bytes

    def _commit(self) -> None:
        """Rows first, or with them, the token; then what came before it may be forgotten."""
        resumable = self.subscription.core.options.resumable
        try:
            token = self.subscription.token() if resumable else ""
        except ClusterError:  # no query puts the stream out yet
            return
        if not (self.rows or resumable):
            self.kept = True
            return
        if resumable:
            self._keep(token)
            self.subscription.acknowledge(token)
        else:
            self.writer.commit(token)
        self.run_.figures.took(self.rows)
        self.rows = self.bytes = 0
