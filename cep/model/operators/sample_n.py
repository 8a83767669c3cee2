"""So many tuples of each window, chosen by the hash of their origin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cep.errors import QueryError
from cep.model.checked import check_fields
from cep.model.contract import phrases
from cep.model.contract.forms import BY, NUMBER, TEXT, TIME_WINDOW, Form
from cep.model.contract.selecting import Selecting
from cep.model.operators.sample import check_seed
from cep.model.operators.top_n import N_MAX
from cep.model.windows import TimeWindow


@dataclass(frozen=True)
class SampleN(Selecting):
    """The `n` tuples of each window and group with the least hashes of `seed` and origin, at event time window end - 1."""

    name: str
    input: str
    window: TimeWindow
    by: tuple[str, ...]
    n: int
    seed: int = 0

    def __post_init__(self) -> None:
        check_fields(self)
        check_seed(self.name, self.seed)
        if not 0 < self.n <= N_MAX:
            raise QueryError(f"operator {self.name!r}: n: expected 1 to {N_MAX}, got {self.n}", "/n")

    @staticmethod
    def keys() -> Mapping[str, Form]:
        return {"input": TEXT, "window": TIME_WINDOW, "by": BY, "n": NUMBER, "seed": NUMBER}

    def explained(self) -> str:
        return f"sample {self.n} of {phrases.window(self.window)}{phrases.by(self.by)}"
