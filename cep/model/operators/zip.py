"""The n-th tuples of two inputs side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cep.model.contract.forms import TEXT, Form
from cep.model.contract.matching import InStreamOrder


@dataclass(frozen=True)
class Zip(InStreamOrder):
    """The first tuple of the left with the first of the right, in stream order, the second with the second, and so on. Event time is
    the later of the two.

    Columns: those of the left, then those of the right with `prefix` before their names.
    """

    name: str
    left: str
    right: str
    prefix: str = ""

    on = ()
    how = "inner"

    @staticmethod
    def keys() -> Mapping[str, Form]:
        return {"left": TEXT, "right": TEXT, "prefix": TEXT}

    def explained(self) -> str:
        return "zip: the n-th tuples of both inputs"

    @property
    def why_together(self) -> str:
        return "counts the tuples of both sides, which one instance has to do"
