"""Operators taken apart into steps: what one compiled loop can do, and what Arrow does between loops (rule 5.3).

Every expression is typed and flattened. What makes text (casts to text, coalesce and `when` of texts, text constants,
functions of texts) or lists, or reads numbers out of them, becomes a step of its own that adds a hidden column; what is left
computes numbers, bools and timestamps from columns, and compares texts: work for a loop. Names are those of the columns there
at that point; hidden ones begin with "__", which no user's column does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import reduce

from cep.compile.chain.functions import IN_LOOP
from cep.compile.chain.members import as_member
from cep.model.expr import ARITHMETIC, Binary, Call, Cast, ColumnRef, Expr, Literal, Udf, Unary
from cep.model.function_types import SIGNATURES
from cep.model.operators import Filter, Map
from cep.model.schema import BOOL, FLOAT64, INT64, DataType, Field, Schema
from cep.model.types import Typed, can_fail, text_of, typed


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
class KeepRows:
    """Only the rows for which `condition` is true stay; hidden columns go."""

    operator: str
    condition: Typed


@dataclass(frozen=True)
class FailUnless:
    """Rows for which `fits`, never NULL, is false fail."""

    operator: str
    fits: Typed
    reason: str


@dataclass(frozen=True)
class Convert:
    """Arrow's part: adds the column `target`, and the bool column `ok` (did the value fit) if named.

    `tree` is a text literal, a coalesce of texts, a function of texts or lists, or a cast from or to text, of columns and literals.
    A row whose value is too long fails in `operator`.
    """

    target: Field
    tree: Typed
    ok: str | None = None
    operator: str = ""


@dataclass(frozen=True)
class CallUser:
    """A user's part: adds the column `target`, what a function (`tree`, a Udf of columns and literals) makes of each row.

    It is called where the bool column `needed`, if there is one, is true. A row on which it fails fails in the part `where` of the
    operator; or, if the bool column `ok` is named, it is false there. `returns` is what the function is declared to return.
    """

    operator: str
    where: str
    target: Field
    tree: Typed
    returns: Field
    needed: str | None = None
    ok: str | None = None


LoopStep = Assign | Add | KeepRows | FailUnless
ChainStep = LoopStep | Convert | CallUser


@dataclass(frozen=True)
class Lowered:
    """The steps of a chain and the schema of what comes out."""

    steps: tuple[ChainStep, ...]
    schema: Schema


def lower(operators: tuple[Map | Filter, ...], schema: Schema) -> Lowered:
    """Raises QueryError, as `output_schema` does, its pointer relative to the operator's document."""
    steps: list[ChainStep] = []
    for operator in operators:
        output = operator.output_schema(schema)
        lowering = Lowering(operator.name, schema.by_name, steps)
        if isinstance(operator, Map):
            fields = tuple((name, lowering.output(name, expr)) for name, expr in operator.over(schema.names))
            steps.append(Assign(operator.name, fields))
        else:
            steps.append(KeepRows(operator.name, lowering.condition(operator.condition)))
        schema = output
    return Lowered(tuple(steps), schema)


def is_leaf(tree: Typed) -> bool:
    """A column or a literal: nothing to compute."""
    return isinstance(tree.expr, ColumnRef | Literal)


def is_parsed(tree: Typed) -> bool:
    """A cast out of text, or a parse_time, done before the loop: its arguments are the value and whether it fitted."""
    return is_parse(tree) or (isinstance(tree.expr, Cast) and len(tree.args) == 2)


def is_parse(tree: Typed) -> bool:
    """Is it made of text in a format of the query's own?"""
    return isinstance(tree.expr, Call) and tree.expr.function == "parse_time"


def may_fail(tree: Typed) -> bool:
    """Whether computing `tree` may fail a row."""
    if isinstance(tree.expr, Call) and tree.expr.function == "try":
        return False
    return _itself_may_fail(tree) or any(map(may_fail, tree.args))


def _itself_may_fail(tree: Typed) -> bool:
    match tree.expr:
        case Binary(op, _, _):
            return op in ARITHMETIC and tree.type != FLOAT64
        case Unary("-", _) | Call("abs", _):
            return tree.type != FLOAT64
        case Call("truncate" | "fitting" | "parse_time", _) | Udf():
            return True
        case Cast(_, _, try_):
            return not try_ and (is_parsed(tree) or can_fail(tree.args[0].type, tree.type))
    return False


@dataclass
class Lowering:
    """Takes the expressions of one operator over `fields` apart; appends to `steps` what has to come before it.

    `needed`, a condition that is never NULL, goes along with an argument that `and`, `or`, `coalesce` or `when` may not need:
    what of it becomes a step of its own fails only where the condition holds. None: always.

    `tried`, inside of a `try` and None elsewhere, collects what has to be true lest the `try` be NULL: steps there fail no row.
    """

    operator: str
    fields: Mapping[str, Field]
    steps: list[ChainStep]
    where: str = ""
    hidden: int = 0
    tried: list[Typed] | None = None
    made: dict[int, Typed] = field(default_factory=dict)  # by the id of an expression that stands in several places
    same: dict[tuple[object, ...], Typed] = field(default_factory=dict)  # by the function and the columns that it is of

    def output(self, name: str, expr: Expr) -> Typed:
        """The expression of a field of a Map: a text constant is a column too."""
        self.where = f"field {name!r}"
        tree = self._flat(typed(expr, self.fields), None)
        return self._converted(tree, None) if isinstance(tree.expr, Literal) and tree.type.is_bytes else tree

    def condition(self, expr: Expr) -> Typed:
        """The condition of a Filter."""
        self.where = "condition"
        return self._flat(typed(expr, self.fields), None)

    def _flat(self, tree: Typed, needed: Typed | None) -> Typed:
        """`tree` with hidden columns in place of what a loop cannot do."""
        if is_leaf(tree):
            return tree
        match tree.expr:
            case Udf():
                return self._called_by_user(tree, needed)
            case Call("try", _):
                return self._flat_try(tree)
            case Call("parse_time", _):
                return self._parsed(tree, self._flat(tree.args[0], needed))
            case Call(function, _) if function in SIGNATURES and function not in IN_LOOP | {"abs"}:
                return self._called(tree, needed)
            case Call("when", _):
                return self._flat_when(tree, needed)
            case Binary("or", _, _) if (member := as_member(tree)) is not None:
                value, *literals = member.args
                return replace(member, args=(self._flat(value, needed), *literals))
        tree = replace(tree, args=self._flat_arguments(tree, needed))
        if not isinstance(tree.expr, Cast):
            return self._converted(tree, None) if tree.type.is_bytes else tree
        if tree.args[0].type.is_text:
            return self._cast_of_text(tree, needed)
        return self._cast_to_text(tree, needed) if tree.type.is_text else tree

    def _flat_arguments(self, tree: Typed, needed: Typed | None) -> tuple[Typed, ...]:
        flat: list[Typed] = []
        for arg in tree.args:
            flat.append(self._flat(arg, needed))
            needed = _still_needed(tree, flat[-1], needed)
        return tuple(flat)

    def _flat_when(self, tree: Typed, needed: Typed | None) -> Typed:
        flat: list[Typed] = []
        outer = needed
        paired = len(tree.args) // 2 * 2
        for condition, value in zip(tree.args[0:paired:2], tree.args[1:paired:2], strict=True):
            flat.append(self._flat(condition, needed))
            true = _assumed(flat[-1], False)
            flat.append(self._flat(value, _and(needed, true)))
            needed = _and(needed, _negated(true))
        flat += (self._flat(otherwise, needed) for otherwise in tree.args[paired:])
        tree = replace(tree, args=tuple(flat))
        return self._chosen(tree, outer) if tree.type.is_bytes else tree

    def _chosen(self, tree: Typed, needed: Typed | None) -> Typed:
        """A `when` of texts: a loop says which one."""
        paired = len(tree.args) // 2 * 2
        values = (*tree.args[1:paired:2], *tree.args[paired:])
        places = [Typed(Literal(k, INT64), INT64, False) for k in range(len(values))]
        chooser = [part for pair in zip(tree.args[0:paired:2], places, strict=False) for part in pair]
        which = self._leaf(Typed(tree.expr, INT64, len(tree.args) == paired, (*chooser, *places[paired // 2 :])), needed)
        nullable = tree.nullable or any(arg.nullable for arg in (which, *values))
        return self._converted(replace(tree, expr=CHOSEN, args=(which, *values), nullable=nullable), None)

    def _flat_try(self, tree: Typed) -> Typed:
        outer, self.tried = self.tried, []
        arg = self._flat(tree.args[0], None)
        fits, self.tried = self.tried, outer
        if not arg.type.is_bytes:
            return replace(tree, args=(arg, *fits))
        if not fits:
            return arg
        fit = _assumed(_tried(reduce(_and, fits)), False)
        return self._converted(replace(tree, expr=IF_NEEDED, args=(self._leaf(fit, None), arg)), None)

    def _called(self, tree: Typed, needed: Typed | None) -> Typed:
        """A function between the loops."""
        written = id(tree.expr)
        if written in self.made:
            return self.made[written]
        tree = _as_part(tree)
        args = tuple(self._leaf(self._flat(arg, needed), needed) for arg in tree.args)
        nullable = tree.nullable or (not _is_total(tree) and any(arg.nullable for arg in args))
        made = self._made_once(replace(tree, args=args, nullable=nullable))
        if not any(map(may_fail, tree.args)):  # else it depends on where it is needed
            self.made[written] = made
        return made

    def _made_once(self, tree: Typed) -> Typed:
        """The column of a function of leaves; the same function of the same leaves is one column, wherever it is written."""
        assert isinstance(tree.expr, Call)
        key = (tree.expr.function, *((repr(arg.expr), arg.type) for arg in tree.args))
        if key not in self.same:
            self.same[key] = self._converted(tree, None)
        return self.same[key]

    def _called_by_user(self, tree: Typed, needed: Typed | None) -> Typed:
        """A user's function, called only where it is needed: it may fail."""
        assert isinstance(tree.expr, Udf)
        args = tuple(self._leaf(self._flat(arg, needed), needed) for arg in tree.args)
        nullable = tree.expr.nullable or needed is not None or any(arg.nullable for arg in args)
        where = None if needed is None else _name_of(self._leaf(needed, None))
        target, returns = Field(self._name(), tree.type, nullable), Field("", tree.type, tree.expr.nullable)
        ok = None if self.tried is None else self._name()
        self.steps.append(CallUser(self.operator, self.where, target, replace(tree, args=args), returns, where, ok))
        if self.tried is not None and ok is not None:
            self.tried.append(Typed(ColumnRef(ok), BOOL, False))
        return Typed(ColumnRef(target.name), target.type, target.nullable)

    def _leaf(self, tree: Typed, needed: Typed | None) -> Typed:
        """`tree`, flat, as a column of its own, which fails only where it is needed."""
        if is_leaf(tree):
            return tree
        failing = may_fail(tree)
        if needed is not None and failing:
            tree = Typed(IF_NEEDED, tree.type, True, (needed, tree))
        if self.tried is not None and failing:
            self.tried.append(_negated(_is_null(_tried(_is_null(tree)))))
            tree = _tried(tree)
        column = Typed(ColumnRef(self._name()), tree.type, tree.nullable)
        self.steps.append(Add(self.operator, self.where, _name_of(column), tree))
        return column

    def _cast_of_text(self, tree: Typed, needed: Typed | None) -> Typed:
        text = tree.args[0]
        if not can_fail(text.type, tree.type):
            return _relabelled(text, tree.type)
        if tree.type.is_text:
            return self._checked(tree, needed)
        return self._parsed(tree, text)

    def _parsed(self, tree: Typed, text: Typed) -> Typed:
        """What is said in `text`; it fails where the loop uses it, maybe nowhere."""
        ok = self._name()
        value = self._converted(replace(tree, args=(text, *tree.args[1:]), nullable=text.nullable), ok)
        return replace(tree, nullable=tree.nullable or text.nullable, args=(value, Typed(ColumnRef(ok), BOOL, False)))

    def _cast_to_text(self, tree: Typed, needed: Typed | None) -> Typed:
        arg = self._leaf(tree.args[0], needed)
        tree = replace(tree, args=(arg,), nullable=tree.nullable or arg.nullable)
        return self._checked(tree, needed) if can_fail(arg.type, tree.type) else self._converted(tree, None)

    def _checked(self, tree: Typed, needed: Typed | None) -> Typed:
        """A cast to text that may not fit."""
        assert isinstance(tree.expr, Cast)
        ok = self._name()
        column = self._converted(tree, ok)
        if not tree.expr.try_:
            fits = Typed(ColumnRef(ok), BOOL, False)
            fits = fits if needed is None else _either(_negated(needed), fits)
            if self.tried is not None:
                self.tried.append(fits)
                return column
            self.steps.append(FailUnless(self.operator, fits, f"{self.where}: value does not fit in {text_of(tree.expr)}"))
        return column

    def _converted(self, tree: Typed, ok: str | None) -> Typed:
        target = Field(self._name(), tree.type, tree.nullable)
        self.steps.append(Convert(target, tree, ok, self.operator))
        return Typed(ColumnRef(target.name), target.type, target.nullable)

    def _name(self) -> str:
        self.hidden += 1
        return f"__{self.hidden}"


#: A hidden function: its second argument where the first is true, else NULL.
IF_NEEDED = Call("if_needed", ())
#: Another: of the arguments behind the first, the one whose number that is.
CHOSEN = Call("chosen", ())
#: Another: of a text, a literal separator and a literal number, the part between separators that has that number from 0, or NULL.
PART = Call("part", ())


def _still_needed(tree: Typed, arg: Typed, needed: Typed | None) -> Typed | None:
    """When what follows `arg` in `tree` has to be known: not if it decides."""
    match tree.expr:
        case Call("coalesce", _):
            opened = _is_null(arg)
        case Binary("and", _, _):
            opened = _assumed(arg, True)
        case Binary("or", _, _):
            opened = _negated(_assumed(arg, False))
        case _:
            return needed
    return _and(needed, opened)


def _and(a: Typed | None, b: Typed) -> Typed:
    return b if a is None else Typed(Binary("and", a.expr, b.expr), BOOL, False, (a, b))


def _tried(tree: Typed) -> Typed:
    return Typed(Call("try", (tree.expr,)), tree.type, True, (tree,))


def _is_null(tree: Typed) -> Typed:
    return Typed(Unary("is_null", tree.expr), BOOL, False, (tree,))


def _is_total(tree: Typed) -> bool:
    return isinstance(tree.expr, Call) and tree.expr is not PART and SIGNATURES[tree.expr.function].total


def _as_part(tree: Typed) -> Typed:
    """An element of what a text is split into is found in the text: the list is not made."""
    match tree.expr, tree.args:
        case Call("element", _), (Typed(Call("split", _), _, _, (text, separator)), Typed(Literal(int()), _, _, _) as place):
            return replace(tree, expr=PART, args=(text, separator, place))
    return tree


def _assumed(tree: Typed, value: bool) -> Typed:
    """`tree`, or `value` where it is NULL."""
    other = Typed(Literal(value, BOOL), BOOL, False)
    return Typed(Call("coalesce", (tree.expr, other.expr)), BOOL, False, (tree, other))


def _negated(tree: Typed) -> Typed:
    return Typed(Unary("not", tree.expr), BOOL, False, (tree,))


def _either(a: Typed, b: Typed) -> Typed:
    return Typed(Binary("or", a.expr, b.expr), BOOL, False, (a, b))


def _name_of(tree: Typed) -> str:
    assert isinstance(tree.expr, ColumnRef)
    return tree.expr.name


def _relabelled(leaf: Typed, type_: DataType) -> Typed:
    """Text taken for text of another type: the same bytes."""
    if not isinstance(leaf.expr, Literal):
        return replace(leaf, type=type_)
    value = leaf.expr.value
    encoded = value.encode() if isinstance(value, str) and type_.name == "binary" else value
    return Typed(Literal(encoded, type_), type_, leaf.nullable)
