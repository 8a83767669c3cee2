"""The files of queries that commands are told."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from cep.errors import CepError, QueryError
from cep.model import query as queries
from cep.service.documents import read_json, read_yaml, read_yaml_documents

Document = Annotated[Path, typer.Argument(help="A query: JSON, or YAML if it ends in .yaml or .yml.")]
NameArgument = Annotated[str, typer.Argument(help="The query's name.")]


def is_document(query: str) -> bool:
    """Is it a file, and no query's name? Those may be longer than a file's."""
    return Path(query).suffix == ".json" or _is_yaml(Path(query)) or os.path.isfile(query)


def read_document(path: Path) -> dict[str, Any]:
    """The document, checked as far as it can be here: an error names the file and points into it."""
    document = _parsed(path, read_yaml)
    try:
        queries.from_json(document)
    except QueryError as error:
        raise CepError(f"{path}: at {error.pointer or '/'}: {error}") from None
    return dict(document)


def documents_in(path: Path) -> list[dict[str, Any]]:
    """The queries in a file: a document, a list of them, or in YAML several; whether each is a query, the cluster says."""
    read = _parsed(path, read_yaml_documents)
    found = read if _is_yaml(path) else [read]
    inside = [each for document in found for each in (document if isinstance(document, list) else [document])]
    if not all(isinstance(query, dict) for query in inside):
        raise CepError(f"{path}: expected a query, several, or a list of them; got {next(q for q in inside if not isinstance(q, dict))!r}")
    return inside


def _parsed(path: Path, yaml: Callable[[bytes], Any]) -> Any:
    """What is written in a file, in YAML as `yaml` reads it. Raises CepError."""
    if path.suffix == ".sql":
        raise CepError(f"{path} is SQL, not a document: `cep sql -f {path}` runs its statements, EXPLAIN among them")
    try:
        return (yaml if _is_yaml(path) else read_json)(path.read_bytes())
    except OSError as error:
        raise CepError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        as_what = "as YAML" if _is_yaml(path) else "as JSON (the name of a file of YAML ends in .yaml or .yml)"
        raise CepError(f"{path} cannot be read {as_what}: {error}") from None


def _is_yaml(path: Path) -> bool:
    return path.suffix in (".yaml", ".yml")
