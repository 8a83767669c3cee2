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

from cep.kernels.states.exact_sum import SUM_WORDS
from cep.model.schema import BINARY, DataType, Field

LEAST, GREATEST = -(2**63), 2**63 - 1
NULL_TEXT = ("0", f"{(255 << 56) - 2**64}")


@dataclass
class Arguments:
    """The arrays of columns that the update of a shape takes: names given in order of first use, the same for all
    aggregates of one shape."""

    columns: dict[str, int] = field(default_factory=dict)
    used: dict[str, tuple[str, str]] = field(default_factory=dict)  # argument -> (column, what of it)
    suffix: str = ""  # of all names

    def of(self, column: str, what: str) -> str:
        number = self.columns.setdefault(column, len(self.columns))
        name = f"{what}{number}{self.suffix}"
        self.used[name] = (column, what)
        return name

    def value(self, column: Field) -> str:
        """The row's value as an int64 (a float64's bits)."""
        plain = f"{self.of(column.name, 'values')}[i]"
        return plain if column.type.name in ("int64", "timestamp", "float64") else f"np.int64({plain})"

    def real(self, column: Field) -> str:
        """The row's number as the bits of a float64."""
        return f"{self.of(column.name, 'reals')}[i]"

    def valid(self, column: Field) -> str:
        return f"{self.of(column.name, 'valid')}[i]"

    def words(self, column: Field) -> tuple[str, str, str]:
        """The row's text: two words and where their bytes are if it is long."""
        low, high, data = (self.of(column.name, what) for what in ("low", "high", "data"))
        return f"{low}[i]", f"{high}[i]", data


@dataclass(frozen=True)
class StatePart:
    """Words of a state, and what they are: "words", a "text" of `type`, the "sum" of `cep.kernels.states.exact_sum`, or a "block"
    (`cep.kernels.blocks`) of slots of `slot` bytes (0: not of slots) with a second word of text at byte `text` (-1: none), and
    `free` slots among them."""

    kind: str
    words: int
    type: DataType = BINARY
    slot: int = 0
    text: int = -1
    free: bool = False


class AggregateState(Protocol):
    """`parts` are its words in their order; `origin`: does it read the origins of rows?

    `texts` are the texts of a row that `update` may put: the second word, and where the bytes are if it is long. `room` and
    `merge_room` are how many bytes of arena `update` and `merge` may take besides, once the entry is known.
    """

    @property
    def parts(self) -> tuple[StatePart, ...]: ...

    @property
    def words(self) -> int:
        return sum(part.words for part in self.parts)

    @property
    def origin(self) -> bool:
        return False

    def identity(self) -> tuple[str, ...]: ...

    def update(self, arguments: Arguments, at: str) -> list[str]: ...

    def merge(self, at: str, s: str) -> list[str]: ...

    def texts(self, arguments: Arguments) -> list[tuple[str, str]]:
        return []

    def ahead(self, arguments: Arguments, at: str) -> list[str]:
        """Lines that ask for the memory, outside of the entry, that `update` of a row to come will touch."""
        return []

    def room(self, arguments: Arguments, at: str) -> str:
        return ""

    def merge_room(self, at: str, s: str) -> str:
        return ""

    def answer(self, at: str, s: str) -> list[str]:
        """As `merge`, into an answer that holds nothing and to which nothing will be added."""
        return self.merge(at, s)

    def answer_room(self, at: str, s: str) -> str:
        return self.merge_room(at, s)


def plain_words(words: int) -> tuple[StatePart, ...]:
    return (StatePart("words", words),)


def if_valid(arguments: Arguments, column: Field, *lines: str) -> list[str]:
    return [f"if {arguments.valid(column)}:", *(f"    {line}" for line in lines)] if column.nullable else list(lines)


@dataclass(frozen=True)
class Count(AggregateState):
    """Rows, or rows in which `column` is not NULL."""

    column: Field | None = None
    parts = plain_words(1)

    def identity(self) -> tuple[str, ...]:
        return ("0",)

    def update(self, arguments: Arguments, at: str) -> list[str]:
        return [f"entries[{at}] += {'1' if self.column is None else arguments.valid(self.column)}"]

    def merge(self, at: str, s: str) -> list[str]:
        return [f"entries[{at}] += other[{s}]"]


@dataclass(frozen=True)
class IntegerSum(AggregateState):
    """128 bits, least significant word first."""

    column: Field
    parts = plain_words(2)

    def identity(self) -> tuple[str, ...]:
        return ("0", "0")

    def update(self, arguments: Arguments, at: str) -> list[str]:
        value = arguments.value(self.column)
        return if_valid(arguments, self.column, f"add_128(entries, {at}, {value}, {value} >> 63)")

    def merge(self, at: str, s: str) -> list[str]:
        return [f"add_128(entries, {at}, other[{s}], other[{s} + 1])"]


@dataclass(frozen=True)
class FloatSum(AggregateState):
    """Exact: `cep.kernels.states.exact_sum`."""

    column: Field
    parts = (StatePart("sum", SUM_WORDS),)

    def identity(self) -> tuple[str, ...]:
        return ("0",) * SUM_WORDS

    def update(self, arguments: Arguments, at: str) -> list[str]:
        value = arguments.value(self.column)
        return if_valid(arguments, self.column, f"pooled = add_exact(entries, {at}, pool, pooled, {value})")

    def merge(self, at: str, s: str) -> list[str]:
        return [f"pooled = merge_exact(entries, {at}, pool, pooled, other, {s}, other_pool)"]


@dataclass(frozen=True)
class Extreme(AggregateState):
    """The least or greatest value of a fixed-width column, or event time (`column` None). -0.0 becomes 0.0; NaN is greatest."""

    greatest: bool
    column: Field | None
    parts = plain_words(1)

    def identity(self) -> tuple[str, ...]:
        return (str(LEAST if self.greatest else GREATEST),)

    def _into(self, at: str, value: str) -> str:
        return f"{'keep_greatest' if self.greatest else 'keep_least'}(entries, {at}, {value})"

    def update(self, arguments: Arguments, at: str) -> list[str]:
        if self.column is None:
            return [self._into(at, "time[i]")]
        value = arguments.value(self.column)
        if self.column.type.name == "float64":
            value = f"ordered_normal({value})"
        return if_valid(arguments, self.column, self._into(at, value))

    def merge(self, at: str, s: str) -> list[str]:
        return [self._into(at, f"other[{s}]")]


@dataclass(frozen=True)
class TextExtreme(AggregateState):
    """The least or greatest text by bytes, NULL if there is none."""

    greatest: bool
    column: Field

    @property
    def parts(self) -> tuple[StatePart, ...]:
        return (StatePart("text", 2, self.column.type),)

    def identity(self) -> tuple[str, ...]:
        return NULL_TEXT

    def _into(self, at: str, words: tuple[str, str, str]) -> list[str]:
        name = "raise_text" if self.greatest else "lower_text"
        return [f"used = {name}(entries, {at}, arena, used, {', '.join(words)})"]

    def update(self, arguments: Arguments, at: str) -> list[str]:
        return self._into(at, arguments.words(self.column))

    def texts(self, arguments: Arguments) -> list[tuple[str, str]]:
        return [arguments.words(self.column)[1:]]

    def merge(self, at: str, s: str) -> list[str]:
        return self._into(at, other_text(s))


def other_text(s: str) -> tuple[str, str, str]:
    return f"np.uint64(other[{s}])", f"np.uint64(other[{s} + 1])", "other_arena"
