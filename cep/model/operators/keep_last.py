"""The last of tuples that are the same, in each window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cep.errors import QueryError
from cep.model.checked import check_fields
from cep.model.contract import phrases
from cep.model.contract.forms import BY, TEXT, TIME_WINDOW, Form
from cep.model.contract.selecting import Selecting
from cep.model.windows import TimeWindow


@dataclass(frozen=True)
class KeepLast(Selecting):
    """Of the tuples of each window with equal `by` the last in stream order, at event time window end - 1."""

    name: str
    input: str
    window: TimeWindow
    by: tuple[str, ...]

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.by:
            raise QueryError(f"operator {self.name!r}: expected at least one column by which tuples are the same", "/by")

    @staticmethod
    def keys() -> Mapping[str, Form]:
        return {"input": TEXT, "window": TIME_WINDOW, "by": BY}

    def explained(self) -> str:
        return f"last of {phrases.window(self.window)}{phrases.by(self.by)}"
