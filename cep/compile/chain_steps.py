"""Operators taken apart into steps: what one compiled loop can do, and what Arrow does between loops (DESIGN 5.3).

Every expression is typed and flattened. What makes text (casts to text, coalesce of texts, text constants) or reads
numbers out of text becomes a step of its own that adds a hidden column; what is left computes numbers, bools and
timestamps from columns, and compares texts: work for a loop. Names are those of the columns there at that point; hidden
ones begin with "__", which no user's column does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cep.model.expr import Cast, Column, Expr, Literal
from cep.model.operators import Filter, Map
from cep.model.schema import BOOL, DataType, Field, Schema
from cep.plan.types import Typed, can_fail, operator_schema, text_of, typed


@dataclass(frozen=True)
class Assign:
    """Columns computed from columns, which replace what is there."""

    operator: str
    fields: tuple[tuple[str, Typed], ...]


@dataclass(frozen=True)
class Add:
    """One hidden column more, computed from columns, for the part `where` of the operator."""

    operator: str
    where: str
    name: str
    tree: Typed


@dataclass(frozen=True)
class Keep:
    """Only the rows for which `condition` is true stay; hidden columns go."""

    operator: str
    condition: Typed


@dataclass(frozen=True)
class Check:
    """Rows for which the column `ok` is false fail."""

    operator: str
    ok: str
    reason: str


@dataclass(frozen=True)
class Convert:
    """Arrow's part: adds the column `target`, and the bool column `ok` (did the value fit) if named.

    `tree` is a text literal, a coalesce of texts, or a cast from or to text, of columns and literals.
    """

    target: Field
    tree: Typed
    ok: str | None = None


LoopStep = Assign | Add | Keep | Check
Step = LoopStep | Convert


@dataclass(frozen=True)
class Lowered:
    """The steps of a chain and the schema of what comes out."""

    steps: tuple[Step, ...]
    schema: Schema


def lower(operators: tuple[Map | Filter, ...], schema: Schema) -> Lowered:
    """Raises QueryError, as `operator_schema` does, its pointer relative to the operator's document."""
    steps: list[Step] = []
    for operator in operators:
        output = operator_schema(operator, (schema,))
        lowering = _Lowering(operator.name, schema.by_name, steps)
        if isinstance(operator, Map):
            fields = tuple((name, lowering.output(name, expr)) for name, expr in operator.fields)
            steps.append(Assign(operator.name, fields))
        else:
            steps.append(Keep(operator.name, lowering.flat(typed(operator.condition, schema.by_name), "condition")))
        schema = output
    return Lowered(tuple(steps), schema)


def is_leaf(tree: Typed) -> bool:
    """A column or a literal: nothing to compute."""
    return isinstance(tree.expr, Column | Literal)


@dataclass
class _Lowering:
    """Takes the expressions of one operator apart; appends to `steps` what has to come before it."""

    operator: str
    fields: Mapping[str, Field]
    steps: list[Step]
    hidden: int = 0

    def output(self, name: str, expr: Expr) -> Typed:
        """The expression of a field of a Map: a text constant is a column too."""
        where = f"field {name!r}"
        tree = self.flat(typed(expr, self.fields), where)
        return self._convert(tree, where) if isinstance(tree.expr, Literal) and tree.type.is_text else tree

    def flat(self, tree: Typed, where: str) -> Typed:
        """`tree` with hidden columns in place of what a loop cannot do."""
        if is_leaf(tree):
            return tree
        args = tuple(self.flat(arg, where) for arg in tree.args)
        if not tree.type.is_text and not (isinstance(tree.expr, Cast) and args[0].type.is_text):
            return replace(tree, args=args)
        if isinstance(tree.expr, Cast) and args[0].type.is_text and not can_fail(args[0].type, tree.type):
            return _relabelled(args[0], tree.type)
        return self._convert(replace(tree, args=tuple(self._materialised(arg, where) for arg in args)), where)

    def _materialised(self, arg: Typed, where: str) -> Typed:
        if is_leaf(arg):
            return arg
        name = self._name()
        self.steps.append(Add(self.operator, where, name, arg))
        return Typed(Column(name), arg.type, arg.nullable)

    def _convert(self, tree: Typed, where: str) -> Typed:
        if not isinstance(tree.expr, Cast) or not can_fail(tree.args[0].type, tree.type):
            return self._converted(tree, tree.nullable, None)
        ok = self._name()
        if not tree.type.is_text:  # a cast out of text fails where a loop uses it, maybe nowhere: and, or, coalesce
            target = self._converted(tree, tree.args[0].nullable, ok)
            return replace(tree, args=(target, Typed(Column(ok), BOOL, False)))
        target = self._converted(tree, tree.nullable, ok)
        if not tree.expr.try_:
            self.steps.append(Check(self.operator, ok, f"{where}: value does not fit in {text_of(tree.expr)}"))
        return target

    def _converted(self, tree: Typed, nullable: bool, ok: str | None) -> Typed:
        target = Field(self._name(), tree.type, nullable)
        self.steps.append(Convert(target, tree, ok))
        return Typed(Column(target.name), target.type, target.nullable)

    def _name(self) -> str:
        self.hidden += 1
        return f"__{self.hidden}"


def _relabelled(leaf: Typed, type_: DataType) -> Typed:
    """Text taken for text of another type: the same bytes."""
    if not isinstance(leaf.expr, Literal):
        return replace(leaf, type=type_)
    value = leaf.expr.value
    encoded = value.encode() if isinstance(value, str) and type_.name == "binary" else value
    return Typed(Literal(encoded, type_), type_, leaf.nullable)
