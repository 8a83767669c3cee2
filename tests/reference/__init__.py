"""The reference engine: slow, obvious, written from docs/rules.md alone, a tuple at a time.

It shares nothing with the engine but `cep.model`, the description of a query. Read in order: `values.py` (how values
compare) → `expressions.py` → `source.py` (event time, lateness, origin) → `aggregates.py` (functions) → `windows.py`,
`stateless.py`, `joins.py`, `order.py`, `state.py` (operators, by family) → `engine.py`; `text.py` cuts and parses files, `equal.py`
says what equal answers are.
"""

from tests.reference.engine import Answer, evaluate
from tests.reference.equal import assert_same_answer, difference
from tests.reference.rows import Bad, DeadLetter, Partition
from tests.reference.text import blocks

__all__ = ["Answer", "Bad", "DeadLetter", "Partition", "assert_same_answer", "blocks", "difference", "evaluate"]
