"""What an aggregate remembers of a group: a state for each thing that its functions need to know.

A state is a few words of an entry. It says what they hold for a group without rows (`identity`), and in Numba's Python how a row
(`update`) and another group's words (`merge`) change them. Merging is associative and commutative, and an update is the merge of
a group of one row, so the words depend on the rows of a group alone, never on their order or how they were cut.

The generated code has these names: `entries` and `at`, the table and the entry; `i`, the row; `time`, `origin`; `arena` and
`used`, `pool` and `pooled`, the table's; `other` and `s`, `other_arena`, `other_pool`, the entry merged in.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from cep.kernels.exact_sum import SUM_WORDS
from cep.model.schema import Field

LEAST, GREATEST = -(2**63), 2**63 - 1
_NULL_TEXT = ("0", f"{(255 << 56) - 2**64}")


@dataclass
class Arguments:
    """The arrays of columns that the update of a shape takes: names given in order of first use, the same for all
    aggregates of one shape."""

    columns: dict[str, int] = field(default_factory=dict)
    used: dict[str, tuple[str, str]] = field(default_factory=dict)  # argument -> (column, what of it)

    def of(self, column: str, what: str) -> str:
        number = self.columns.setdefault(column, len(self.columns))
        name = f"{what}{number}"
        self.used[name] = (column, what)
        return name

    def value(self, column: Field) -> str:
        """The row's value as an int64 (a float64's bits)."""
        plain = f"{self.of(column.name, 'values')}[i]"
        return plain if column.type.name in ("int64", "timestamp", "float64") else f"np.int64({plain})"

    def valid(self, column: Field) -> str:
        return f"{self.of(column.name, 'valid')}[i]"

    def words(self, column: Field) -> tuple[str, str, str]:
        """The row's text: two words and where their bytes are if it is long."""
        low, high, data = (self.of(column.name, what) for what in ("low", "high", "data"))
        return f"{low}[i]", f"{high}[i]", data


class State(Protocol):
    """`words` is how many; `text` is where in them two words of text begin, if they do."""

    @property
    def words(self) -> int: ...

    @property
    def text(self) -> int | None: ...

    @property
    def origin(self) -> bool: ...

    def identity(self) -> tuple[str, ...]: ...

    def update(self, arguments: Arguments, at: str) -> list[str]: ...

    def merge(self, at: str, s: str) -> list[str]: ...


def _if_valid(arguments: Arguments, column: Field, line: str) -> list[str]:
    return [f"if {arguments.valid(column)}:", f"    {line}"] if column.nullable else [line]


@dataclass(frozen=True)
class Count:
    """Rows, or rows in which `column` is not NULL."""

    column: Field | None = None
    words, text, origin = 1, None, False

    def identity(self) -> tuple[str, ...]:
        return ("0",)

    def update(self, arguments: Arguments, at: str) -> list[str]:
        return [f"entries[{at}] += {'1' if self.column is None else arguments.valid(self.column)}"]

    def merge(self, at: str, s: str) -> list[str]:
        return [f"entries[{at}] += other[{s}]"]


@dataclass(frozen=True)
class IntegerSum:
    """128 bits, least significant word first."""

    column: Field
    words, text, origin = 2, None, False

    def identity(self) -> tuple[str, ...]:
        return ("0", "0")

    def update(self, arguments: Arguments, at: str) -> list[str]:
        value = arguments.value(self.column)
        return _if_valid(arguments, self.column, f"add_128(entries, {at}, {value}, {value} >> 63)")

    def merge(self, at: str, s: str) -> list[str]:
        return [f"add_128(entries, {at}, other[{s}], other[{s} + 1])"]


@dataclass(frozen=True)
class FloatSum:
    """Exact: `cep.kernels.exact_sum`."""

    column: Field
    words, text, origin = SUM_WORDS, None, False

    def identity(self) -> tuple[str, ...]:
        return ("0",) * SUM_WORDS

    def update(self, arguments: Arguments, at: str) -> list[str]:
        value = arguments.value(self.column)
        return _if_valid(arguments, self.column, f"pooled = add_exact(entries, {at}, pool, pooled, {value})")

    def merge(self, at: str, s: str) -> list[str]:
        return [f"pooled = merge_exact(entries, {at}, pool, pooled, other, {s}, other_pool)"]


@dataclass(frozen=True)
class Extreme:
    """The least or greatest value of a fixed-width column, or event time (`column` None). -0.0 becomes 0.0; NaN is greatest."""

    greatest: bool
    column: Field | None
    words, text, origin = 1, None, False

    def identity(self) -> tuple[str, ...]:
        return (str(LEAST if self.greatest else GREATEST),)

    def _into(self, at: str, value: str) -> str:
        return f"{'raise_' if self.greatest else 'lower'}(entries, {at}, {value})"

    def update(self, arguments: Arguments, at: str) -> list[str]:
        if self.column is None:
            return [self._into(at, "time[i]")]
        value = arguments.value(self.column)
        if self.column.type.name == "float64":
            value = f"ordered_normal({value})"
        return _if_valid(arguments, self.column, self._into(at, value))

    def merge(self, at: str, s: str) -> list[str]:
        return [self._into(at, f"other[{s}]")]


@dataclass(frozen=True)
class TextExtreme:
    """The least or greatest text by bytes, NULL if there is none."""

    greatest: bool
    column: Field
    words, text, origin = 2, 0, False

    def identity(self) -> tuple[str, ...]:
        return _NULL_TEXT

    def _into(self, at: str, words: tuple[str, str, str]) -> list[str]:
        name = "raise_text" if self.greatest else "lower_text"
        return [f"used = {name}(entries, {at}, arena, used, {', '.join(words)})"]

    def update(self, arguments: Arguments, at: str) -> list[str]:
        return self._into(at, arguments.words(self.column))

    def merge(self, at: str, s: str) -> list[str]:
        return self._into(at, _other_text(s))


@dataclass(frozen=True)
class Edge:
    """The value of the first or last row in (event time, origin): time, origin, is it there, value."""

    last: bool
    column: Field
    words, text, origin = 5, None, True

    def identity(self) -> tuple[str, ...]:
        return (str(LEAST if self.last else GREATEST), "0", "0", "0", "0")

    def _into(self, at: str, row: list[str]) -> list[str]:
        test = f"compare_row(entries, {at}, {', '.join(row)}) {'>' if self.last else '<'} 0"
        return [f"if {test}:", f"    put_row(entries, {at}, {', '.join(row)})"]

    def update(self, arguments: Arguments, at: str) -> list[str]:
        value, valid = arguments.value(self.column), "1"
        if self.column.type.name == "float64":
            value = f"ordered({value})"
        if self.column.nullable:
            valid = f"np.int64({arguments.valid(self.column)})"
            value = f"({value} if {arguments.valid(self.column)} else 0)"
        return self._into(at, ["time[i]", "origin[i, 0]", "origin[i, 1]", valid, value])

    def merge(self, at: str, s: str) -> list[str]:
        return self._into(at, [f"other[{s} + {k}]" for k in range(5)])


@dataclass(frozen=True)
class TextEdge:
    """The same of a text: time, origin, two words."""

    last: bool
    column: Field
    words, text, origin = 5, 3, True

    def identity(self) -> tuple[str, ...]:
        return (str(LEAST if self.last else GREATEST), "0", "0", *_NULL_TEXT)

    def _into(self, at: str, row: list[str]) -> list[str]:
        test = f"compare_text_row(entries, {at}, arena, {', '.join(row)}) {'>' if self.last else '<'} 0"
        return [f"if {test}:", f"    used = put_text_row(entries, {at}, arena, used, {', '.join(row)})"]

    def update(self, arguments: Arguments, at: str) -> list[str]:
        return self._into(at, ["time[i]", "origin[i, 0]", "origin[i, 1]", *arguments.words(self.column)])

    def merge(self, at: str, s: str) -> list[str]:
        return self._into(at, [*(f"other[{s} + {k}]" for k in range(3)), *_other_text(f"{s} + 3")])


def _other_text(s: str) -> tuple[str, str, str]:
    return f"np.uint64(other[{s}])", f"np.uint64(other[{s} + 1])", "other_arena"
