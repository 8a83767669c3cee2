"""StatefulMap: the tuples of each group in stream order, each with the state that those before it left."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cep.model.operators import StatefulMap
from cep.model.schema import Schema
from tests.reference.expressions import Failed, literal
from tests.reference.rows import USER_FUNCTION, DeadLetter, Evaluate, Row, Values
from tests.reference.schemas import with_state
from tests.reference.users import function_named
from tests.reference.windows import by_key, named


def stateful_map(operator: StatefulMap, schema: Schema, rows: Iterable[Row], value: Evaluate) -> tuple[list[Row], list[DeadLetter]]:
    """A row or none for each row; a row that fails is a dead letter, and leaves the state and its age as they were."""
    out: list[Row] = []
    dead: list[DeadLetter] = []
    for members in by_key(schema, operator.by, rows).values():
        state, taken = beginning(operator), members[0].time
        for row in members:
            fresh = operator.ttl is not None and row.time - taken > operator.ttl
            try:
                state, made = step(operator, schema, beginning(operator) if fresh else state, row, value)
            except Failed as failed:
                dead.append(DeadLetter(operator.name, failed.reason, row.origin))
                continue
            taken = row.time
            out += [] if made is None else [Row(row.time, row.origin, made)]
    return out, dead


def beginning(operator: StatefulMap) -> Any:
    """The state of a group that begins: None for a function, else the values by name."""
    return {name: literal(start.value, start.type) for name, start in operator.state} if operator.function is None else None


def step(operator: StatefulMap, schema: Schema, state: Any, row: Row, value: Evaluate) -> tuple[Any, Values | None]:
    """(the new state, the tuple that comes out or None). Raises Failed."""
    values = named(schema, row)
    if operator.function is not None:
        return _called(operator.function, state, [values[name] for name in operator.columns])
    both = with_state(operator, schema)
    changed = {name: value(expression, both, values | state) for name, expression in operator.update}
    return changed, tuple(value(expression, both, values | changed) for _, expression in operator.fields)


def _called(name: str, state: Any, columns: list[Any]) -> tuple[Any, Values | None]:
    try:
        state, made = function_named(name)(state, *columns)
    except Exception:
        raise Failed(USER_FUNCTION) from None
    return state, None if made is None else tuple(made)
