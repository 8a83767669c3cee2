"""What puts a tuple beside another: joins, and a lookup in a table. Which columns come out, and in which types keys meet."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from cep.errors import QueryError, meant
from cep.model.contract.columns import check_key, checked_condition, read_by, schema_of
from cep.model.contract.operator import NO_KEY, Operator, Origins, TwoInputs, Wanted
from cep.model.expr import Expr
from cep.model.functions import Order
from cep.model.schema import DataType, Field, Schema
from cep.model.types import listing, promoted
from cep.model.windows import PanedWindow, SizeWindow

Pairs = tuple[tuple[str, str], ...]
"""(column of the left side, column of the right one): equal in every tuple that comes out."""

JOINS = ("inner", "left", "right", "full")


class Matching(Operator):
    """Columns come out: those of the left, then those of the right with `prefix` before their names, without the right column of a
    pair of the same name."""

    on: Pairs
    how: str
    prefix: str

    def joined_schema(self, left: Schema, right: Schema) -> Schema:
        """A column is nullable if its side may be missing; a pair of one name has the value of the side that is there."""
        shared = {a: type_ for (a, b), type_ in zip(self.on, self.key_types(left, right), strict=True) if a == b}
        fields = [_joined_field(f, self.how in ("right", "full") and f.name not in shared) for f in left.fields]
        fields = [replace(f, type=shared[f.name], nullable=self._shared_nullable(f, right)) if f.name in shared else f for f in fields]
        others = [f for f in right.fields if f.name not in shared]
        beside = [replace(_joined_field(f, self.how in ("left", "full")), name=self.prefix + f.name) for f in others]
        for f in beside:
            if f.name in left:
                raise QueryError(
                    f"operator {self.name!r}: both sides have a column {f.name!r}; give a prefix for the right one's, or map one "
                    "to another name",
                    "/prefix",
                )
        return schema_of(self.name, (*fields, *beside), "/prefix")

    def _shared_nullable(self, field: Field, right: Schema) -> bool:
        """NULL equals nothing, so only an unmatched tuple has one."""
        left_alone, right_alone = self.how in ("left", "full"), self.how in ("right", "full")
        return (left_alone and field.nullable) or (right_alone and right[field.name].nullable)

    def key_types(self, left: Schema, right: Schema) -> tuple[DataType, ...]:
        """The type in which each pair of `on` is compared."""
        return tuple(self._key_type(i, left, right) for i in range(len(self.on)))

    def _key_type(self, i: int, left: Schema, right: Schema) -> DataType:
        where, pointer = f"operator {self.name!r}, on", f"/on/{i}"
        a, b = self.on[i]
        for column, schema, side in ((a, left, "left"), (b, right, "right")):
            if column not in schema:
                raise QueryError(
                    f"{where}: no column {column!r} on the {side}{meant(column, schema.names)}; there {listing(schema.names)}", pointer
                )
        type_ = promoted((left[a].type, right[b].type))
        if type_ is None or type_.name == "list":
            types = f"{a!r} is {left[a].type}, {b!r} is {right[b].type}"
            raise QueryError(f"{where}: expected two columns that can be equal; {types}", pointer)
        return type_

    def check_matching(self, hows: tuple[str, ...]) -> None:
        """Raises QueryError: `how` is none of `hows`, or the pairs are too many."""
        if self.how not in hows:
            raise QueryError(f"operator {self.name!r}: how: expected one of {', '.join(hows)}, got {self.how!r}", "/how")
        check_key(self.name, "on", len(self.on))
        for i, pair in enumerate(self.on):
            if pair in self.on[:i]:
                raise QueryError(f"operator {self.name!r}: the pair {pair[0]!r} = {pair[1]!r} stands twice", f"/on/{i}")


def _joined_field(field: Field, may_miss: bool) -> Field:
    return replace(field, nullable=field.nullable or may_miss)


class Joining(Matching, TwoInputs):
    """A tuple of each of two inputs, which meet by their key."""

    @property
    def stateful(self) -> bool:
        return True

    @property
    def key(self) -> tuple[tuple[str, ...], ...]:
        return self.on

    @property
    def why_together(self) -> str:
        return "" if self.on else NO_KEY

    def reads(self, port: int, names: tuple[str, ...], wanted: Wanted) -> Collection[str]:
        prefix = self.prefix if port else ""
        passed = set(wanted([prefix + name for name in names]))
        return {pair[port] for pair in self.on} | {name for name in names if prefix + name in passed}

    def passes(self, column: str) -> tuple[str, ...] | None:
        """Only the fields of the key are the same on both sides; a NULL in place of a side that is missing is not."""
        for left, right in self.on:
            if left == right == column:
                return left, right
            if left == column and self.how in ("inner", "left"):
                return left, right
            if self.prefix + right == column and left != right and self.how in ("inner", "right"):
                return left, right
        return None

    @property
    def keeps_time(self) -> bool:
        return False

    @property
    def origins(self) -> Origins:
        return Origins.FOLDED

    @property
    def files(self) -> tuple[str, ...]:
        return ()


class Conditional(Joining):
    """Only the joined tuples for which `condition` is true come out."""

    condition: Expr | None

    def output_schema(self, *inputs: Schema) -> Schema:
        return checked_condition(self.name, self.joined_schema(*inputs), "condition", self.condition)

    def reads(self, port: int, names: tuple[str, ...], wanted: Wanted) -> Collection[str]:
        tested = read_by([] if self.condition is None else [self.condition])
        return super().reads(port, names, lambda joined: {*wanted(joined), *tested})


class WithoutWindows(Joining):
    """Which tuples meet has nothing to do with windows."""

    @property
    def repeats(self) -> bool:
        return False

    @property
    def everywhere(self) -> int | None:
        return None

    def grain(self, below: int) -> int:
        return 1

    @property
    def windows(self) -> Mapping[str, PanedWindow | SizeWindow]:
        return {}


class InStreamOrder(WithoutWindows):
    """Which tuples meet depends on the order of both streams."""

    def output_schema(self, *inputs: Schema) -> Schema:
        return self.joined_schema(*inputs)

    @property
    def row_order(self) -> Order:
        return Order.SEQUENTIAL

    def reads_origins(self, times: Collection[str]) -> bool:
        return True
