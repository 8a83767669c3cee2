"""What CREATE makes, DROP forgets and SET says."""

from __future__ import annotations

import pytest

from cep.errors import QueryError
from cep.model import streams
from cep.model.sinks import ParquetSink
from driver import files, stream
from driver.streaming_sql.catalog import CatalogTable, NamedFunction, NamedSink, SqlCatalog
from driver.streaming_sql.errors import SqlError
from driver.streaming_sql.statements import CreateFunction, CreateStatement, CreateView, Drop, statements


def defined(text: str, catalog: SqlCatalog | None = None) -> SqlCatalog:
    found = catalog or SqlCatalog()
    for each in statements(text):
        assert isinstance(each, CreateStatement | CreateView | CreateFunction | Drop)
        found = found.drop(each, text) if isinstance(each, Drop) else found.create(each, text)
    return found


@pytest.mark.parametrize("kind", ["STREAM", "TABLE", "SOURCE"])
def test_a_stream_is_what_the_builder_declares(kind: str) -> None:
    text = f"CREATE {kind} Bid (auction BIGINT NOT NULL, who VARCHAR, AT TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '4' SECOND)"
    found = defined(text).find("bID")
    assert isinstance(found, streams.Stream)
    declared = stream("Bid", {"auction": int, "who": "string?", "AT": "timestamp[ms]"}, event_time="AT", disorder="4s")
    assert streams.to_json(found) == streams.to_json(declared)


def test_a_stream_without_a_watermark_is_stamped_as_it_arrives() -> None:
    found = defined("CREATE STREAM s (a INT, b DOUBLE NULL, c BOOLEAN NOT NULL, d BYTES, e ARRAY<VARCHAR>, f TIMESTAMP)").find("s")
    assert isinstance(found, streams.Stream)
    declared = stream("s", {"a": "int32?", "b": "float64?", "c": "bool", "d": "binary?", "e": "list<string>?", "f": "timestamp[us]?"})
    assert streams.to_json(found) == streams.to_json(declared)


def test_a_stream_of_files() -> None:
    text = """CREATE STREAM s (a BIGINT NOT NULL) WITH ('connector' = 'files', path = '/d/*.csv, /e/x.csv', separator = ';', header = true,
        block_bytes = 4096, event_times = 'any')"""
    found = defined(text).find("s")
    assert isinstance(found, streams.Stream)
    paths = ("/d/*.csv", "/e/x.csv")
    declared = files("s", a=int, paths=paths, separator=";", header=True, block_bytes=4096, event_times="any")
    assert streams.to_json(found) == streams.to_json(declared)


def test_flags_ignore_case() -> None:
    """Before, TRUE was none in `header`, and in `clock` it was false."""
    found = defined("""
        CREATE STREAM f (a BIGINT NOT NULL) WITH (connector = 'files', path = '/d/*.csv', header = TRUE);
        CREATE STREAM c (t TIMESTAMP(3), WATERMARK FOR t AS t) WITH (clock = True); CREATE SINK o WITH (path = '/d/out', overwrite = TRUE);
        CREATE STREAM d (t TIMESTAMP(3), WATERMARK FOR t AS t) WITH (clock = FALSE);
    """)
    given, clocked, unclocked, sink = (found.find(name) for name in "fcdo")
    assert isinstance(given, streams.Stream) and isinstance(clocked, streams.Stream) and isinstance(unclocked, streams.Stream)
    assert streams.to_json(given) == streams.to_json(files("f", a=int, paths="/d/*.csv", header=True))
    assert (clocked.watermark, unclocked.watermark) == ("clock", None)
    assert isinstance(sink, NamedSink) and sink.files is not None and sink.files.overwrite


def test_tables_sinks_functions() -> None:
    found = defined("""
        CREATE TABLE side (key BIGINT, since TIMESTAMP(3) NOT NULL) WITH (path = '/d/side.parquet', versions = 'SINCE', refresh = '1 m');
        CREATE SINK out (a BIGINT) WITH (path = '/d/out', format = 'parquet', overwrite = true, stream = 'answers'); CREATE SINK plain;
        CREATE AGGREGATE FUNCTION best RETURNS BIGINT AS 'features:Best';
    """)
    table, sink, plain, function = (found.find(name) for name in ("side", "out", "plain", "BEST"))
    assert isinstance(table, CatalogTable)
    assert (table.versions, table.refresh, table.table.path) == ("since", 60_000_000, "/d/side.parquet")
    assert isinstance(sink, NamedSink)
    assert (sink.stream, sink.files) == ("answers", ParquetSink("/d/out", True))
    assert plain == NamedSink("plain", "plain")
    assert isinstance(function, NamedFunction)
    assert (function.reference, function.aggregate) == ("features:Best", True)


def test_names_ignore_case_and_are_one_thing_each() -> None:
    catalog = defined("CREATE STREAM s (a INT)")
    assert defined("CREATE STREAM s (a INT)", catalog).entries.keys() == {"s"}  # the same again
    for text in ("CREATE STREAM S (b INT)", "CREATE SINK s", "CREATE VIEW S AS SELECT a FROM s"):
        with pytest.raises(SqlError, match=r"SQL-EXISTS at 1:1[0-9]: there is a stream 's' already"):
            defined(text, catalog)
    with pytest.raises(QueryError, match="names ignore case"):
        SqlCatalog.of([stream("a", x=int), stream("A", x=float)])


def test_streams_of_a_cluster_may_differ_by_case_alone() -> None:
    catalog = SqlCatalog.of([], known=[stream("a", x=int), stream("A", x=float)])
    found = [catalog.find(name) for name in ("a", "A")]
    assert [each.schema.names and str(each.schema["x"].type) for each in found if isinstance(each, streams.Stream)] == ["int64", "float64"]


def test_drop() -> None:
    catalog = defined("CREATE STREAM s (a INT); CREATE SINK o; DROP SINK O; DROP SINK IF EXISTS o")
    assert catalog.entries.keys() == {"s"}
    with pytest.raises(SqlError, match="SQL-NAME at 1:11: there is no view 's'"):
        defined("DROP VIEW s", catalog)
