"""A query that runs on Spark, with the methods of one that runs on a cluster of ours (`driver.cluster.Running`).

Every output stream is a streaming query of Spark, since each of these has one sink. A query over files takes what is there and ends; one
with published streams runs until all of them have ended.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from cep.errors import NotFound, QueryFailed, QueryStopped, StreamEnded
from cep.model import query as model
from cep.model.query import Query
from cep.plan.needed import needed_columns
from cep.plan.validate import Validated, validate
from driver.spark.feeds import FeedPublisher, PublishedFolder
from driver.spark.operators import Compiler
from driver.spark.outputs import OutputStream, SparkSubscription
from driver.spark.refusals import above, check_for_spark, is_updating
from driver.spark.session import SESSIONS, Spark, error_summary
from driver.spark.sources import SparkSource, published_source, text_source

_POLL_SECONDS = 0.5  # a query that fails while its streams are open


def deploy(query: Any, master: str = "local[*]", start: bool = True, folder: str | None = None) -> SparkRunning:
    """Runs a query (builder, value or document) on Spark; with `start=False` it waits for `start()`.

    Args:
        master: Spark's: local[*], local[4], spark://host:port.
        folder: for the files between us and Spark, where not all of it is on this machine: one that all of its machines see.

    Raises:
        QueryError: it is no query. Refused, one of these: Spark cannot run it; names operator and reason. Nothing has started then.
        ClusterError: Spark cannot start, or runs already with another master.
    """
    built = query if isinstance(query, Query) else query.build() if hasattr(query, "build") else model.from_json(query)
    check_for_spark(built)
    validated = validate(built, {})
    spark = SESSIONS.acquire(master, folder)
    try:
        running = SparkRunning(built, validated, spark, master)
    except BaseException:
        SESSIONS.release()
        raise
    return running.start() if start else running


class SparkRunning:
    """A deployed query. `close` it, or use it as a context manager: Spark goes with the last one that is open."""

    def __init__(self, query: Query, validated: Validated, spark: Spark, master: str) -> None:
        self.query, self.name, self.master = query, query.name, master
        self.state = "ready"
        self._error: BaseException | None = None
        self._spark, self._validated = spark, validated
        self._folder = Path(tempfile.mkdtemp(prefix="query-", dir=spark.scratch))
        self._thread: threading.Thread | None = None
        self._woken = threading.Event()
        self._stopping = self._closed = False
        sources = self._sources()
        self.feeds = {s.stream.name: PublishedFolder(s.stream, s.folder, self._woken.set) for s in sources if s.stream.files is None}
        self.streams = self._streams(sources)

    def __repr__(self) -> str:
        return f"Running({self.name!r}, master={self.master!r})"

    def __enter__(self) -> SparkRunning:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Making

    def _sources(self) -> list[SparkSource]:
        made = []
        for number, (name, stream) in enumerate(self._validated.sources.items()):
            needed = needed_columns(self._validated.query, name, stream.schema.names)
            folder = self._folder / f"source-{number}"
            if stream.files is None:
                made.append(published_source(stream, number, folder, needed))
            else:
                made.append(text_source(self._spark.session, stream, number, folder, needed))
        return made

    def _streams(self, sources: list[SparkSource]) -> dict[str, OutputStream]:
        tables = self._folder / "tables"
        tables.mkdir()
        compiler = Compiler(self._validated, self._places(), self._spark.session, tables)
        frames = compiler.frames({s.stream.name: s.frame(self._spark.session, compiler.origins(s.stream.name)) for s in sources})
        made = {}
        for i, output in enumerate(self.query.outputs):
            updating = any(map(is_updating, above(self.query, output.input)))
            made[output.stream] = OutputStream(output, frames[output.input], updating, f"/outputs/{i}/files/folder")
        return made

    def _places(self) -> dict[str, int]:
        """The places of operators in the document, also by the names that they have in full."""
        operators = list(enumerate(self.query.operators))
        return {name: i for i, operator in operators for name in (*operator.branches, operator.name, f"{operator.name}.right")}

    # Life

    def start(self) -> SparkRunning:
        """Runs a query that was deployed with `start=False`. Raises QueryFailed if Spark refuses it."""
        if self._thread is not None:
            return self
        live = not all(feed.ended for feed in self.feeds.values())
        try:
            for number, stream in enumerate(self.streams.values()):
                stream.query = self._started(stream, self._folder / f"checkpoint-{number}", live)
        except (PySparkException, Py4JError) as error:
            self._stop_all()
            raise QueryFailed(self.name, "", None, error_summary(error)) from error
        self.state = "running"
        self._thread = threading.Thread(target=self._follow, args=(live,), name=f"spark-{self.name}", daemon=True)
        self._thread.start()
        return self

    def _started(self, stream: OutputStream, checkpoint: Path, live: bool) -> StreamingQuery:
        writer = stream.data.writeStream.foreachBatch(stream.take).outputMode("update" if stream.updating else "append")
        writer = writer.option("checkpointLocation", str(checkpoint))
        return (writer if live else writer.trigger(availableNow=True)).start()

    def _follow(self, live: bool) -> None:
        """Until it is over: of published streams, until all have ended and everything has been read."""
        try:
            while live and not self._stopping and not all(feed.ended for feed in self.feeds.values()):
                self._woken.wait(_POLL_SECONDS)
                self._woken.clear()
                self._check()
            for stream in self.streams.values():
                self._finish(stream, live)
            self._over("stopped" if self._stopping else "ended", None)
        except (PySparkException, Py4JError) as error:
            stopped = self._stopping
            self._over("stopped" if stopped else "failed", None if stopped else QueryFailed(self.name, "", None, error_summary(error)))

    def _check(self) -> None:
        """Raises what a query has failed with."""
        for stream in self.streams.values():
            if stream.query is not None and (failed := stream.query.exception()) is not None:
                raise failed

    def _finish(self, stream: OutputStream, live: bool) -> None:
        assert stream.query is not None
        if live and not self._stopping:
            stream.query.processAllAvailable()
            stream.query.stop()
        stream.query.awaitTermination()
        if not self._stopping:
            stream.end(None)

    def _over(self, state: str, error: BaseException | None) -> None:
        self.state, self._error = state, error
        self._stop_all()
        for stream in self.streams.values():
            if not stream.over:
                stream.end(error if state == "failed" else QueryStopped(f"query {self.name!r} was stopped; open windows did not fire"))

    def _stop_all(self) -> None:
        for stream in self.streams.values():
            if stream.query is not None:
                stream.query.stop()

    def wait(self) -> SparkRunning:
        """Returns when it is over: its sources have ended, or it was stopped. Raises QueryFailed."""
        self.start()
        assert self._thread is not None
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self

    def stop(self, drain: bool = False) -> None:
        """Stops it: nothing more fires. `drain`: its published streams end instead, files are read to their end, and open windows fire."""
        if drain:
            for feed in self.feeds.values():
                feed.end()
            self.wait()
            return
        self._stopping = True
        self._woken.set()
        self._stop_all()
        if self._thread is not None:
            self._thread.join()
        else:
            self._over("stopped", None)

    def close(self) -> None:
        """Stops it if it runs, and forgets it."""
        if self._closed:
            return
        self._closed = True
        if self.state in ("ready", "running"):
            self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)
        SESSIONS.release()

    # Data

    def subscribe(self, stream: str, *, event_time: bool | str = False) -> SparkSubscription:
        """Answers of the output stream `stream` from now on. `event_time` adds a last column of that name, or of the name given.

        Raises:
            NotFound: there is no such output. StreamEnded: the query is over.
        """
        if stream not in self.streams:
            raise NotFound(f"query {self.name!r} puts out no stream {stream!r}; it has {', '.join(self.streams)}")
        found = self.streams[stream]
        if found.over:
            raise StreamEnded(stream, found.rows)
        return found.subscribe(event_time)

    def publisher(self, stream: str, name: str | None = None, keep_open: bool = False) -> FeedPublisher:
        """Opens a publisher of a stream that the query reads; use it as a context manager. Raises NotFound."""
        if stream not in self.feeds:
            raise NotFound(f"query {self.name!r} reads no published stream {stream!r}; it has {', '.join(self.feeds) or 'none'}")
        return self.feeds[stream].publisher(name, keep_open)

    def status(self) -> dict[str, Any]:
        """State, cause, rows that came out by stream, and what Spark says of the last micro-batch of each."""
        queries = {name: stream.query for name, stream in self.streams.items()}
        return {
            "name": self.name,
            "engine": "spark",
            "master": self.master,
            "state": self.state,
            "cause": None if self._error is None else str(self._error),
            "rows": {name: stream.rows for name, stream in self.streams.items()},
            "progress": {name: None if query is None else query.lastProgress for name, query in queries.items()},
        }

    def explain(self) -> str:
        """Spark's plan of every output, analysed and physical."""
        return "\n".join(f"{name}:\n{stream.data._jdf.queryExecution().toString()}" for name, stream in self.streams.items())
