"""An option: one thing that a cluster is told, and how texts and TOML values are read as it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from cep.model.limits import shown

HIDDEN = "***"
PREFIX = "CEP_"

#: Type -> (what is expected, in one and in several of it; its name in the table).
_NAMES = {str: ("a text", "text"), int: ("a whole number", "whole number"), float: ("a number", "number"), bool: ("true or false", "bool")}


class Unfit(ValueError):
    """What was given is no value of the option; says what was expected and what was got."""


@dataclass(frozen=True)
class Option:
    """One thing that a cluster is told.

    Args:
        name: in the file; the environment variable is `CEP_` and this in capitals. A unit stands last.
        type: `str`, `int`, `float`, `bool`, or `list`: of texts.
        default: where nothing is said; None: what `meaning` says.
        meaning: in a sentence, for help and the page.
        roles: the commands that read it.
        group: the part of the page in which it stands.
        unit: of a number.
        least, most: bounds of a number, included.
        choices: the texts that are allowed; none: all are.
        separator: between the parts of a list where it is given as a text.
        secret: it is shown to no reader, and a file that has it may be read by its owner alone.
        flags: role -> its flag there, where that is not `--` and the name.
        known_as: what `ClusterConfig` and `LocalConfig` call it; empty: as here.
        also: further environment variables, of earlier versions.
        exported: the processes read it from their environment.
        beside: (another option, what the default is where that one is said); empty: it is the same everywhere.
    """

    name: str
    type: type
    default: Any
    meaning: str
    roles: tuple[str, ...]
    group: str
    unit: str = ""
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    separator: str = ","
    secret: bool = False
    flags: Mapping[str, str] = field(default_factory=dict)
    known_as: str = ""
    also: tuple[str, ...] = ()
    exported: bool = False
    beside: tuple[str, Any] | tuple[()] = ()

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper()

    @property
    def variables(self) -> tuple[str, ...]:
        """The first that is set counts."""
        return (self.variable, *self.also)

    @property
    def field_name(self) -> str:
        return self.known_as or self.name

    @property
    def panel(self) -> str:
        """Its group, as a title."""
        return self.group[0].upper() + self.group[1:]

    def flag(self, role: str) -> str:
        return self.flags.get(role, f"--{self.name.replace('_', '-')}")

    @property
    def expected(self) -> str:
        """A value of it, in words: `a number from 2 to 600 (s)`."""
        if self.choices:
            return f"one of {', '.join(map(repr, self.choices))}"
        what = "a list of texts" if self.type is list else _NAMES[self.type][0]
        return what + self.bounds + (f" ({self.unit})" if self.unit else "")

    @property
    def bounds(self) -> str:
        """` from 2 to 600`; empty: there are none."""
        least = "" if self.least is None else f" from {self.least:,.16g}"
        return least + ("" if self.most is None else f" to {self.most:,.16g}")

    @property
    def type_name(self) -> str:
        return " or ".join(f"`{each}`" for each in self.choices) or ("list" if self.type is list else _NAMES[self.type][1])

    def from_toml(self, value: object) -> Any:
        """A value of a file. Raises Unfit."""
        return self._checked(value, strict=True)

    def from_text(self, text: str) -> Any:
        """A value of an environment variable or a flag. Raises Unfit."""
        if self.type is list:
            return self._checked([part for each in text.split(self.separator) if (part := each.strip())], strict=True)
        return self._checked(text.strip(), strict=False)

    def to_text(self, value: Any) -> str:
        """As an environment variable has it."""
        return self.separator.join(value) if self.type is list else str(value)

    def shown(self, value: object) -> str:
        """As a person may see it; empty: None."""
        if value is None:
            return ""
        return HIDDEN if self.secret else shown(value)

    def _checked(self, value: object, strict: bool) -> Any:
        try:
            found = self._adapter.validate_python(value, strict=strict)
        except ValidationError:
            raise Unfit(f"expected {self.expected}, got {self.shown(value)}") from None
        return tuple(found) if self.type is list else found

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        kind: Any = Literal[self.choices] if self.choices else list[str] if self.type is list else self.type
        if self.least is None and self.most is None:
            return TypeAdapter(kind)
        return TypeAdapter(Annotated[kind, Field(ge=self.least, le=self.most, **({"allow_inf_nan": False} if kind is float else {}))])
