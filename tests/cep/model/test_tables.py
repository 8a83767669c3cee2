"""Static tables as they are described: a path or data, and their documents."""

from __future__ import annotations

from typing import Any

import pytest

from cep.errors import QueryError
from cep.model.schema import Schema
from cep.model.tables import INLINE_BYTES_MAX, StaticTable, from_json, to_json

SCHEMA = Schema.of({"k": "int64", "name": "string?"})


@pytest.mark.parametrize(
    ("table", "format_"),
    [
        (StaticTable(SCHEMA, "/data/a.parquet"), "parquet"),
        (StaticTable(SCHEMA, "/data/a.b.feather"), "arrow"),
        (StaticTable(SCHEMA, "/data/a.arrow"), "arrow"),
        (StaticTable(SCHEMA, "/data/a.csv"), "csv"),
        (StaticTable(SCHEMA, data=b"\0stream\xff"), "arrow"),
    ],
)
def test_its_document_says_all_of_it(table: StaticTable, format_: str) -> None:
    assert from_json(to_json(table)) == table
    assert table.format == format_


def test_it_has_either_a_path_or_data() -> None:
    for path, data in ((None, None), ("/a.csv", b"x")):
        with pytest.raises(QueryError, match="either a path or data"):
            StaticTable(SCHEMA, path, data)


def test_what_is_too_large_for_a_document_belongs_into_a_file() -> None:
    StaticTable(SCHEMA, data=b"x" * INLINE_BYTES_MAX)
    with pytest.raises(QueryError, match="write it to a file") as refused:
        StaticTable(SCHEMA, data=b"x" * (INLINE_BYTES_MAX + 1))
    assert refused.value.pointer == "/data"


@pytest.mark.parametrize(
    ("changes", "pointer", "said"),
    [
        ({"path": "/data/a.txt"}, "/t/path", r"expected a name that ends with \.parquet, \.arrow, \.feather, \.csv"),
        ({"path": 3}, "/t/path", "path: expected text, got 3"),
        ({"path": None, "data": "no base64"}, "/t/data", "expected an Arrow IPC stream in base64"),
        ({"path": None, "data": 3}, "/t/data", "expected an Arrow IPC stream in base64"),
        ({"colour": 1}, "/t", "expected a table"),
        ({"schema": "x"}, "/t/schema", "expected a list of fields, got str"),
    ],
)
def test_what_is_no_table_is_pointed_at(changes: dict[str, Any], pointer: str, said: str) -> None:
    with pytest.raises(QueryError, match=said) as refused:
        from_json(to_json(StaticTable(SCHEMA, "/data/a.csv")) | changes, "/t")
    assert refused.value.pointer == pointer
