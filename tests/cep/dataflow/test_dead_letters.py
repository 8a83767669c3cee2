"""What a dead letter of an operator says of its tuple."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from cep.dataflow.dead_letters import RECORD_BYTES_MAX, RECORDS_WAITING_MAX, DeadLetters, Letter
from cep.dataflow.operators.operator import record
from cep.elements import Batch
from cep.kernels.columns import columns_from_arrow
from cep.model.schema import Schema

SCHEMA = Schema.of({"ip": "string?", "n": "int64?", "x": float, "tags": "list<string>?", "body": str})
ROWS = pa.record_batch({"ip": ["10.0.0.1", None], "n": [3, None], "x": [0.5, 1.5], "tags": [["a"], None], "body": ["ß" * 5000, ""]})


def of(row: int, letters: DeadLetters) -> str:
    return record(Batch(columns_from_arrow(ROWS, SCHEMA), np.zeros(2, np.int64)), row, letters)


def test_its_values_cut_where_they_are_long() -> None:
    cut = of(0, DeadLetters())
    assert (
        cut.startswith("ip='10.0.0.1', n=3, x=0.5, tags=[...], body='ßß") and RECORD_BYTES_MAX - 1 <= len(cut.encode()) <= RECORD_BYTES_MAX
    )
    assert of(1, DeadLetters()) == "ip=NULL, n=NULL, x=1.5, tags=NULL, body=''"


def test_none_where_too_many_come_at_once() -> None:
    """Until a report has taken some."""
    letters = DeadLetters()
    for _ in range(RECORDS_WAITING_MAX):
        letters.put(Letter("o", "no"))
    assert of(1, letters) == ""
    letters.take(1)
    assert of(1, letters)
