"""Lookups against a plain search of the table, row by row; and what a table may be.

tuples    (k=1)  (k=9)  (k=1)            table   row 0: 1, "one"     row 1: 2, "two"    row 2: 1, "uno"
inner     (1, one) (1, uno)  (1, one) (1, uno)                       left: (9, NULL) between them

Tests `lookup.py`, `static_table.py`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

from cep.dataflow.operators.static_table import read_pieces, read_table
from cep.errors import DataError
from cep.kernels.columns import columns_to_arrow
from cep.kernels.jit import interpreted
from cep.model.functions import last
from cep.model.limits import VALUE_BYTES_MAX
from cep.model.operators import Aggregate, Lookup
from cep.model.query import Output, Query
from cep.model.schema import Schema
from cep.model.tables import StaticTable
from cep.model.windows import TimeWindow
from cep.world.store import DiskStore, ReadableFile
from tests.reference import assert_same_answer
from tests.reference.engine import TimedRow
from tests.support.joining import KEYS, Sides, equal, execution, is_float, query, ran, sides

COLUMNS = pa.table({"k": [1, 2, 1], "name": ["one", "two", "uno"]})
SCHEMA = Schema.of({"k": "int64", "name": str})


def inline(table: pa.Table, schema: Schema) -> StaticTable:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return StaticTable(schema, data=sink.getvalue().to_pybytes())


def drawn(choose: random.Random, kind: str) -> tuple[StaticTable, list[tuple[Any, int]]]:
    """A table (k, n), n the number of the row."""
    _, type_, _, values = KEYS[kind]
    schema = Schema.of({"k": type_, "n": "int64"})
    rows = [(choose.choice(values), n) for n in range(choose.randint(0, 8))]
    arrays = [pa.array([row[i] for row in rows], field.type.arrow) for i, field in enumerate(schema.fields)]
    return inline(pa.table(arrays, names=["k", "n"]), schema), rows


def oracle(how: str, given: Sides, rows: Sequence[tuple[Any, int]], floats: bool) -> list[TimedRow]:
    found: list[TimedRow] = []
    for t, k, a in given.rows("l"):
        key = float(k) if floats and k is not None else k
        numbers: list[int | None] = [n for other, n in rows if equal(k, other)]
        found += [(t, (t, key, a, n)) for n in numbers or ([None] if how == "left" else [])]
    return found


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("machine_code", [False, True])
def test_any_keys(kind: str, how: str, machine_code: bool) -> None:
    for seed in range(2):
        choose = random.Random(f"{kind} {how} {seed}")
        given, (table, rows) = sides(choose, kind), drawn(choose, kind)
        asked = query(Lookup("j", "l", table, (("k", "k"),), how), (given.left,))
        if machine_code:
            out = ran(asked, given, execution(choose))
        else:
            with interpreted():
                out = ran(asked, given, execution(choose))
        assert_same_answer({"out": oracle(how, given, rows, is_float(kind))}, out.outputs)


def test_matches_are_in_the_order_of_the_table_and_their_origins_tell_them_apart() -> None:
    """LAST takes the last match of the last tuple, wherever batches are cut."""
    choose = random.Random(2)
    given = sides(choose, "one hot key")
    table = inline(pa.table({"k": [7, 1, 7, 7], "n": [10, 11, 12, 13]}), Schema.of({"k": "int64", "n": "int64"}))
    lasts = Aggregate("w", "j", TimeWindow(10, 10), (), (("a", last("a")), ("n", last("n"))))
    asked = Query("q", (given.left,), (Lookup("j", "l", table, (("k", "k"),)), lasts), (Output("out", "w"),))
    with interpreted():
        out = ran(asked, given, execution(choose))
    expected = []
    for end in range(-20, 80, 10):
        inside = [
            (row[0], part, number, row[2])
            for part, rows in enumerate(given.partitions["l"])
            for number, row in enumerate(rows)
            if end - 10 <= row[0] < end
        ]
        expected += [(end - 1, (max(inside)[3], 13))] if inside else []
    assert_same_answer({"out": expected}, out.outputs)


def test_pairs_of_two_names_and_a_prefix() -> None:
    given = sides(random.Random(4))
    table = inline(pa.table({"id": [1, 3], "a": ["one", "three"]}), Schema.of({"id": "int32", "a": str}))
    lookup = Lookup("j", "l", table, (("k", "id"),), "inner", "of_")
    assert lookup.joined_schema(given.left.schema, table.schema).names == ("t", "k", "a", "of_id", "of_a")
    with interpreted():
        out = ran(query(lookup, (given.left,)), given, execution(random.Random(4)))
    names = {1: "one", 3: "three"}
    expected = [(t, (t, k, a, k, names[k])) for t, k, a in given.rows("l") if k in names]
    assert_same_answer({"out": expected}, out.outputs)


# --- tables ----------------------------------------------------------------------------------------------------------


def _feather(table: pa.Table, path: Path) -> None:
    pyarrow.feather.write_feather(table, str(path))


WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {
    "t.parquet": lambda table, path: pyarrow.parquet.write_table(table, path),
    "t.arrow": _feather,
    "t.feather": _feather,
    "t.csv": lambda table, path: pyarrow.csv.write_csv(table, path),
}


def written(folder: Path, name: str, table: pa.Table) -> str:
    path = folder / name
    WRITERS[name](table, path)
    return str(path)


def values(table: StaticTable) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = columns_to_arrow(read_table(table, DiskStore()), table.schema).to_pydict()
    return found


@pytest.mark.parametrize("name", WRITERS)
def test_a_table_is_read_from_its_file(name: str, tmp_path: Path) -> None:
    path = written(tmp_path, name, COLUMNS.append_column("more", pa.array([0.5, None, 2.0])))
    table = StaticTable(Schema.of({"name": str, "k": "int32", "more": "float64?"}), path)
    assert values(table) == {"name": ["one", "two", "uno"], "k": [1, 2, 1], "more": [0.5, None, 2.0]}


@pytest.mark.parametrize("name", WRITERS)
def test_timestamps_are_texts_instants_or_integers_of_their_unit(name: str, tmp_path: Path) -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    instants = pa.array([at, at], pa.timestamp("us", tz="UTC"))
    texts = pa.array(["2026-01-02 03:04:05", "2026-01-02T03:04:05Z"][1:] * 2)
    whole = pa.array([int(at.timestamp() * 1000)] * 2)
    table = pa.table({"instant": instants, "text": texts, "whole": whole, "naive": instants.cast(pa.timestamp("ns"))})
    schema = Schema.of({"instant": "timestamp", "text": "timestamp[s]", "whole": "timestamp[ms]", "naive": "timestamp[us]"})
    found = values(StaticTable(schema, written(tmp_path, name, table)))
    assert found == {column: [at, at] for column in schema.names}


@pytest.mark.parametrize("where", [*WRITERS, "in the query"])
def test_texts_are_instants_each_for_itself_of_any_year(where: str, tmp_path: Path) -> None:
    """Before, a row of the year 9999 made the table unreadable, and so did texts with a zone beside some without, or beside integers."""
    texts = ["0001-01-01", "2020-01-01", "2020-01-01T09:30:00.5+09:00", "9999-12-31t23:59:59.999999z", "-1500", None]
    table = pa.table({"t": pa.array(texts), "n": [0] * 6})
    schema = Schema.of({"t": "timestamp[ms]?", "n": "int64"})

    def read(given: pa.Table, declared: Schema) -> list[Any]:
        return values(inline(given, declared) if where == "in the query" else StaticTable(declared, written(tmp_path, where, given)))["t"]

    found = [
        datetime(1, 1, 1),
        datetime(2020, 1, 1),
        datetime(2020, 1, 1, 0, 30, 0, 500_000),
        datetime.max,
        datetime(1969, 12, 31, 23, 59, 58, 500_000),
    ]
    assert read(table, schema) == [*(at.replace(tzinfo=UTC) for at in found), None]
    for text, type_ in (
        ("-1500", "timestamp"),
        ("2020-01-01T00", "timestamp[ms]"),
        ("9" * 5000, "timestamp[s]"),
        ("1" * 18, "timestamp[s]"),
        ("1500", "timestamp[ns]"),
    ):
        with pytest.raises(DataError, match=rf"column 't': expected timestamp.*'{text[:50]}.* is no instant in ISO 8601"):
            read(pa.table({"t": ["2020-01-01", text], "n": [0, 0]}), Schema.of({"t": type_}))


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize(
    ("declared", "column", "said"),
    [
        ({"k": "int64", "gone": str}, [1], "no column 'gone'; there are k, more"),
        ({"k": "int32"}, [1, 2**40], "k"),
        ({"k": "int64"}, ["a"], "k"),
        ({"k": "int64"}, [1, None], "NULL in row 1; declare it as 'int64\\?'"),
        ({"k": "timestamp"}, [1], "k"),
        ({"k": "bool"}, [2.5], "k"),
    ],
)
def test_what_does_not_fit_names_file_and_column(name: str, declared: dict[str, str], column: list[Any], said: str, tmp_path: Path) -> None:
    path = written(tmp_path, name, pa.table({"k": column, "more": range(len(column))}))
    with pytest.raises(DataError, match=rf"table '{path}'.*{said}"):
        read_table(StaticTable(Schema.of(declared), path), DiskStore())


@pytest.mark.parametrize("name", WRITERS)
def test_a_column_twice_is_refused_where_it_is_declared(name: str, tmp_path: Path) -> None:
    """Before, a KeyError of Arrow's that named no file; of a name that is no UTF-8 a UnicodeDecodeError."""
    arrays = [pa.array([1]), pa.array(["a"]), pa.array(["b"])]
    path = written(tmp_path, name, pa.Table.from_arrays(arrays, names=["k", "x", "x"]))
    assert values(StaticTable(Schema.of({"k": "int64"}), path)) == {"k": [1]}
    with pytest.raises(DataError, match=f"table '{path}': 2 columns 'x'; there are k, x, x"):
        read_table(StaticTable(Schema.of({"k": "int64", "x": str}), path), DiskStore())
    path = written(tmp_path, name, pa.table({"k": [1], "QQQQQQQQ": [1]}))
    Path(path).write_bytes(Path(path).read_bytes().replace(b"QQQQQQQQ", b"\xff\xfeQQQQQQ"))
    with pytest.raises(DataError, match=f"table '{path}': cannot be read: .*utf-8"):
        read_table(StaticTable(Schema.of({"k": "int64"}), path), DiskStore())


def _in_pieces(table: StaticTable) -> list[dict[str, Any]]:
    with ReadableFile(DiskStore().open(str(table.path))) as file:
        return [row for piece in read_pieces(table, file) for row in columns_to_arrow(piece, table.schema).to_pylist()]


def _at_once(table: StaticTable) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = columns_to_arrow(read_table(table, DiskStore()), table.schema).to_pylist()
    return found


@pytest.mark.parametrize("read", [_at_once, _in_pieces])
def test_rows_of_csv_may_be_long_and_have_line_ends_anywhere(read: Callable[[StaticTable], list[dict[str, Any]]], tmp_path: Path) -> None:
    """Before, a row over 1 MiB made the table unreadable, if only for a column that nobody reads; and so did a line end in quotes that came
    behind the first MiB, or names without a line end."""
    table = StaticTable(Schema.of({"k": str, "v": "int64?"}), str(tmp_path / "t.csv"))
    texts = [f"{i}\n{'x' * 1000}" for i in range(4000)]
    rows = "".join(f'"{text}",{i},\n' for i, text in enumerate(texts))
    Path(str(table.path)).write_text(f"k,v,unread\n{rows}long,1,{'y' * 2_500_000}\nlast,,")
    found = read(table)
    assert found[:4000] == [{"k": text, "v": i} for i, text in enumerate(texts)]
    assert found[4000:] == [{"k": "long", "v": 1}, {"k": "last", "v": None}]
    Path(str(table.path)).write_text("v,k")
    assert read(table) == []
    Path(str(table.path)).write_text(f"k,v\n{'y' * 2 * VALUE_BYTES_MAX},1\n")
    with pytest.raises(DataError, match=f"table '{table.path}': cannot be read: a row of more than {VALUE_BYTES_MAX:,} bytes"):
        read(table)


@pytest.mark.parametrize("name", WRITERS)
def test_what_is_no_such_file(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"\0\1no table")
    for path in (tmp_path / name, tmp_path / f"none.{name}"):
        with pytest.raises(DataError, match=f"table '{path}'"):
            read_table(StaticTable(SCHEMA, str(path)), DiskStore())
    with pytest.raises(DataError, match="the table in the query's document: cannot be read"):
        read_table(StaticTable(SCHEMA, data=b"nothing"), DiskStore())
