"""What ways remember of the rows that they took, for conditions over them: words for each variable and column, and the lines that keep
them.

A way has `width` words: for each variable that conditions ask about its count of rows, and behind it what they ask of its columns; the last
word is for work. A value is a word, a float's its bits, a text's its code, and a word beside it: is it there, and not NULL?
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from cep.compile.chain.expressions import Value, Writer
from cep.kernels.states.exact_sum import SUM_WORDS
from cep.model.expr import ColumnRef, RowRef
from cep.model.schema import BOOL, FLOAT64, INT32, INT64, DataType, Field, Schema
from cep.model.types import Typed

#: A text column -> the expression of its code in the row at hand.
Coded = Callable[[str], Typed]


@dataclass
class WayRegisters:
    """`columns` by name; of texts codes are kept. `places`: (variable, kind, column) -> its first word."""

    schema: Schema
    places: dict[tuple[str, str, str], int] = field(default_factory=dict)
    rings: dict[tuple[str, str], int] = field(default_factory=dict)  # values of last that are kept
    texts: list[int] = field(default_factory=list)  # words that are codes
    sums: list[int] = field(default_factory=list)  # first words of exact sums of floats
    words: int = 0

    @staticmethod
    def of(refs: Iterable[RowRef], schema: Schema) -> WayRegisters:
        made = WayRegisters(schema)
        asked = list(refs)
        for ref in asked:
            if ref.function == "last":
                key = ref.variable, ref.column or ""
                made.rings[key] = max(made.rings.get(key, 0), ref.k + 1)
        for ref in asked:
            made._place(ref)
        return made

    @property
    def width(self) -> int:
        return self.words + 1 if self.words else 0

    def _place(self, ref: RowRef) -> None:
        self._new((ref.variable, "count", ""), 1)
        column = ref.column or ""
        match ref.function:
            case "last":
                self._values((ref.variable, "last", column), self.rings[ref.variable, column])
            case "first" | "min" | "max":
                self._values((ref.variable, ref.function, column), 1)
            case "sum" | "avg":
                exact = self.schema[column].type == FLOAT64
                if self._new((ref.variable, "sum", column), SUM_WORDS + 1 if exact else 3) and exact:
                    self.sums.append(self.places[ref.variable, "sum", column])

    def _values(self, key: tuple[str, str, str], count: int) -> None:
        if self._new(key, 2 * count) and self.schema[key[2]].type.is_text:
            self.texts += range(self.places[key], self.places[key] + 2 * count, 2)

    def _new(self, key: tuple[str, str, str], words: int) -> bool:
        if key in self.places:
            return False
        self.places[key] = self.words
        self.words += words
        return True

    def variables(self) -> frozenset[str]:
        return frozenset(variable for variable, _, _ in self.places)

    # A row is taken

    def take(self, variable: str, writer: Writer, coded: Coded) -> None:
        """Lines that give the words at `at` what row i brings as `variable`."""
        count = self.places[variable, "count", ""]
        for (name, kind, column), place in self.places.items():
            if name == variable and kind != "count":
                self._take(kind, column, place, count, writer, coded)
        writer.line(f"registers[at + {count}] += 1")

    def _take(self, kind: str, column: str, place: int, count: int, writer: Writer, coded: Coded) -> None:
        type_ = self.schema[column].type
        value = writer.write(coded(column) if type_.is_text else Typed(ColumnRef(column), type_, self.schema[column].nullable))
        valid = value.valid or "True"
        match kind:
            case "last":
                for k in range(place + 2 * self.rings_of(place) - 2, place, -2):
                    writer.line(f"registers[at + {k}], registers[at + {k + 1}] = registers[at + {k - 2}], registers[at + {k - 1}]")
                self._store(place, type_, value.code, valid, writer)
            case "first":
                writer.line(f"if registers[at + {count}] == 0:")
                writer.depth += 1
                self._store(place, type_, value.code, valid, writer)
                writer.depth -= 1
            case "min" | "max":
                self._extreme(kind, place, type_, value.code, valid, writer)
            case "sum":
                self._sum(place, type_, value.code, valid, writer)

    def rings_of(self, place: int) -> int:
        return next(self.rings[variable, column] for (variable, kind, column), at in self.places.items() if at == place and kind == "last")

    def _store(self, place: int, type_: DataType, code: str, valid: str, writer: Writer) -> None:
        writer.line(f"{_array(type_)}[at + {place}] = {code}")
        writer.line(f"registers[at + {place + 1}] = {valid}")

    def _extreme(self, kind: str, place: int, type_: DataType, code: str, valid: str, writer: Writer) -> None:
        kept, code = f"{_array(type_)}[at + {place}]", f"{code} + 0.0" if type_ == FLOAT64 else f"int64({code})"
        one, other = (code, kept) if kind == "min" else (kept, code)
        less = f"float_less({one}, {other})" if type_ == FLOAT64 else f"{one} < {other}"
        writer.line(f"if {valid} and (registers[at + {place + 1}] == 0 or {less}):")
        writer.depth += 1
        self._store(place, type_, code, "1", writer)
        writer.depth -= 1

    def _sum(self, place: int, type_: DataType, code: str, valid: str, writer: Writer) -> None:
        exact = type_ == FLOAT64
        writer.line(f"if {valid}:")
        writer.depth += 1
        if exact:
            writer.line(f"floats[at + {self.words}] = {code}")
            row = f"at // {self.width} * {len(self.sums)} + {self.sums.index(place)}"
            writer.line(f"add_exact(registers, at + {place}, pool, {row}, registers[at + {self.words}])")
        else:
            writer.line(f"add_128(registers, at + {place}, int64({code}), int64({code}) >> 63)")
        writer.line(f"registers[at + {place + (SUM_WORDS if exact else 2)}] += 1")
        writer.depth -= 1

    # What conditions read

    def value(self, ref: RowRef, writer: Writer) -> Value:
        """What `ref` is behind row i, whose words are at `at`."""
        column, places = ref.column or "", self.places
        match ref.function:
            case "count":
                return Value(f"registers[at + {places[ref.variable, 'count', '']}]", INT64)
            case "sum" | "avg":
                return self._total(ref, places[ref.variable, "sum", column], writer)
            case "last":
                return self._read(places[ref.variable, "last", column] + 2 * ref.k, self.schema[column].type)
        return self._read(places[ref.variable, ref.function, column], self.schema[column].type)

    def _read(self, place: int, type_: DataType) -> Value:
        code = f"{_array(type_)}[at + {place}]"
        if type_ in (BOOL, INT32):
            code = f"({code} != 0)" if type_ == BOOL else f"int32({code})"
        return Value(code, INT64 if type_.is_text else type_, f"(registers[at + {place + 1}] != 0)")

    def _total(self, ref: RowRef, place: int, writer: Writer) -> Value:
        exact = self.schema[ref.column or ""].type == FLOAT64
        count = f"registers[at + {place + (SUM_WORDS if exact else 2)}]"
        low, high = f"registers[at + {place}]", f"registers[at + {place + 1}]"
        if exact:
            writer.line(f"registers[at + {self.words}] = rounded_sum(registers, at + {place}, pool, whole)")
        elif ref.function == "sum":
            return Value(low, INT64, f"({count} > 0 and {high} == {low} >> 63)")
        else:
            writer.line(f"floats[at + {self.words}] = rounded_128({low}, {high})")
        writer.names += 1
        name = f"t{writer.names}"
        writer.line(f"{name} = floats[at + {self.words}]" + (f" / {count}" if ref.function == "avg" else ""))
        return Value(name, FLOAT64, f"({count} > 0)")

    def fields(self, refs: Iterable[RowRef], name: Callable[[RowRef], str], of: Callable[[RowRef], Field]) -> Iterator[Field]:
        """The columns that stand for `refs` in expressions."""
        return (Field(name(ref), of(ref).type, of(ref).nullable) for ref in refs)


def _array(type_: DataType) -> str:
    return "floats" if type_ == FLOAT64 else "registers"
