"""States that remember one row of a group: FIRST and LAST, ARG_MIN and ARG_MAX.

A record is compared segment by segment, and the better one of two is put whole. Its segments are words that sort as the row does,
and texts. A row's place in stream order is 1 + `origin_words` words: its event time, then its origin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cep.compile.aggregate_states import GREATEST, LEAST, NULL_TEXT, Arguments, Part, State, if_valid, other_text, plain
from cep.model.schema import Field

#: Of a stream's row; FlatMap appends one.
ORIGIN_WORDS = 2


@dataclass(frozen=True)
class Segment:
    """`row` are int64 words, or (`text`) the two words of a text and where its bytes are. `backwards`: the greater is the better."""

    at: str
    row: Sequence[str]
    text: bool = False
    backwards: bool = False

    @property
    def compare(self) -> str:
        if not self.text:
            return f"compare_words(entries, {self.at}, {tuple_of(self.row)})"
        state = f"np.uint64(entries[{self.at}]), np.uint64(entries[{self.at} + 1]), arena"
        return f"{'-' * self.backwards}compare_text({', '.join(self.row)}, {state})"

    @property
    def put(self) -> str:
        if not self.text:
            return f"put_words(entries, {self.at}, {tuple_of(self.row)})"
        return f"used = put_text(entries, {self.at}, arena, used, {', '.join(self.row)})"


def tuple_of(words: Sequence[str]) -> str:
    return f"({', '.join(words)}{',' * (len(words) == 1)})"


def _put_if(better: str, segments: Sequence[Segment]) -> list[str]:
    """Puts the segments where `order` of them `better` 0."""
    lines = [f"order = {segments[0].compare}"]
    for segment in segments[1:]:
        lines += ["if order == 0:", f"    order = {segment.compare}"]
    return [*lines, f"if order {better} 0:", *(f"    {segment.put}" for segment in segments)]


def place_of_row(origin_words: int) -> list[str]:
    return ["time[i]", *(f"origin[i, {k}]" for k in range(origin_words))]


def value_of_row(arguments: Arguments, column: Field) -> list[str]:
    """The words of a fixed-width value: is it there, and an int64 that sorts as it does."""
    value, valid = arguments.value(column), "np.int64(1)"
    if column.type.name == "float64":
        value = f"ordered({value})"
    if column.nullable:
        valid = f"np.int64({arguments.valid(column)})"
        value = f"({value} if {arguments.valid(column)} else 0)"
    return [valid, value]


def _others(s: str, first: int, count: int) -> list[str]:
    return [f"other[{s} + {k}]" for k in range(first, first + count)]


@dataclass(frozen=True)
class Edge(State):
    """The value of the first or last row in (event time, origin): time, origin, is it there, value."""

    last: bool
    column: Field
    origin_words: int = ORIGIN_WORDS
    origin = True

    @property
    def parts(self) -> tuple[Part, ...]:
        return plain(3 + self.origin_words)

    @property
    def value(self) -> int:
        """Where its value is."""
        return 1 + self.origin_words

    def identity(self) -> tuple[str, ...]:
        return (str(LEAST if self.last else GREATEST), *["0"] * (self.words - 1))

    def _into(self, at: str, row: list[str]) -> list[str]:
        better = ">" if self.last else "<"
        if self.origin_words != ORIGIN_WORDS:
            return _put_if(better, [Segment(at, row)])
        test = f"compare_row(entries, {at}, {', '.join(row)}) {better} 0"
        return [f"if {test}:", f"    put_row(entries, {at}, {', '.join(row)})"]

    def update(self, arguments: Arguments, at: str) -> list[str]:
        valid, value = value_of_row(arguments, self.column)
        if self.origin_words == ORIGIN_WORDS and not self.column.nullable:
            valid = "1"
        return self._into(at, [*place_of_row(self.origin_words), valid, value])

    def merge(self, at: str, s: str) -> list[str]:
        return self._into(at, _others(s, 0, self.words))


@dataclass(frozen=True)
class TextEdge(State):
    """The same of a text: time, origin, two words."""

    last: bool
    column: Field
    origin_words: int = ORIGIN_WORDS
    origin = True

    @property
    def parts(self) -> tuple[Part, ...]:
        return (*plain(1 + self.origin_words), Part("text", 2, self.column.type))

    @property
    def value(self) -> int:
        return 1 + self.origin_words

    def identity(self) -> tuple[str, ...]:
        return (str(LEAST if self.last else GREATEST), *["0"] * self.origin_words, *NULL_TEXT)

    def _into(self, at: str, place: list[str], words: tuple[str, str, str]) -> list[str]:
        better, row = ">" if self.last else "<", ", ".join([*place, *words])
        if self.origin_words != ORIGIN_WORDS:
            return _put_if(better, [Segment(at, place), Segment(f"{at} + {self.value}", words, text=True)])
        test = f"compare_text_row(entries, {at}, arena, {row}) {better} 0"
        return [f"if {test}:", f"    used = put_text_row(entries, {at}, arena, used, {row})"]

    def update(self, arguments: Arguments, at: str) -> list[str]:
        return self._into(at, place_of_row(self.origin_words), arguments.words(self.column))

    def merge(self, at: str, s: str) -> list[str]:
        return self._into(at, _others(s, 0, self.value), other_text(f"{s} + {self.value}"))

    def texts(self, arguments: Arguments) -> list[tuple[str, str]]:
        return [arguments.words(self.column)[1:]]


@dataclass(frozen=True)
class ArgExtreme(State):
    """The value of `column` in the row where `by` is least or greatest, of several the first in (event time, origin), then by the value.

    Words: 1 until there is such a row; `by`, one word (its complement where the greatest is wanted) or a text; time, origin; and
    the value, as in an Edge.
    """

    greatest: bool
    by: Field
    column: Field
    origin_words: int = ORIGIN_WORDS
    origin = True

    @property
    def parts(self) -> tuple[Part, ...]:
        by = (*plain(1), Part("text", 2, self.by.type)) if self.by.type.is_text else plain(2)
        value = Part("text", 2, self.column.type) if self.column.type.is_bytes else Part("words", 2)
        return (*by, *plain(1 + self.origin_words), value)

    @property
    def value(self) -> int:
        return self._place + 1 + self.origin_words

    @property
    def _place(self) -> int:
        """Where its time is."""
        return 3 if self.by.type.is_text else 2

    def identity(self) -> tuple[str, ...]:
        by = NULL_TEXT if self.by.type.is_text else ("0",)
        value = NULL_TEXT if self.column.type.is_bytes else ("0", "0")
        return ("1", *by, *["0"] * (1 + self.origin_words), *value)

    def _into(self, at: str, absent: str, by: Sequence[str], place: list[str], value: Sequence[str]) -> list[str]:
        if self.by.type.is_text:
            first = [Segment(at, [absent]), Segment(f"{at} + 1", by, text=True, backwards=self.greatest)]
        else:
            first = [Segment(at, [absent, *by])]
        rest = [Segment(f"{at} + {self._place}", place), Segment(f"{at} + {self.value}", value, text=self.column.type.is_bytes)]
        return _put_if("<", [*first, *rest])

    def update(self, arguments: Arguments, at: str) -> list[str]:
        value = arguments.words(self.column) if self.column.type.is_bytes else value_of_row(arguments, self.column)
        lines = self._into(at, "np.int64(0)", self._by(arguments), place_of_row(self.origin_words), value)
        return if_valid(arguments, self.by, *lines)

    def _by(self, arguments: Arguments) -> Sequence[str]:
        if self.by.type.is_text:
            return arguments.words(self.by)
        value = arguments.value(self.by)
        if self.by.type.name == "float64":
            value = f"ordered_normal({value})"
        return [f"~{value}" if self.greatest else value]

    def merge(self, at: str, s: str) -> list[str]:
        by = other_text(f"{s} + 1") if self.by.type.is_text else _others(s, 1, 1)
        value = other_text(f"{s} + {self.value}") if self.column.type.is_bytes else _others(s, self.value, 2)
        return self._into(at, f"other[{s}]", by, _others(s, self._place, 1 + self.origin_words), value)

    def texts(self, arguments: Arguments) -> list[tuple[str, str]]:
        return [arguments.words(column)[1:] for column in (self.by, self.column) if column.type.is_bytes]
