"""Files that an output is written to, beside whoever subscribes to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cep.errors import QueryError, escaped, meant

FORMATS = ("text", "arrow")


@dataclass(frozen=True, slots=True)
class Files:
    """Rows go to files in `folder`, a file for each instance that puts them out.

    Args:
        folder: an absolute path; made if it is not there.
        format: text (a record a line, as text sources read it) or arrow (the IPC stream format).
        separator: between the fields of a text record.
        header: the first line of a text file names the fields.
        overwrite: a file that is there already is replaced; otherwise it is an error.
    """

    folder: str
    format: str = "text"
    separator: str = ","
    header: bool = False
    overwrite: bool = False

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise QueryError(f"format: expected one of {', '.join(FORMATS)}, got {self.format!r}", "/format")
        if len(self.separator) != 1 or not self.separator.isascii() or self.separator in "\r\n":
            raise QueryError(f"separator: expected one ASCII character, got {self.separator!r}", "/separator")

    def name(self, stream: str, index: int) -> str:
        """Of the file of instance `index`."""
        suffix = "arrows" if self.format == "arrow" else {",": "csv", "\t": "tsv"}.get(self.separator, "txt")
        return f"{stream}-{index:05}.{suffix}"


_KINDS = {"folder": str, "format": str, "separator": str, "header": bool, "overwrite": bool}


def to_json(files: Files) -> dict[str, Any]:
    return {key: getattr(files, key) for key in _KINDS}


def from_json(document: Any, pointer: str = "") -> Files:
    if not isinstance(document, dict) or "folder" not in document:
        raise QueryError(f'expected {{"folder": ..., {", ".join(list(_KINDS)[1:])}}}, got {document!r}', pointer)
    for key, value in document.items():
        if key not in _KINDS:
            raise QueryError(
                f"unknown key {key!r}{meant(key, _KINDS)}; files of an output have {', '.join(_KINDS)}", f"{pointer}/{escaped(key)}"
            )
        if type(value) is not _KINDS[key]:
            raise QueryError(f"{key}: expected {_KINDS[key].__name__}, got {value!r}", f"{pointer}/{key}")
    try:
        return Files(**document)
    except QueryError as error:
        raise error.under(pointer) from None
