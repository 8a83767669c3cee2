"""Static tables for lookup joins: a file, or an Arrow table that travels in the query's document."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

from cep.errors import QueryError
from cep.model.schema import Schema

#: By how the name of a file ends.
FORMATS = {"parquet": "parquet", "arrow": "arrow", "feather": "arrow", "csv": "csv"}
#: A document goes through REST and ZooKeeper whole.
INLINE_BYTES_MAX = 256 << 10


@dataclass(frozen=True, slots=True)
class StaticTable:
    """A table that is read once, when an instance is built.

    Args:
        schema: its columns, in any order; others in the file are not read.
        path: an absolute path under a folder of the cluster; its format by its name: .parquet, .arrow (or .feather), .csv.
        data: instead of a path, the table as an Arrow IPC stream.
    """

    schema: Schema
    path: str | None = None
    data: bytes | None = None

    def __post_init__(self) -> None:
        if (self.path is None) == (self.data is None):
            raise QueryError("a static table has either a path or data")
        if self.path is not None and _ending(self.path) not in FORMATS:
            raise QueryError(f"table {self.path!r}: expected a name that ends with .{', .'.join(FORMATS)}", "/path")
        if self.data is not None and len(self.data) > INLINE_BYTES_MAX:
            raise QueryError(
                f"a table of {len(self.data)} bytes is too large for a query's document (at most {INLINE_BYTES_MAX}); "
                "write it to a file under a folder of the cluster and name its path",
                "/data",
            )

    @property
    def format(self) -> str:
        return "arrow" if self.path is None else FORMATS[_ending(self.path)]


def _ending(path: str) -> str:
    return path.rpartition(".")[2]


def to_json(table: StaticTable) -> dict[str, Any]:
    where = {"path": table.path} if table.data is None else {"data": base64.b64encode(table.data).decode()}
    return {"schema": table.schema.to_json(), **where}


def from_json(document: Any, pointer: str = "") -> StaticTable:
    if not isinstance(document, dict) or not document.keys() <= {"schema", "path", "data"}:
        raise QueryError(f'expected a table {{"schema": [...], and "path": ... or "data": base64}}, got {document!r:.200}', pointer)
    schema = Schema.from_json(document.get("schema"), f"{pointer}/schema")
    path, data = document.get("path"), document.get("data")
    if path is not None and not isinstance(path, str):
        raise QueryError(f"path: expected text, got {path!r}", f"{pointer}/path")
    try:
        return StaticTable(schema, path, None if data is None else base64.b64decode(data, validate=True))
    except (ValueError, TypeError):
        raise QueryError("data: expected an Arrow IPC stream in base64", f"{pointer}/data") from None
    except QueryError as error:
        raise error.under(pointer) from None
