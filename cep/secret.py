"""A secret as a value: what shows it by mistake shows `***`."""

from __future__ import annotations

from typing import NoReturn

HIDDEN = "***"


class Secret:
    """A text that stands in no log, no error and no document: whatever is made of it without asking for `text` is `***`, or an error."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    @property
    def text(self) -> str:
        """The secret itself, for the one place where it is needed."""
        return self._text

    def __repr__(self) -> str:
        return HIDDEN

    def __format__(self, specification: str) -> str:
        return HIDDEN

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not pickled")

    def __deepcopy__(self, memory: object) -> Secret:
        return self
