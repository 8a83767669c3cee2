"""Some of the tuples, chosen by the hash of their origin: the same ones in every run and plan."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from cep.errors import QueryError
from cep.model.checked import check_fields
from cep.model.contract.forms import FRACTION, NUMBER, TEXT, Form
from cep.model.contract.operator import Wanted
from cep.model.limits import checked
from cep.model.operators.filter import Choosing
from cep.model.schema import Schema

SEED_MAX = 2**63 - 1


@dataclass(frozen=True)
class Sample(Choosing):
    """About `fraction` of the tuples: those whose hash of `seed` and origin is in the lowest part of all there are."""

    name: str
    input: str
    fraction: float
    seed: int = 0

    def __post_init__(self) -> None:
        check_fields(self)
        check_seed(self.name, self.seed)
        if not 0 < self.fraction <= 1:
            raise QueryError(f"operator {self.name!r}: fraction: expected more than 0 and at most 1, got {self.fraction}", "/fraction")

    @staticmethod
    def keys() -> Mapping[str, Form]:
        return {"input": TEXT, "fraction": FRACTION, "seed": NUMBER}

    def explained(self) -> str:
        return f"sample {self.fraction:g} of the tuples"

    def output_schema(self, *inputs: Schema) -> Schema:
        return inputs[0]

    def reads(self, port: int, names: tuple[str, ...], wanted: Wanted) -> Collection[str]:
        return wanted(names)

    def reads_origins(self, times: Collection[str]) -> bool:
        return True


def check_seed(operator: str, seed: int) -> None:
    """Raises QueryError: `seed` is no number from 0 to SEED_MAX."""
    checked(seed, f"operator {operator!r}: seed", 0, SEED_MAX, "/seed")
