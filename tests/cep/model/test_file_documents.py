"""Documents of files: what is read is what is written, and the schema says the same as the reader."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from cep.errors import QueryError
from cep.model import file_documents
from cep.model.sinks import SINK_FORMATS
from cep.model.streams import SOURCE_FORMATS

SIDES = [(SOURCE_FORMATS, {"paths": ["/data/a"]}), (SINK_FORMATS, {"folder": "/data"})]
KINDS = [(formats, cls, needed) for formats, needed in SIDES for cls in formats.values()]


def schema(formats: Any) -> dict[str, Any]:
    return {"oneOf": [file_documents.schema(cls, first=i == 0) for i, cls in enumerate(formats.values())]}


@pytest.mark.parametrize(("formats", "cls", "needed"), KINDS, ids=lambda each: getattr(each, "__name__", ""))
def test_every_format_is_read_and_written_and_described(formats: Any, cls: Any, needed: dict[str, Any]) -> None:
    document = {"format": cls.format, **needed}
    jsonschema.validate(document, schema(formats))
    files = file_documents.from_json(document, formats, "")
    assert type(files) is cls
    written = file_documents.to_json(files)
    jsonschema.validate(written, schema(formats))
    assert file_documents.from_json(written, formats, "") == files


@pytest.mark.parametrize("formats, needed", SIDES, ids=["source", "sink"])
def test_without_a_format_it_is_text(formats: Any, needed: dict[str, Any]) -> None:
    jsonschema.validate(needed, schema(formats))
    assert file_documents.from_json(needed, formats, "").format == "text"


WRONG = [
    ("nothing", None, ""),
    ("another format", {"format": "csv", "paths": ["/a"]}, "/format"),
    ("an option of another format", {"format": "jsonl", "paths": ["/a"], "separator": ","}, "/separator"),
    ("an option of another type", {"paths": ["/a"], "header": 1}, "/header"),
    ("no list", {"paths": "/a"}, "/paths"),
    ("no paths", {"format": "parquet"}, ""),
]


@pytest.mark.parametrize("document, pointer", [each[1:] for each in WRONG], ids=[each[0] for each in WRONG])
def test_the_schema_refuses_what_the_reader_refuses(document: Any, pointer: str) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, schema(SOURCE_FORMATS))
    with pytest.raises(QueryError) as caught:
        file_documents.from_json(document, SOURCE_FORMATS, "/files")
    assert caught.value.pointer == f"/files{pointer}"
