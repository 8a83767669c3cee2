"""Every line of the tables of `docs/values.md`, as it stands there."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pytest

from cep.compile.text import TextParser
from cep.dataflow.operators.static_table import read_table
from cep.errors import DataError
from cep.kernels.columns import to_arrow
from cep.model.schema import Schema
from cep.model.streams import Stream
from cep.model.tables import StaticTable
from cep.service.documents import read_json
from cep.world.store import DiskStore
from driver.rows.json_rows import taken
from driver.streams.arrow import record_batches
from tests.support.paths import ROOT

NAMES = {"np": np, "pd": pd, "pl": pl, "pa": pa, "datetime": datetime, "date": date, "Decimal": Decimal, "UTC": UTC, "ZoneInfo": ZoneInfo}
NAMES |= {"nan": math.nan, "inf": math.inf}
LINE = re.compile(r"^\| (dict|REST|Arrow|pandas|polars|text|table|CSV) \| `(.*)` \| `(.*)` \| (?:`(.*)`|(refused)) \|$", re.M)
CELLS = LINE.findall((ROOT / "docs/values.md").read_text())


def published(data: Any, schema: Schema) -> Any:
    (batch,) = record_batches(data, Stream("s", schema))
    return batch.column("v").to_pylist()[0]


def _dict(value: str, schema: Schema, folder: Path) -> Any:
    """Not in the first row: which row it is, is said."""
    try:
        return published([{"v": eval(value, NAMES)}], schema)
    except DataError as error:
        assert (error.row, error.column, error.pointer) == (0, "v", "/0/v")
        raise


def _rest(value: str, schema: Schema, folder: Path) -> Any:
    return published(taken(read_json(f'[{{"v": {value}}}]'.encode()), Stream("s", schema)), schema)


def _arrow(value: str, schema: Schema, folder: Path) -> Any:
    return published(pa.table({"v": eval(value, NAMES)}), schema)


def _pandas(value: str, schema: Schema, folder: Path) -> Any:
    return published(pd.DataFrame({"v": eval(value, NAMES)}), schema)


def _polars(value: str, schema: Schema, folder: Path) -> Any:
    return published(pl.DataFrame({"v": eval(value, NAMES)}), schema)


def _text(value: str, schema: Schema, folder: Path) -> Any:
    line = np.frombuffer(f"{value},x\n".encode(), np.uint8)
    parsed = TextParser.make(Schema((*schema.fields, *Schema.of({"w": str}).fields)), {"v"}, ",").parse(line, 0, len(line), 1)
    if parsed.bad:
        raise DataError(parsed.bad[0].reason)
    return to_arrow(parsed.columns["v"]).to_pylist()[0]


def _table(value: str, schema: Schema, folder: Path) -> Any:
    pyarrow.feather.write_feather(pa.table({"v": eval(value, NAMES)}), str(folder / "t.arrow"))
    return to_arrow(read_table(StaticTable(schema, str(folder / "t.arrow")), DiskStore())["v"]).to_pylist()[0]


def _csv(value: str, schema: Schema, folder: Path) -> Any:
    (folder / "t.csv").write_text(f"v,w\n{value},x\n")
    return to_arrow(read_table(StaticTable(schema, str(folder / "t.csv")), DiskStore())["v"]).to_pylist()[0]


READ: dict[str, Callable[[str, Schema, Path], Any]] = {
    "dict": _dict,
    "REST": _rest,
    "Arrow": _arrow,
    "pandas": _pandas,
    "polars": _polars,
    "text": _text,
    "table": _table,
    "CSV": _csv,
}


@pytest.mark.parametrize("origin, value, type_, wanted, refused", CELLS, ids=[f"{o} {v} {t}" for o, v, t, *_ in CELLS])
def test_cells(origin: str, value: str, type_: str, wanted: str, refused: str, tmp_path: Path) -> None:
    schema = Schema.of({"v": type_})
    if refused:
        with pytest.raises((DataError, ValueError) if origin == "REST" else DataError):
            READ[origin](value, schema, tmp_path)
        return
    found, expected = READ[origin](value, schema, tmp_path), eval(wanted, NAMES)
    assert type(found) is type(expected)
    assert found == expected or (math.isnan(found) and math.isnan(expected))


def test_the_page_has_its_tables() -> None:
    assert len(CELLS) == sum(line.startswith("| ") and "`" in line for line in _page().splitlines())
    assert {origin for origin, *_ in CELLS} == set(READ)


def _page() -> str:
    return (ROOT / "docs/values.md").read_text()


def test_the_row_that_does_not_fit_is_named() -> None:
    """Before, [{"v": 5.5}] stored 5."""
    rows = [{"v": 1}] * 5000 + [{"v": 5.5}]
    with pytest.raises(DataError, match=r"stream 's', field v: int64, row 5000: expected an integer, got float 5.5") as refused:
        record_batches(rows, Stream("s", Schema.of({"v": int})))
    assert refused.value.pointer == "/5000/v"
    with pytest.raises(DataError, match=r"row 7: .*2147483648"):
        record_batches(pa.table({"v": [0] * 7 + [2**31, 2**32]}), Stream("s", Schema.of({"v": "int32"})))
    with pytest.raises(DataError, match=r"row 2: 2 NULLs"):
        record_batches(pa.table({"v": [0, 1, None, None]}), Stream("s", Schema.of({"v": int})))


def test_integers_and_datetimes_in_one_column() -> None:
    """Before, the integers were read as µs whatever the field's unit."""
    (batch,) = record_batches([{"v": 1}, {"v": datetime(1970, 1, 1)}, {"v": None}], Stream("s", Schema.of({"v": "timestamp[s]?"})))
    assert batch.column("v").cast(pa.int64()).to_pylist() == [1_000_000, 0, None]


@pytest.mark.parametrize(
    "data",
    [
        pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["v", "v"]),
        pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], names=["v", "v"]),
        pd.DataFrame([[1, 2]], columns=["v", "v"]),
    ],
    ids=["table", "batch", "pandas"],
)
def test_a_column_twice(data: Any) -> None:
    """Before, a KeyError of Arrow's."""
    with pytest.raises(DataError, match=r"several called 'v'|Duplicate column names"):
        record_batches(data, Stream("s", Schema.of({"v": int})))
