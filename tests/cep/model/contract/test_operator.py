"""A description of an operator answers everything: what is missing is an error before anything runs."""

from __future__ import annotations

import inspect
from collections.abc import Collection
from typing import Any

import pytest
from mypy import api

from cep.model.contract.operator import Operator, Origins, Stateless, TwoInputs, Wanted, registry
from cep.model.operators import TYPES

#: What `Operator` asks.
QUESTIONS = sorted(Operator.__abstractmethods__)


class Half(Stateless, TwoInputs):
    """It answers some of it."""

    def reads(self, port: int, names: tuple[str, ...], wanted: Wanted) -> Collection[str]:
        return wanted(names)

    @property
    def origins(self) -> Origins:
        return Origins.KEPT


def test_an_answer_that_is_missing_is_an_error_when_the_kind_is_registered() -> None:
    unfinished: Any = Half
    with pytest.raises(TypeError, match="operator 'half': Half lacks explained, files, keeps_time, keys, output_schema, passes; "):
        registry(half=unfinished)


def test_no_question_has_a_default() -> None:
    """But for what the number of inputs, or having no state, is the answer to."""
    asked = {name for name, _ in inspect.getmembers(Operator) if not name.startswith("_")}
    assert asked == set(QUESTIONS)


@pytest.mark.parametrize("kind", TYPES.values(), ids=TYPES)
def test_every_kind_has_a_form_for_each_field_and_says_what_it_is(kind: type[Operator]) -> None:
    fields = [name for name in getattr(kind, "__dataclass_fields__") if name != "name"]  # noqa: B009  # mypy knows no such attribute
    assert sorted(kind.keys()) == sorted(fields)
    assert inspect.getdoc(kind) and kind.__module__.startswith("cep.model.operators.")


@pytest.mark.long
def test_the_type_checker_says_it_too() -> None:
    code = f"from {__name__} import Half\nfrom cep.model.contract.operator import registry\nregistry(half=Half)\n"
    found, _, _ = api.run(["--config-file=", "--strict", "--ignore-missing-imports", "--follow-imports=silent", "-c", code])
    assert "Only concrete class can be given" in found
