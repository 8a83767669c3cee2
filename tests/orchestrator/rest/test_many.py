"""Documents of many queries, read together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cep.errors import CepError
from cep.model.streams import Stream, from_json
from orchestrator.rest.many import read_documents
from orchestrator.rest.models import QUERY_EXAMPLE

VISITS = QUERY_EXAMPLE["streams"][0]


def example(name: str, *streams: Any) -> dict[str, Any]:
    return QUERY_EXAMPLE | {"name": name, "outputs": [{"stream": f"of-{name}", "input": "window"}], "streams": list(streams)}


def of_files(folder: Path, name: str) -> dict[str, Any]:
    (folder / name).write_text("10.0.0.1,1700000000000\n")
    return VISITS | {"files": {"paths": [str(folder / name)]}}


def read(folder: Path, known: dict[str, Stream], *documents: Any) -> list[Any]:
    """Of each query the paths of its files; or None, where something is wrong with it."""
    found = read_documents(list(documents), known, (str(folder),))
    return [
        None if isinstance(each, CepError) else {name: [path for path, _ in paths] for name, paths in each[1].items()} for each in found
    ]


def test_a_query_reads_the_files_of_a_stream_that_one_before_it_declares(tmp_path: Path) -> None:
    visits = of_files(tmp_path, "a.csv")
    files = {"visits": [str(tmp_path / "a.csv")]}
    assert read(tmp_path, {}, example("first", visits), example("second"), example("third")) == [files, files, files]
    assert read(tmp_path, {}, example("second"), example("first", visits)) == [{}, files]


def test_what_is_declared_already_stays_as_it_is(tmp_path: Path) -> None:
    """A declaration that differs is refused later; it changes nothing for the queries behind it."""
    known, other = of_files(tmp_path, "a.csv"), of_files(tmp_path, "b.csv")
    _, behind = read(tmp_path, {"visits": from_json(known)}, example("first", other), example("second"))
    assert behind == {"visits": [str(tmp_path / "a.csv")]}


def test_one_that_is_wrong_harms_no_other(tmp_path: Path) -> None:
    assert read(tmp_path, {}, example("first", VISITS), {"name": 3}, example("third")) == [{}, None, {}]
