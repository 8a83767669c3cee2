"""States of no fixed size: a block of the table's arena each (`cep.kernels.blocks`). NULLs count for nothing, but in FirstRows."""

from __future__ import annotations

from dataclasses import dataclass

from cep.compile.aggregate.records import ORIGIN_WORDS, place_of_row, tuple_of, value_of_row
from cep.compile.aggregate.states import AggregateState, Arguments, StatePart, if_valid
from cep.kernels.blocks import BLOCK_WORDS, PAIR
from cep.kernels.states.numbers import NUMBER
from cep.model.schema import Field

_NOTHING = ("0",) * BLOCK_WORDS
_RAW = (StatePart("block", BLOCK_WORDS),)


@dataclass(frozen=True)
class Distinct(AggregateState):
    """The different values: a set of their words."""

    column: Field

    @property
    def parts(self) -> tuple[StatePart, ...]:
        return (StatePart("block", BLOCK_WORDS, slot=PAIR, text=8 if self.column.type.is_bytes else -1, free=True),)

    def identity(self) -> tuple[str, ...]:
        return _NOTHING

    def update(self, arguments: Arguments, at: str) -> list[str]:
        words = ", ".join(arguments.words(self.column))
        return if_valid(arguments, self.column, f"used = set_add(entries, {at}, arena, used, {words})")

    def ahead(self, arguments: Arguments, at: str) -> list[str]:
        words = ", ".join(arguments.words(self.column)[:2])
        return if_valid(arguments, self.column, f"set_ahead(entries, {at}, arena, {words})")

    def room(self, arguments: Arguments, at: str) -> str:
        return f"set_room(entries, {at}, {', '.join(arguments.words(self.column)[1:])})"

    def merge(self, at: str, s: str) -> list[str]:
        return [f"used = set_merge(entries, {at}, arena, used, other, {s}, other_arena)"]

    def merge_room(self, at: str, s: str) -> str:
        return f"set_merge_room(entries, {at}, other, {s}, other_arena)"

    def answer(self, at: str, s: str) -> list[str]:
        """How many there are, without them."""
        return [f"entries[{at} + 2] = other[{s} + 2]"]

    def answer_room(self, at: str, s: str) -> str:
        return ""


@dataclass(frozen=True)
class DistinctNumbers(Distinct):
    """The same of integers: a set of these, `cep.kernels.states.numbers`."""

    @property
    def parts(self) -> tuple[StatePart, ...]:
        return (StatePart("block", BLOCK_WORDS, slot=NUMBER, free=True),)

    def update(self, arguments: Arguments, at: str) -> list[str]:
        line = f"used = numbers_add(entries, {at}, arena, used, np.uint64({arguments.value(self.column)}))"
        return if_valid(arguments, self.column, line)

    def ahead(self, arguments: Arguments, at: str) -> list[str]:
        return if_valid(arguments, self.column, f"numbers_ahead(entries, {at}, arena, np.uint64({arguments.value(self.column)}))")

    def room(self, arguments: Arguments, at: str) -> str:
        return f"numbers_room(entries, {at}, 1)"

    def merge(self, at: str, s: str) -> list[str]:
        return [f"used = numbers_merge(entries, {at}, arena, used, other, {s}, other_arena)"]

    def merge_room(self, at: str, s: str) -> str:
        return f"numbers_room(entries, {at}, other[{s} + 2])"


@dataclass(frozen=True)
class Registers(AggregateState):
    """HyperLogLog: `cep.kernels.states.registers`."""

    column: Field
    precision: int
    parts = _RAW

    def identity(self) -> tuple[str, ...]:
        return _NOTHING

    def update(self, arguments: Arguments, at: str) -> list[str]:
        words = ", ".join(arguments.words(self.column)[:2])
        return if_valid(arguments, self.column, f"used = registers_add(entries, {at}, arena, used, {words}, {self.precision})")

    def room(self, arguments: Arguments, at: str) -> str:
        return f"registers_room(entries, {at}, 1, {1 << self.precision})"

    def merge(self, at: str, s: str) -> list[str]:
        return [f"used = registers_merge(entries, {at}, arena, used, other, {s}, other_arena, {self.precision})"]

    def merge_room(self, at: str, s: str) -> str:
        return f"registers_merge_room(entries, {at}, other, {s}, {1 << self.precision})"


@dataclass(frozen=True)
class ValueBuckets(AggregateState):
    """How many values each bucket has: `cep.kernels.tables.buckets`."""

    column: Field

    @property
    def parts(self) -> tuple[StatePart, ...]:
        return (StatePart("block", BLOCK_WORDS, slot=PAIR, free=True),)

    def identity(self) -> tuple[str, ...]:
        return _NOTHING

    def update(self, arguments: Arguments, at: str) -> list[str]:
        line = f"used = tally_add(entries, {at}, arena, used, bucket_of({arguments.real(self.column)}), 1)"
        return if_valid(arguments, self.column, line)

    def room(self, arguments: Arguments, at: str) -> str:
        return f"map_room(entries, {at}, 1)"

    def merge(self, at: str, s: str) -> list[str]:
        return [f"used = tally_merge(entries, {at}, arena, used, other, {s}, other_arena)"]

    def merge_room(self, at: str, s: str) -> str:
        return f"map_room(entries, {at}, other[{s} + 2])"


@dataclass(frozen=True)
class Squares(AggregateState):
    """The exact sum of squares: `cep.kernels.states.squares`."""

    column: Field
    parts = _RAW

    def identity(self) -> tuple[str, ...]:
        return _NOTHING

    def update(self, arguments: Arguments, at: str) -> list[str]:
        kind = "float" if self.column.type.name == "float64" else "integer"
        line = f"used = add_{kind}_square(entries, {at}, arena, used, {arguments.value(self.column)})"
        return if_valid(arguments, self.column, line)

    def room(self, arguments: Arguments, at: str) -> str:
        if self.column.type.name == "float64":
            return f"float_square_room(entries, {at}, {arguments.value(self.column)})"
        return f"integer_square_room(entries, {at})"

    def merge(self, at: str, s: str) -> list[str]:
        return [f"used = squares_merge(entries, {at}, arena, used, other, {s}, other_arena)"]

    def merge_room(self, at: str, s: str) -> str:
        return f"squares_merge_room(entries, {at}, other, {s})"


@dataclass(frozen=True)
class FirstRows(AggregateState):
    """The values of the first `limit` rows in (event time, origin), then by the value: `cep.kernels.tables.first_rows`."""

    column: Field
    limit: int
    origin_words: int = ORIGIN_WORDS
    origin = True

    @property
    def value(self) -> int:
        """Which word of a row its value is at."""
        return 1 + self.origin_words

    @property
    def slot(self) -> int:
        return 8 * (self.value + 2)

    @property
    def parts(self) -> tuple[StatePart, ...]:
        return (StatePart("block", BLOCK_WORDS, slot=self.slot, text=self.slot - 8 if self.column.type.is_bytes else -1),)

    def identity(self) -> tuple[str, ...]:
        return _NOTHING

    def _add(self, at: str, row: list[str], data: str) -> str:
        return f"used = rows_add(entries, {at}, arena, used, {self.limit}, {tuple_of(row)}, {self.column.type.is_bytes}, {data})"

    def update(self, arguments: Arguments, at: str) -> list[str]:
        place = place_of_row(self.origin_words)
        if not self.column.type.is_bytes:
            return [self._add(at, [*place, *value_of_row(arguments, self.column)], "arena")]
        w0, w1, data = arguments.words(self.column)
        return [self._add(at, [*place, f"np.int64({w0})", f"np.int64({w1})"], data)]

    def room(self, arguments: Arguments, at: str) -> str:
        text = f" + text_room({', '.join(arguments.words(self.column)[1:])})" if self.column.type.is_bytes else ""
        return f"rows_room(entries, {at}, 1, {self.slot}, {self.limit}){text}"

    def merge(self, at: str, s: str) -> list[str]:
        row = [f"np.int64(load_word(other_arena, r + {8 * k}))" for k in range(self.value + 2)]
        loop = f"for r in range(other[{s}], other[{s}] + {self.slot} * other[{s} + 2], {self.slot}):"
        reserve = f"used = rows_reserve(entries, {at}, arena, used, other[{s} + 2], {self.slot}, {self.limit})"
        return [reserve, loop, f"    {self._add(at, row, 'other_arena')}"]

    def merge_room(self, at: str, s: str) -> str:
        room = f"rows_room(entries, {at}, other[{s} + 2], {self.slot}, {self.limit})"
        if not self.column.type.is_bytes:
            return room
        return f"{room} + texts_room(other, {s}, other_arena, {self.slot} * other[{s} + 2], {self.slot}, {self.slot - 8})"
