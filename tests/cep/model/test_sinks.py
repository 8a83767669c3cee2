"""Files that an output is written to: what they are called, what they hold, and what is none."""

from __future__ import annotations

from typing import Any

import pytest

from cep.errors import QueryError
from cep.model.schema import INT64, STRING, DataType, list_of
from cep.model.sinks import (
    SINK_FORMATS,
    ArrowSink,
    JsonLinesSink,
    ParquetSink,
    SinkFiles,
    TextSink,
    explain_sink,
    from_json,
    name_of,
    to_json,
)


@pytest.mark.parametrize(
    ("files", "name"),
    [
        (TextSink("/d"), "out-00003.csv"),
        (TextSink("/d", "\t"), "out-00003.tsv"),
        (TextSink("/d", ";", header=True), "out-00003.txt"),
        (ArrowSink("/d"), "out-00003.arrows"),
        (JsonLinesSink("/d", overwrite=True), "out-00003.jsonl"),
        (ParquetSink("/d"), "out-00003.parquet"),
    ],
)
def test_a_file_is_called_after_its_stream_and_instance(files: SinkFiles, name: str) -> None:
    assert name_of(files, "out", 3) == name
    stem, _, ending = name.rpartition(".")
    assert name_of(files, "out", 3, 12) == f"{stem}-00012.{ending}"
    assert from_json(to_json(files)) == files and to_json(files)["format"] == files.format
    assert explain_sink(files) == f"files of {files.format} in '/d'"


@pytest.mark.parametrize("kind", SINK_FORMATS.values())
@pytest.mark.parametrize("type_", [INT64, STRING, list_of(STRING)])
def test_text_holds_no_lists(kind: type[SinkFiles], type_: DataType) -> None:
    files = from_json({"format": kind.format, "folder": "/d"})
    assert bool(files.refuses(type_)) == (kind is TextSink and type_.is_list)


@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        ({"folder": "/d", "separator": "ab"}, "/f/separator"),
        ({"folder": "/d", "separator": "\n"}, "/f/separator"),
        ({"format": "csv", "folder": "/d"}, "/f/format"),
        ({"format": "parquet", "folder": "/d", "header": True}, "/f/header"),
        ({"folder": 3}, "/f/folder"),
    ],
)
def test_what_is_none_is_pointed_at(document: dict[str, Any], pointer: str) -> None:
    with pytest.raises(QueryError) as refused:
        from_json(document, "/f")
    assert refused.value.pointer == pointer
