"""Values by two keys, of which nothing is left when the last of a group has gone: what is asked for and is not there makes no group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")
_NONE: Mapping[Any, Any] = MappingProxyType({})


class GroupedMap(Generic[K, V]):
    """group -> key -> value, keys in the order in which they came."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[K, V]] = {}

    def __getitem__(self, group: str) -> Mapping[K, V]:
        return self._groups.get(group, _NONE)

    def __contains__(self, group: str) -> bool:
        return group in self._groups

    def __iter__(self) -> Iterator[str]:
        return iter(self._groups)

    def __len__(self) -> int:
        return len(self._groups)

    def put(self, group: str, key: K, value: V) -> None:
        self._groups.setdefault(group, {})[key] = value

    def take(self, group: str, key: K) -> V | None:
        """The value, which is there no more; None: it was not."""
        there = self._groups.get(group, {})
        value = there.pop(key, None)
        if not there:
            self._groups.pop(group, None)
        return value

    def take_everywhere(self, key: K) -> None:
        """Out of every group."""
        for group in list(self._groups):
            self.take(group, key)


class SizedMap(GroupedMap[K, V]):
    """One that knows how large the values of each group are together. `size`: of a value; the same value has always the same."""

    def __init__(self, size: Callable[[V], int]) -> None:
        super().__init__()
        self.size, self._sizes = size, Counter[str]()

    def total(self, group: str) -> int:
        return self._sizes[group]

    def put(self, group: str, key: K, value: V) -> None:
        known = self[group].get(key)
        self._sizes[group] += self.size(value) - (0 if known is None else self.size(known))
        super().put(group, key, value)

    def take(self, group: str, key: K) -> V | None:
        value = super().take(group, key)
        if value is not None:
            self._sizes[group] -= self.size(value)
        if group not in self:
            del self._sizes[group]
        return value
