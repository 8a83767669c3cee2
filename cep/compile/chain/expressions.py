"""Expressions as lines of a loop's source: what is computed for row i, and what makes it fail.

How to read it:
1. `Writer.write` turns a typed expression into lines and returns a `Value`: the Python expression for it, and the one
   for its being not NULL. Code for NULL is written for nullable expressions only.
2. What may fail is checked at its place: the row is noted with the number of the site, and the loop goes on with the
   next. `and`, `or` and `coalesce` put an argument that may fail under an `if`, so that it fails only where it is
   needed; arguments that cannot fail are always computed, which leaves the loop without branches. `when` likewise. Under
   `try` what fails leaves a loop of one turn, and nothing is noted.
3. Literals are not in the source, only their places among the loop's arguments.
4. A run of sums of integers with literals of one sign (`Sums`) is one sum and one check: if any of it overflows the last one does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cep.compile.chain.functions import OF_FLOATS, OF_INSTANTS, OF_NUMBERS, OF_TEXTS
from cep.compile.chain.members import members_of, texts_of
from cep.compile.chain.steps import is_parsed, may_fail
from cep.model.expr import ARITHMETIC, COMPARISON, Binary, Call, Cast, ColumnRef, Expr, Literal, Unary
from cep.model.schema import BOOL, FLOAT64, INT32, INT64, UNIT_US, DataType, Field
from cep.model.types import Typed, literal_value, promoted, text_of

_FLOAT = {
    "+": "{a} + {b}",
    "-": "{a} - {b}",
    "*": "{a} * {b}",
    "/": "{a} / {b}",
    "//": "float_quotient({a}, {b})",
    "%": "float_remainder({a}, {b})",
}
#: operator -> (what it computes, (what makes it fail, the reason)...)
_INTEGER: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "+": ("wrapped_sum({a}, {b})", (("sum_overflows({a}, {b})", "integer overflow"),)),
    "-": ("wrapped_difference({a}, {b})", (("difference_overflows({a}, {b})", "integer overflow"),)),
    "*": ("wrapped_product({a}, {b})", (("product_overflows({a}, {b})", "integer overflow"),)),
    "//": (
        "quotient({a}, {b})",
        (("{b} == 0", "integer division by zero"), ("quotient_overflows({a}, {b})", "integer overflow")),
    ),
    "%": ("remainder({a}, {b})", (("{b} == 0", "integer division by zero"),)),
}
#: comparison -> by the machine's own order, and by `equal` and `less` of another total order
_COMPARE = {
    "=": ("{a} == {b}", "{kind}_equal({a}, {b})"),
    "!=": ("{a} != {b}", "not {kind}_equal({a}, {b})"),
    "<": ("{a} < {b}", "{kind}_less({a}, {b})"),
    "<=": ("{a} <= {b}", "not {kind}_less({b}, {a})"),
    ">": ("{a} > {b}", "{kind}_less({b}, {a})"),
    ">=": ("{a} >= {b}", "not {kind}_less({a}, {b})"),
}
LOOP_DEPTH = 2
"""Of the lines right in the loop, under no condition."""

_ZERO = {"bool": "False", "float64": "float64(0.0)"}


@dataclass(frozen=True)
class Value:
    """A value in the loop, and whether it is not NULL: Python expressions that cost nothing to repeat.

    `valid` None means never NULL. `column` names the loop's input that it is, unchanged.
    """

    code: str
    type: DataType
    valid: str | None = None
    column: str | None = None


@dataclass(frozen=True)
class FailureSite:
    """A place where rows fail."""

    operator: str
    reason: str


@dataclass
class Sums:
    """`base` plus literals of one sign, one after the other, up to `code`; whether that overflows is not checked yet.

    `steps`: (what holds the sum of the literals so far, the site that fails if it is too much).
    """

    base: str
    valid: str | None
    code: str = ""
    total: int = 0
    steps: list[tuple[str, int]] = field(default_factory=list)

    def takes(self, operand: Value, amount: int) -> bool:
        same_sign = self.total == 0 or amount == 0 or (self.total > 0) == (amount > 0)
        return (operand.code, operand.valid) == (self.code, self.valid) and same_sign and abs(self.total + amount) < 2**63


@dataclass
class Writer:
    """Writes the body of one loop: a method for each kind of expression, since all of them write into the same lines.

    Args:
        fields: the columns the loop may read.
        there: the columns as they are at the present place, by name.
        loaded: the columns read so far, in the order of the loop's arguments.
        literals: by kind, in the order of appearance.
        operator, where: named by the failures of what is written next.
        functions: whether it calls any of `cep.compile.chain.scalars`.
    """

    fields: Mapping[str, Field]
    there: dict[str, Value] = field(default_factory=dict)
    loaded: dict[str, Value] = field(default_factory=dict)
    literals: dict[str, list[Any]] = field(default_factory=lambda: {"integer": [], "float": [], "text": [], "array": []})
    lines: list[str] = field(default_factory=list)
    sites: list[FailureSite] = field(default_factory=list)
    operator: str = ""
    where: str = ""
    depth: int = LOOP_DEPTH
    names: int = 0
    functions: bool = False
    tries: int = 0  # around what is written next
    sums: Sums | None = None  # whose check comes before anything else is written
    unchecked: list[str] = field(default_factory=list)  # the lines without the checks of sums
    guards: list[str] | None = field(default_factory=list)  # of a row: negative where a sum overflows; None: it may fail otherwise

    def __post_init__(self) -> None:
        self.there = {name: Value("", f.type, column=name) for name, f in self.fields.items()}

    # --- lines ---

    def line(self, text: str) -> None:
        self._check_sums()
        self._put(text)

    def _put(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)
        self.unchecked.append(self.lines[-1])

    def _set(self, code: str) -> str:
        """A new variable that holds `code`."""
        name = self._name()
        self.line(f"{name} = {code}")
        return name

    def _name(self) -> str:
        self.names += 1
        return f"v{self.names}"

    def fail_if(self, valid: str | None, condition: str, reason: str) -> None:
        if self.tries:
            self.line(_if(valid, condition))
            self.line("    break")
            return
        self._check_sums()
        self.guards = None
        self._fail(valid, condition, self._site(reason))

    def _site(self, reason: str) -> int:
        self.sites.append(FailureSite(self.operator, reason))
        return len(self.sites) - 1

    def _fail(self, valid: str | None, condition: str, site: int, earlier: Sequence[tuple[str, int]] = ()) -> None:
        """`earlier`: conditions under which it has failed before, the latest first."""
        lines = [_if(valid, condition), "    failed_rows[failed] = i", f"    failed_sites[failed] = {site}"]
        for condition, site in earlier:
            lines += [f"    if {condition}:", f"        failed_sites[failed] = {site}"]
        self.lines += ["    " * self.depth + line for line in (*lines, "    failed += 1", "    continue")]

    def _check_sums(self) -> None:
        sums, self.sums = self.sums, None
        if sums is not None:
            (last, site), *earlier = ((f"sum_overflows({sums.base}, {total})", site) for total, site in reversed(sums.steps))
            self._fail(sums.valid, last, site, earlier)
            read = any(value.code == sums.base for value in self.loaded.values())
            if read and self.guards is not None:
                self.guards.append(f"sum_excess({sums.base}, {sums.steps[-1][0]})")
            else:
                self.guards = None

    def _both(self, a: str | None, b: str | None) -> str | None:
        """The validity of what is NULL if one of two is."""
        if a is None or b is None or a == b:
            return a or b
        return self._set(f"{a} & {b}")

    # --- expressions ---

    def write(self, tree: Typed) -> Value:
        match tree.expr:
            case ColumnRef(name):
                value = self.there[name]
                return replace(value if value.column is None else self.load(value.column), type=tree.type)
            case Literal():
                return self._literal(tree.expr)
            case Binary(op, _, _) if op in ARITHMETIC:
                return self._arithmetic(op, tree)
            case Binary(op, _, _) if op in COMPARISON:
                return self._comparison(op, tree)
            case Binary(op, _, _):
                return self._logic(op, *tree.args)
            case Unary(op, _):
                return self._unary(op, tree)
            case Cast():
                return self._parsed(tree) if is_parsed(tree) else self._cast(tree)
            case Call("parse_time", _):
                return self._parsed(tree)
            case Call("now", _):
                return Value("now", tree.type)
            case Call("abs", _):
                return self._magnitude(tree)
            case Call("if_needed", _):
                return self._if_needed(*tree.args)
            case Call("coalesce", _):
                return self._coalesce(tree)
            case Call("when", _):
                return self._chosen(tree) if any(map(may_fail, tree.args)) else self._selected(tree)
            case Call("try", _):
                return self._tried(tree)
            case Call("member", _):
                return self._member(tree)
            case Call("fitting", (given,)):
                return self._fitting(tree, given)
            case Call(function, _):
                self.functions = True
                return self._function(function, tree)
        raise TypeError(f"not an expression: {tree.expr!r}")

    def load(self, column: str) -> Value:
        """Row i of an input column."""
        if column not in self.loaded:
            k, f = len(self.loaded), self.fields[column]
            code = f"(c{k}[i] != 0)" if f.type == BOOL else f"c{k}[i]"
            code = f"data{k}, starts{k}[i], c{k}[i]" if f.type.is_bytes else code
            self.loaded[column] = Value(code, f.type, f"(valid{k}[i] != 0)" if f.nullable else None, column)
        return self.loaded[column]

    def _literal(self, literal: Literal) -> Value:
        value = literal_value(literal)
        valid = "False" if value is None else None
        if literal.type.is_text:
            name = self._new_literal("text", value or b"")
            return Value(f"{name}, 0, {name}.size", literal.type, valid)
        if value is None:
            return Value(_ZERO.get(literal.type.name, "int64(0)"), literal.type, valid)
        kind = "float" if literal.type == FLOAT64 else "integer"
        name = self._new_literal(kind, value)
        return Value(f"({name} != 0)" if literal.type == BOOL else name, literal.type)

    def _new_literal(self, kind: str, value: bool | int | float | bytes | np.ndarray) -> str:
        self.literals[kind].append(value)
        return f"{kind}{len(self.literals[kind]) - 1}"

    def _fitting(self, tree: Typed, given: Expr) -> Value:
        """The first argument; the row fails where one of the others is false. `given`: the expression that it was."""
        value, *fits = tree.args
        for each in fits:
            self.fail_if(None, f"not {self.write(each).code}", f"{self.where}: {text_of(given)} fails")
        return self.write(value)

    def _member(self, tree: Typed) -> Value:
        """Does the first argument equal one of the others?"""
        self.functions = True
        value, literals = self.write(tree.args[0]), tree.args[1:]
        common = promoted((value.type, literals[0].type))
        assert common is not None
        if common.is_text:  # where a NULL's bytes would be is not known
            text, ends = texts_of(literals)
            there = f"text_member({value.code}, {self._new_literal('text', text)}, {self._new_literal('array', ends)})"
            code = there if value.valid is None else f"{value.valid} and {there}"
            return Value(self._set(code), BOOL, value.valid)
        kind = "float" if common == FLOAT64 else "integer"
        members = self._new_literal("array", members_of(literals, common))
        return Value(self._set(f"{kind}_member({_as(value, common)}, {members})"), BOOL, value.valid)

    def _arithmetic(self, op: str, tree: Typed) -> Value:
        left, right = (self.write(arg) for arg in tree.args)
        valid = self._both(left.valid, right.valid)
        if tree.type == FLOAT64:
            code = _FLOAT[op].format(a=_as(left, FLOAT64), b=_as(right, FLOAT64))
            return Value(self._set(code), FLOAT64, valid)
        amount = _amount(op, tree.args)
        if amount is not None and left.type == INT64 and self.depth == LOOP_DEPTH and not self.tries:
            return self._summed(left, amount, self._reason("integer overflow", tree))
        operands = {"a": _as(left, INT64), "b": _as(right, INT64)}
        code, checks = _INTEGER[op]
        for condition, reason in checks:
            self.fail_if(valid, condition.format(**operands), self._reason(reason, tree))
        return Value(self._set(code.format(**operands)), tree.type, valid)

    def _summed(self, operand: Value, amount: int, reason: str) -> Value:
        """`operand` plus a literal."""
        if self.sums is None or not self.sums.takes(operand, amount):
            self._check_sums()
            self.sums = Sums(operand.code, operand.valid)
        sums = self.sums
        sums.total += amount
        sums.steps.append((self._new_literal("integer", sums.total), self._site(reason)))
        sums.code = self._name()
        self._put(f"{sums.code} = wrapped_sum({sums.base}, {sums.steps[-1][0]})")
        return Value(sums.code, INT64, operand.valid)

    def _reason(self, reason: str, tree: Typed) -> str:
        return f"{self.where}: {reason} in {text_of(tree.expr)}"

    def _comparison(self, op: str, tree: Typed) -> Value:
        left, right = (self.write(arg) for arg in tree.args)
        common = promoted((left.type, right.type))
        assert common is not None
        kind = "text" if common.is_text else "float" if common == FLOAT64 else ""
        operands = {"a": _as(left, common), "b": _as(right, common)}
        code = _COMPARE[op][bool(kind)].format(kind=kind, **operands)
        valid = self._both(left.valid, right.valid)
        if common.is_text and valid is not None:  # where a NULL's bytes would be is not known
            code = f"{valid} and {code}"
        return Value(self._set(code), BOOL, valid)

    def _unary(self, op: str, tree: Typed) -> Value:
        arg = self.write(tree.args[0])
        if op == "is_null":
            return Value("False" if arg.valid is None else f"(not {arg.valid})", BOOL)
        if op == "not":
            return Value(self._set(f"not {arg.code}"), BOOL, arg.valid)
        if tree.type == FLOAT64:
            return Value(self._set(f"-{arg.code}"), FLOAT64, arg.valid)
        self.fail_if(arg.valid, f"is_least({arg.code})", self._reason("integer overflow", tree))
        return Value(self._set(f"wrapped_difference(int64(0), {_as(arg, INT64)})"), INT64, arg.valid)

    def _magnitude(self, tree: Typed) -> Value:
        arg = self.write(tree.args[0])
        if tree.type == FLOAT64:
            return Value(self._set(f"abs({arg.code})"), FLOAT64, arg.valid)
        self.fail_if(arg.valid, f"is_least({arg.code})", self._reason("integer overflow", tree))
        return Value(self._set(f"wrapped_magnitude({_as(arg, INT64)})"), INT64, arg.valid)

    def _logic(self, op: str, left: Typed, right: Typed) -> Value:
        """Three-valued. The left side decides alone if it is false (and) or true (or)."""
        a = self.write(left)
        if not may_fail(right):
            return self._combined(op, a, self.write(right))
        nullable = left.nullable or right.nullable
        code, valid = self._set(a.code), self._set(a.valid or "True") if nullable else None
        decided = code if op == "or" else f"not {code}"
        self.line(f"if not ({decided}):" if a.valid is None else f"if not ({a.valid} and {decided}):")
        self.depth += 1
        both = self._combined(op, a, self.write(right))
        self.line(f"{code} = {both.code}")
        if valid is not None:
            self.line(f"{valid} = {both.valid or 'True'}")
        self.depth -= 1
        return Value(code, BOOL, valid)

    def _combined(self, op: str, a: Value, b: Value) -> Value:
        code = self._set(f"{a.code} {'|' if op == 'or' else '&'} {b.code}")
        if a.valid is None and b.valid is None:
            return Value(code, BOOL)
        # Known if both sides are, or if one of them is and decides.
        sides = ((value.valid, value.code if op == "or" else f"(not {value.code})") for value in (a, b))
        deciding = (decides if valid is None else f"({valid} & {decides})" for valid, decides in sides)
        both = self._both(a.valid, b.valid)
        return Value(code, BOOL, self._set(" | ".join((str(both), *deciding))))

    def _if_needed(self, needed: Typed, other: Typed) -> Value:
        condition = self.write(needed).code
        nothing = self._literal(Literal(None, other.type))
        code, valid = self._set(nothing.code), self._set("False")
        self._replace(f"if {condition}:", code, valid, other, other.type)
        return Value(code, other.type, valid)

    def _replace(self, head: str, code: str, valid: str, other: Typed, type_: DataType) -> None:
        """Under `head`, the variables take the value of `other`."""
        self.line(head)
        self.depth += 1
        value = self.write(other)
        self.line(f"{code} = {_as(value, type_)}")
        self.line(f"{valid} = {value.valid or 'True'}")
        self.depth -= 1

    def _coalesce(self, tree: Typed) -> Value:
        first, *others = tree.args
        value = self.write(first)
        if _as(value, tree.type) != value.code:
            value = Value(_as(value, tree.type), tree.type, value.valid)
        value = replace(value, type=tree.type)
        for other in others:
            if value.valid is None:
                break  # what follows is never needed
            value = self._alternative(value, other)
        return value

    def _alternative(self, value: Value, other: Typed) -> Value:
        code, valid = self._set(value.code), self._set(str(value.valid))
        if not may_fail(other):
            b = self.write(other)
            code = self._set(f"{code} if {valid} else {_as(b, value.type)}")
            return Value(code, value.type, None if b.valid is None else self._set(f"{valid} | {b.valid}"))
        self._replace(f"if not {valid}:", code, valid, other, value.type)
        return Value(code, value.type, valid if other.nullable else None)

    # --- when, try ---

    def _selected(self, tree: Typed) -> Value:
        """A `when` of which nothing can fail: without a branch."""
        parts = [self.write(arg) for arg in tree.args]
        paired = len(parts) // 2 * 2
        value = parts[-1] if len(parts) > paired else self._literal(Literal(None, tree.type))
        code, valid = _as(value, tree.type), value.valid
        for condition, value in zip(parts[paired - 2 :: -2], parts[paired - 1 :: -2], strict=False):
            true = self._set(_is_true(condition))
            code = self._set(f"{_as(value, tree.type)} if {true} else {code}")
            if valid is not None or value.valid is not None:
                valid = self._set(f"{value.valid or 'True'} if {true} else {valid or 'True'}")
        return Value(code, tree.type, valid)

    def _chosen(self, tree: Typed) -> Value:
        """A `when` that computes no more than it needs."""
        code, valid = self._set(self._literal(Literal(None, tree.type)).code), self._set("False")
        still = self._set("True")
        paired = len(tree.args) // 2 * 2
        for condition, value in zip(tree.args[0:paired:2], tree.args[1:paired:2], strict=True):
            self.line(f"if {still}:")
            self.depth += 1
            true = self._set(_is_true(self.write(condition)))
            self.line(f"{still} = not {true}")
            self._replace(f"if {true}:", code, valid, value, tree.type)
            self.depth -= 1
        for otherwise in tree.args[paired:]:
            self._replace(f"if {still}:", code, valid, otherwise, tree.type)
        return Value(code, tree.type, valid if tree.nullable else None)

    def _tried(self, tree: Typed) -> Value:
        """The first argument; NULL where it fails, or where one of the others is not true."""
        arg, *fits = tree.args
        if not fits and not may_fail(arg):
            return self.write(arg)
        code, valid = self._set(self._literal(Literal(None, tree.type)).code), self._set("False")
        self.line("while True:")
        self.depth, self.tries = self.depth + 1, self.tries + 1
        for each in fits:
            self.fail_if(None, f"not {self.write(each).code}", "")
        value = self.write(arg)
        self.line(f"{code} = {_as(value, tree.type)}")
        self.line(f"{valid} = {value.valid or 'True'}")
        self.line("break")
        self.depth, self.tries = self.depth - 1, self.tries - 1
        return Value(code, tree.type, valid)

    # --- functions ---

    def _function(self, name: str, tree: Typed) -> Value:
        args = [self.write(arg) for arg in tree.args]
        valid = args[0].valid
        for arg in args[1:]:
            valid = self._both(valid, arg.valid)
        if name in OF_TEXTS:  # where a NULL's bytes would be is not known
            code = OF_TEXTS[name].format(*(arg.code for arg in args))
            return Value(self._set(code if valid is None else f"{valid} and {code}"), BOOL, valid)
        if name in OF_FLOATS:
            return Value(self._set(OF_FLOATS[name].format(*(_as(arg, FLOAT64) for arg in args))), tree.type, valid)
        if name in OF_INSTANTS:
            return Value(self._set(OF_INSTANTS[name].format(args[0].code)), INT64, valid)
        if name == "truncate":
            return self._truncated(tree, args, valid)
        form = OF_NUMBERS[name][tree.type == FLOAT64]
        code, *others = (_as(arg, tree.type) for arg in args)
        if name not in ("greatest", "least"):
            return Value(self._set(form.format(code, *others)), tree.type, valid)
        for other in others:
            code = self._set(form.format(code, other))
        return Value(code, tree.type, valid)

    def _truncated(self, tree: Typed, args: list[Value], valid: str | None) -> Value:
        t, unit = (arg.code for arg in args)
        self.fail_if(valid, f"difference_overflows({t}, {t} % {unit})", self._reason("integer overflow", tree))
        return Value(self._set(f"whole_multiple({t}, {unit})"), tree.type, valid)

    # --- casts ---

    def _cast(self, tree: Typed) -> Value:
        arg = self.write(tree.args[0])
        code, failure = _cast_code(arg, tree.type)
        if code == arg.code and failure is None:
            return replace(arg, type=tree.type)
        if failure is None:
            return Value(self._set(code), tree.type, arg.valid)
        return self._checked(Value(self._set(code), tree.type, arg.valid), failure, tree)

    def _parsed(self, tree: Typed) -> Value:
        value, ok = (self.write(arg) for arg in tree.args)
        return self._checked(value, f"not {ok.code}", tree)

    def _checked(self, value: Value, failure: str, tree: Typed) -> Value:
        """The result of a cast or a parse_time, which is NULL or fails the row where it does not fit."""
        if not (isinstance(tree.expr, Cast) and tree.expr.try_):
            self.fail_if(value.valid, failure, self._reason("value does not fit", tree))
            return value
        fits = f"not ({failure})"
        valid = self._set(fits if value.valid is None else f"{value.valid} and {fits}")
        return Value(value.code, tree.type, valid)


def _if(valid: str | None, condition: str) -> str:
    return f"if {condition}:" if valid is None else f"if {valid} and ({condition}):"


def _amount(op: str, args: Sequence[Typed]) -> int | None:
    """The integer literal that is added to the first argument, or taken from it; None: it is something else."""
    literal = args[1].expr
    if op not in ("+", "-") or not isinstance(literal, Literal) or args[1].type not in (INT64, INT32):
        return None
    value = literal_value(literal)
    return (value if op == "+" else -value) if isinstance(value, int) and value > -(2**63) else None


def _is_true(value: Value) -> str:
    return value.code if value.valid is None else f"({value.valid} & {value.code})"


def _as(value: Value, type_: DataType) -> str:
    """The code of `value` in the machine's type of `type_`: what widens without loss, or integer to float."""
    if type_ == FLOAT64 and value.type != FLOAT64:
        return f"float64({value.code})"
    if type_ == INT64 and value.type != INT64:
        return f"int64({value.code})"
    return value.code


def _cast_code(value: Value, target: DataType) -> tuple[str, str | None]:
    """The code of a cast between types that are no text, and of its failure if it has one."""
    a, source = value.code, value.type
    match source.name, target.name:
        case "timestamp", "int32" | "int64":
            return _instant_to_int(a, source.unit, target)
        case "int32" | "int64", "timestamp":
            return _int_to_instant(_as(value, INT64), source, target.unit)
        case "float64", "int32":
            return f"int32(float_to_int({a}))", f"float_to_int32_fails({a})"
        case "float64", "int64":
            return f"float_to_int({a})", f"float_to_int64_fails({a})"
        case "int64", "int32":
            return f"int32({a})", f"int_to_int32_fails({a})"
        case (one, other) if one == other:
            return a, None
        case _, "bool":
            return f"{a} != 0", None
        case _, "float64":
            return f"float64({a})", None
    return f"int64({a})", None


def _int_to_instant(a: str, source: DataType, unit: str) -> tuple[str, str | None]:
    if unit == "us":
        return a, None
    if unit == "ns":
        return f"{a} // 1000", f"{a} % 1000 != 0"
    failure = f"product_overflows({a}, {UNIT_US[unit]})" if source == INT64 else None
    return f"wrapped_product({a}, {UNIT_US[unit]})", failure


def _instant_to_int(a: str, unit: str, target: DataType) -> tuple[str, str | None]:
    """The integer that means the instant, rounded down to the unit."""
    code = a if unit == "us" else f"wrapped_product({a}, 1000)" if unit == "ns" else f"{a} // {UNIT_US[unit]}"
    failures = [f"product_overflows({a}, 1000)"] if unit == "ns" else []
    failures += [f"int_to_int32_fails({code})"] if target.name == "int32" else []
    return f"int32({code})" if target.name == "int32" else code, " or ".join(failures) or None
