"""Hypothesis strategies: schemas, rows, queries, files, and ways to run them. Everything shrinks towards the plain:
one source, one partition, int64, no NULL, ties at time 0, one operator, one batch, one instance.

A case is a query with its input. Its times are small multiples of a tick from a drawn epoch, so that windows meet, ties
are common, and disorder stays near what was promised, a little beyond it included. Read in order: `values.py` →
`streams.py` → `expressions.py` → `windows.py` → `operators.py` → `queries.py` → `files.py`, `executions.py`.
"""

from tests.strategies.executions import Execution, executions
from tests.strategies.expressions import conditions, expressions
from tests.strategies.files import FileCase, contents, contents_of, file_cases, file_queries
from tests.strategies.queries import Case, cases, inputs_of, published_queries, tied_cases
from tests.strategies.streams import EPOCHS, partitions
from tests.strategies.values import TYPES, columns, values_of

__all__ = [
    "EPOCHS",
    "TYPES",
    "Case",
    "Execution",
    "FileCase",
    "cases",
    "columns",
    "conditions",
    "contents",
    "contents_of",
    "executions",
    "expressions",
    "file_cases",
    "file_queries",
    "inputs_of",
    "partitions",
    "published_queries",
    "tied_cases",
    "values_of",
]
