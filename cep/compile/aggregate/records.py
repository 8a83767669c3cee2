"""States that remember one row of a group: FIRST and LAST, ARG_MIN and ARG_MAX, each of one column or of several.

Functions that choose the same row share a record (`records_of`): a row is compared once, and the values of the better one of
two are put together. Two rows of a group never tie in the end: rows differ in event time or origin, and where they may not, the one value
is the whole row, ROW (`ties.py`). A row's place in stream order is 1 + `origin_words` words: its event time, then its origin.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from cep.compile.aggregate.states import GREATEST, LEAST, NULL_TEXT, AggregateState, Arguments, StatePart, if_valid, other_text, plain_words
from cep.compile.aggregate.ties import ROW
from cep.model.schema import Field

#: The words of a stream row's origin; FlatMap appends one.
ORIGIN_WORDS = 2
#: Columns of a record, so that no piece of what is compiled grows with the functions that are asked for.
COLUMNS_MAX = 16


def tuple_of(words: Sequence[str]) -> str:
    return f"({', '.join(words)}{',' * (len(words) == 1)})"


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


@dataclass(frozen=True)
class RowRecord(AggregateState):
    """The values of `columns` in one row: the first or `last` in (event time, origin); with `by`, the one where that is least or
    greatest (`last`), of several the first.

    Words: `by`, one word (its complement where the greatest is wanted), or of a text 1 until there is a row, and the text; time, origin;
    and for each column the value, behind a word that says whether it is there if it may be NULL, or a text.
    """

    last: bool
    columns: tuple[Field, ...]
    by: Field | None = None
    origin_words: int = ORIGIN_WORDS
    origin = True

    @property
    def parts(self) -> tuple[StatePart, ...]:
        return (*plain_words(self._plain), *(StatePart("text", 2, each.type) for each in self._texts))

    @property
    def _place(self) -> int:
        """Where its time is."""
        return int(self.by is not None)

    @property
    def _plain(self) -> int:
        """How many words there are before those of texts."""
        return self._place + 1 + self.origin_words + sum(1 + self._may_lack(each) for each in self._numbers)

    @property
    def _numbers(self) -> list[Field]:
        return [each for each in self.columns if not each.type.is_bytes]

    @property
    def _texts(self) -> list[Field]:
        """`by` as a value is kept once."""
        return [each for each in dict.fromkeys([*([self.by] if self.by else []), *self.columns]) if each.type.is_bytes]

    def _may_lack(self, column: Field) -> bool:
        """A value may be NULL, or there may be no row."""
        return column.nullable or (self.by is not None and self.by.nullable)

    @property
    def snapshot_columns(self) -> list[Hashable]:
        """What each of its columns in a snapshot is, in their order; records that choose the same row have the same ones."""
        chosen, place = (self.last, self.by, self.origin_words), range(self._place + 1 + self.origin_words)
        numbers = ((each, k) for each in self._numbers for k in range(1 + self._may_lack(each)))
        return [(chosen, each) for each in (*place, *numbers, *self._texts)]

    def value(self, column: Field) -> int:
        """Where the words of its value are."""
        if column.type.is_bytes:
            return self._plain + 2 * self._texts.index(column)
        before = self._numbers[: self._numbers.index(column)]
        return self._place + 1 + self.origin_words + sum(1 + self._may_lack(each) for each in before)

    def identity(self) -> tuple[str, ...]:
        by = [] if self.by is None else ["1" if self.by.type.is_bytes else str(GREATEST)]
        time = str(LEAST if self.last and self.by is None else GREATEST)
        return (*by, time, *["0"] * (self._plain - self._place - 1), *NULL_TEXT * len(self._texts))

    def update(self, arguments: Arguments, at: str) -> list[str]:
        words = [*self._by(arguments), *place_of_row(self.origin_words)]
        values = [word for each in self._numbers for word in value_of_row(arguments, each)[not self._may_lack(each) :]]
        texts = [arguments.words(each) for each in self._texts]
        put = [f"entries[{at} + {k}] = {word}" for k, word in enumerate([*words, *values])]
        lines = self._into(at, words, texts, put)
        return lines if self.by is None else if_valid(arguments, self.by, *lines)

    def merge(self, at: str, s: str) -> list[str]:
        words = [f"other[{s} + {k}]" for k in range(self._place + 1 + self.origin_words)]
        texts = [other_text(f"{s} + {self._plain + 2 * j}") for j in range(len(self._texts))]
        return self._into(at, words, texts, [f"for k in range({self._plain}):", f"    entries[{at} + k] = other[{s} + k]"])

    def _by(self, arguments: Arguments) -> list[str]:
        if self.by is None or self.by.type.is_bytes:
            return ["0"] * self._place
        value = arguments.value(self.by)
        if self.by.type.name == "float64":
            value = f"ordered_normal({value})"
        return [f"~{value}" if self.last else value]

    def _into(self, at: str, words: Sequence[str], texts: Sequence[tuple[str, str, str]], put: Sequence[str]) -> list[str]:
        """Puts a row if it is better: `words` are those before its values, and `put` puts all that are no `texts`."""
        order = [f"compare({word}, entries[{at} + {k}])" for k, word in enumerate(words)]
        if self.by is not None and self.by.type.is_bytes:
            order.insert(1, f"{'-' * self.last}{self._compared(at, texts, self.by)}")
        if ROW in self.columns:
            order.append(self._compared(at, texts, ROW))
        lines = [f"order = {order[0]}"]
        for each in order[1:]:
            lines += ["if order == 0:", f"    order = {each}"]
        put_texts = (f"used = put_text(entries, {at} + {self._plain + 2 * j}, arena, used, {', '.join(t)})" for j, t in enumerate(texts))
        better = ">" if self.last and self.by is None else "<"
        return [*lines, f"if order {better} 0:", *(f"    {line}" for line in (*put, *put_texts))]

    def _compared(self, at: str, texts: Sequence[tuple[str, str, str]], column: Field) -> str:
        place = f"{at} + {self.value(column)}"
        state = f"np.uint64(entries[{place}]), np.uint64(entries[{place} + 1]), arena"
        return f"compare_text({', '.join(texts[self._texts.index(column)])}, {state})"

    def texts(self, arguments: Arguments) -> list[tuple[str, str]]:
        return [arguments.words(each)[1:] for each in self._texts]


def records_of(last: bool, columns: tuple[Field, ...], by: Field | None, origin_words: int) -> Iterator[RowRecord]:
    """Those that keep `columns` of one row: one record, or, of very many columns, several that choose alike."""
    for start in range(0, len(columns), COLUMNS_MAX):
        yield RowRecord(last, columns[start : start + COLUMNS_MAX], by, origin_words)
