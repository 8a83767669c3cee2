"""Whole queries step by step, while files of their tables are replaced between two steps: so it is known what is read when."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather

from cep.model.schema import Schema
from numa_cep import testing
from tests.reference.engine import TimedRow
from tests.reference.rows import Values

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def write(path: Path, schema: Schema, rows: Sequence[Values]) -> None:
    """An Arrow file: a new one beside the old one, and renamed."""
    new = path.with_suffix(".new")
    columns = [pa.array([row[i] for row in rows], field.type.arrow) for i, field in enumerate(schema.fields)]
    pyarrow.feather.write_feather(pa.Table.from_arrays(columns, schema=schema.arrow), new)
    os.replace(new, path)


def answers_of(run: testing.Run, output: str) -> list[TimedRow]:
    """As the reference has them: a timestamp is int µs."""
    found = [list(map(_plain, row.values())) for row in run.answers(output, event_time="__at")]
    return [(at, tuple(values)) for *values, at in found]


def _plain(value: Any) -> Any:
    return (value - _EPOCH) // timedelta(microseconds=1) if isinstance(value, datetime) else value
