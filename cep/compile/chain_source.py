"""A run of steps as the source of one loop over rows: no array between one step and the next.

How to read it:
1. `_Writer` walks the steps once and writes lines; `_write` turns a typed expression into lines and returns a `Value`: the
   Python expression for it and for its being not NULL. Code for NULL is written for nullable expressions only.
2. What may fail is checked at its place: the row is noted with the number of the site, and the loop goes on with the next.
   `and`, `or` and `coalesce` put an argument that may fail under an `if`, so that it fails only where it is needed;
   arguments that cannot fail are computed always, which leaves the loop free of branches.
3. The source depends on the structure alone: types, operators, nullability. Literals arrive in arrays.
4. A loop without filters writes row i to place i, so that LLVM can vectorise it; failed rows (rare) are cut out
   afterwards. A loop with filters writes densely and notes which rows it kept. Filters at the end of a loop do so without
   a branch: write always, advance by the condition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from cep.compile.chain_steps import Assign, Check, Keep, LoopStep
from cep.model.expr import ARITHMETIC, COMPARISON, Binary, Call, Cast, Column, Literal, Unary
from cep.model.schema import BOOL, FLOAT64, INT64, UNIT_US, DataType, Field
from cep.plan.types import Typed, can_fail, literal_value, promoted, text_of

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
_ARRAY = {"bool": "uint8", "timestamp": "int64", "string": "int32", "binary": "int32"}
_ZERO = {"bool": "False", "float64": "float64(0.0)"}


@dataclass(frozen=True)
class Value:
    """A value in the loop. `code` and `valid` are Python expressions that cost nothing to repeat; `valid` None: never NULL.

    `column` names the loop's input that it is, unchanged.
    """

    code: str
    type: DataType
    valid: str | None = None
    column: str | None = None


@dataclass(frozen=True)
class Site:
    """A place where rows fail."""

    operator: str
    reason: str


@dataclass(frozen=True)
class LoopSource:
    """One loop, as source and as what goes with it.

    Args:
        text: the module's source, with one kernel named `loop`; "" where there is nothing to compute.
        integers, floats, texts: its literals.
        inputs: the columns it reads, in the order of its arguments.
        outputs: the columns it computes, likewise.
        passed: name -> input column, for the columns that pass unchanged.
        fields: everything there afterwards, by name.
        sites: where rows fail, by number.
        filters: whether rows are dropped.
    """

    text: str
    integers: np.ndarray
    floats: np.ndarray
    texts: tuple[np.ndarray, ...]
    inputs: tuple[Field, ...]
    outputs: tuple[Field, ...]
    passed: Mapping[str, str]
    fields: Mapping[str, Field]
    sites: tuple[Site, ...]
    filters: bool


def loop_source(steps: Sequence[LoopStep], fields: Mapping[str, Field]) -> LoopSource:
    """The loop that takes columns `fields` through `steps`."""
    writer = _Writer(fields, any(isinstance(step, Keep) for step in steps))
    for i, step in enumerate(steps):
        writer.step(step, steps[i + 1 :])
    return writer.finished()


def may_fail(tree: Typed) -> bool:
    """Whether computing `tree` may fail a row."""
    return _itself_may_fail(tree) or any(map(may_fail, tree.args))


def _itself_may_fail(tree: Typed) -> bool:
    match tree.expr:
        case Binary(op, _, _):
            return op in ARITHMETIC and tree.type != FLOAT64
        case Unary("-", _) | Call("abs", _):
            return tree.type != FLOAT64
        case Cast(_, _, try_):
            return not try_ and (_is_parsed(tree) or can_fail(tree.args[0].type, tree.type))
    return False


def _is_parsed(tree: Typed) -> bool:
    """A cast out of text, done before the loop: its arguments are the value and whether it fitted."""
    return isinstance(tree.expr, Cast) and len(tree.args) == 2


def _is_trivial(step: LoopStep) -> bool:
    """Harmless and cheap for rows that were dropped: it cannot fail, and it computes nothing to be written."""
    match step:
        case Keep(_, condition):
            return not may_fail(condition)
        case Assign(_, fields):
            return all(isinstance(tree.expr, Column) for _, tree in fields)
    return False


@dataclass
class _Writer:
    fields: Mapping[str, Field]
    filters: bool
    there: dict[str, Value] = field(default_factory=dict)
    loaded: dict[str, Value] = field(default_factory=dict)
    literals: list[tuple[str, bool | int | float | bytes | None]] = field(default_factory=list)  # (kind, value)
    lines: list[str] = field(default_factory=list)
    sites: list[Site] = field(default_factory=list)
    keep: list[str] = field(default_factory=list)
    names: int = 0
    depth: int = 2
    operator: str = ""
    where: str = ""

    def __post_init__(self) -> None:
        self.there = {name: Value("", f.type, column=name) for name, f in self.fields.items()}

    # --- steps ---

    def step(self, step: LoopStep, rest: Sequence[LoopStep]) -> None:
        self.operator = step.operator
        match step:
            case Assign(_, fields, hidden):
                values = {name: self._assigned(name, tree) for name, tree in fields}
                self.there = {**self.there, **values} if hidden else values
            case Keep(_, condition):
                self.where = "condition"
                self._keep(self._true(self._write(condition)), all(map(_is_trivial, rest)))
                self.there = {name: value for name, value in self.there.items() if not name.startswith("__")}
            case Check(_, ok, reason):
                self._fail_if(None, f"not {self._load(ok).code}", reason)

    def _assigned(self, name: str, tree: Typed) -> Value:
        self.where = f"field {name!r}"
        if isinstance(tree.expr, Column):
            return replace(self.there[tree.expr.name], type=tree.type)
        return self._write(tree)

    def _keep(self, true: str, last: bool) -> None:
        if last:
            self.keep.append(true)
        else:
            self._line(f"if not {true}:")
            self._line("    continue")

    @staticmethod
    def _true(value: Value) -> str:
        return value.code if value.valid is None else f"({value.valid} & {value.code})"

    # --- lines ---

    def _line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def _set(self, code: str) -> str:
        """A new variable that holds `code`."""
        name = self._name()
        self._line(f"{name} = {code}")
        return name

    def _name(self) -> str:
        self.names += 1
        return f"v{self.names}"

    def _fail_if(self, valid: str | None, condition: str, reason: str) -> None:
        self._line(f"if {condition}:" if valid is None else f"if {valid} and ({condition}):")
        self.depth += 1
        self._line("failed_rows[failed] = i")
        self._line(f"failed_sites[failed] = {len(self.sites)}")
        self._line("failed += 1")
        self._line("continue")
        self.depth -= 1
        self.sites.append(Site(self.operator, reason))

    def _both(self, a: str | None, b: str | None) -> str | None:
        """The validity of what is NULL if one of two is."""
        if a is None or b is None or a == b:
            return a or b
        return self._set(f"{a} & {b}")

    # --- expressions ---

    def _write(self, tree: Typed) -> Value:
        match tree.expr:
            case Column(name):
                value = self.there[name]
                return replace(value if value.column is None else self._load(value.column), type=tree.type)
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
                return self._parsed(tree) if _is_parsed(tree) else self._cast(tree)
            case Call("now", _):
                return Value("now", tree.type)
            case Call("abs", _):
                return self._magnitude(tree)
        return self._coalesce(tree)

    def _load(self, column: str) -> Value:
        """Row i of an input column."""
        if column not in self.loaded:
            k, f = len(self.loaded), self.fields[column]
            code = f"(c{k}[i] != 0)" if f.type == BOOL else f"c{k}[i]"
            code = f"data{k}, starts{k}[i], c{k}[i]" if f.type.is_text else code
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

    def _new_literal(self, kind: str, value: bool | int | float | bytes) -> str:
        self.literals.append((kind, value))
        return f"{kind}{sum(k == kind for k, _ in self.literals) - 1}"

    def _arithmetic(self, op: str, tree: Typed) -> Value:
        left, right = (self._write(arg) for arg in tree.args)
        valid = self._both(left.valid, right.valid)
        if tree.type == FLOAT64:
            code = _FLOAT[op].format(a=_as(left, FLOAT64), b=_as(right, FLOAT64))
            return Value(self._set(code), FLOAT64, valid)
        operands = {"a": _as(left, INT64), "b": _as(right, INT64)}
        code, checks = _INTEGER[op]
        for condition, reason in checks:
            self._fail_if(valid, condition.format(**operands), self._reason(reason, tree))
        return Value(self._set(code.format(**operands)), tree.type, valid)

    def _reason(self, reason: str, tree: Typed) -> str:
        return f"{self.where}: {reason} in {text_of(tree.expr)}"

    def _comparison(self, op: str, tree: Typed) -> Value:
        left, right = (self._write(arg) for arg in tree.args)
        common = promoted((left.type, right.type))
        assert common is not None
        kind = "text" if common.is_text else "float" if common == FLOAT64 else ""
        operands = {"a": _as(left, common), "b": _as(right, common)}
        code = _COMPARE[op][bool(kind)].format(kind=kind, **operands)
        return Value(self._set(code), BOOL, self._both(left.valid, right.valid))

    def _unary(self, op: str, tree: Typed) -> Value:
        arg = self._write(tree.args[0])
        if op == "is_null":
            return Value("False" if arg.valid is None else f"(not {arg.valid})", BOOL)
        if op == "not":
            return Value(self._set(f"not {arg.code}"), BOOL, arg.valid)
        if tree.type == FLOAT64:
            return Value(self._set(f"-{arg.code}"), FLOAT64, arg.valid)
        self._fail_if(arg.valid, f"is_least({arg.code})", self._reason("integer overflow", tree))
        return Value(self._set(f"wrapped_difference(int64(0), {_as(arg, INT64)})"), INT64, arg.valid)

    def _magnitude(self, tree: Typed) -> Value:
        arg = self._write(tree.args[0])
        if tree.type == FLOAT64:
            return Value(self._set(f"abs({arg.code})"), FLOAT64, arg.valid)
        self._fail_if(arg.valid, f"is_least({arg.code})", self._reason("integer overflow", tree))
        return Value(self._set(f"wrapped_magnitude({_as(arg, INT64)})"), INT64, arg.valid)

    def _logic(self, op: str, left: Typed, right: Typed) -> Value:
        """Three-valued. The left side decides alone if it is false (and) or true (or)."""
        a = self._write(left)
        if not may_fail(right):
            return self._combined(op, a, self._write(right))
        nullable = left.nullable or right.nullable
        code, valid = self._set(a.code), self._set(a.valid or "True") if nullable else None
        decided = code if op == "or" else f"not {code}"
        self._line(f"if not ({decided}):" if a.valid is None else f"if not ({a.valid} and {decided}):")
        self.depth += 1
        both = self._combined(op, a, self._write(right))
        self._line(f"{code} = {both.code}")
        if valid is not None:
            self._line(f"{valid} = {both.valid or 'True'}")
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

    def _coalesce(self, tree: Typed) -> Value:
        first, *others = tree.args
        value = self._write(first)
        value = Value(_as(value, tree.type), tree.type, value.valid)
        for other in others:
            if value.valid is None:
                break  # what follows is never needed
            value = self._alternative(value, other)
        return value

    def _alternative(self, value: Value, other: Typed) -> Value:
        code, valid = self._set(value.code), self._set(str(value.valid))
        if not may_fail(other):
            b = self._write(other)
            code = self._set(f"{code} if {valid} else {_as(b, value.type)}")
            return Value(code, value.type, None if b.valid is None else self._set(f"{valid} | {b.valid}"))
        self._line(f"if not {valid}:")
        self.depth += 1
        b = self._write(other)
        self._line(f"{code} = {_as(b, value.type)}")
        self._line(f"{valid} = {b.valid or 'True'}")
        self.depth -= 1
        return Value(code, value.type, valid if other.nullable else None)

    def _cast(self, tree: Typed) -> Value:
        arg = self._write(tree.args[0])
        code, failure = _cast_code(arg, tree.type)
        if code == arg.code and failure is None:
            return replace(arg, type=tree.type)
        if failure is None:
            return Value(self._set(code), tree.type, arg.valid)
        return self._checked(Value(self._set(code), tree.type, arg.valid), failure, tree)

    def _parsed(self, tree: Typed) -> Value:
        value, ok = (self._write(arg) for arg in tree.args)
        return self._checked(value, f"not {ok.code}", tree)

    def _checked(self, value: Value, failure: str, tree: Typed) -> Value:
        """The result of a cast, which is NULL or fails the row where it does not fit."""
        assert isinstance(tree.expr, Cast)
        if not tree.expr.try_:
            self._fail_if(value.valid, failure, self._reason("value does not fit", tree))
            return value
        fits = f"not ({failure})"
        valid = self._set(fits if value.valid is None else f"{value.valid} and {fits}")
        return Value(value.code, tree.type, valid)

    # --- the whole ---

    def finished(self) -> LoopSource:
        computed = {name: value for name, value in self.there.items() if value.column is None}
        outputs = tuple(Field(name, value.type, value.valid is not None) for name, value in computed.items())
        self._store(tuple(computed.values()))
        of = {kind: [value for k, value in self.literals if k == kind] for kind in ("integer", "float", "text")}
        inputs = tuple(self.fields[name] for name in self.loaded)
        return LoopSource(
            self._module(inputs, outputs) if outputs or self.sites or self.filters else "",
            np.array(of["integer"], np.int64),
            np.array(of["float"], np.float64),
            tuple(np.frombuffer(text, np.uint8) for text in of["text"] if isinstance(text, bytes)),
            inputs,
            outputs,
            {name: value.column for name, value in self.there.items() if value.column is not None},
            {name: self._field(name, value) for name, value in self.there.items()},
            tuple(self.sites),
            self.filters,
        )

    def _field(self, name: str, value: Value) -> Field:
        passed = value.column is not None and self.fields[value.column].nullable
        return Field(name, value.type, passed or value.valid is not None)

    def _store(self, values: tuple[Value, ...]) -> None:
        at = "kept" if self.filters else "i"
        for k, value in enumerate(values):
            self._line(f"o{k}[{at}] = {value.code}")
            if value.valid is not None:
                self._line(f"known{k}[{at}] = {value.valid}")
        if self.filters:
            self._line("rows[kept] = i")
            self._line(f"kept += int64({' & '.join(self.keep)})" if self.keep else "kept += 1")

    def _module(self, inputs: tuple[Field, ...], outputs: tuple[Field, ...]) -> str:
        parameters = [("int64", "n"), ("int64", "now"), ("const int64[:]", "integers"), ("const float64[:]", "floats")]
        count = {kind: sum(k == kind for k, _ in self.literals) for kind in ("integer", "float", "text")}
        parameters += [("const uint8[:]", f"text{k}") for k in range(count["text"])]
        for k, f in enumerate(inputs):
            parameters += _input_parameters(k, f)
        for k, f in enumerate(outputs):
            parameters += [(f"{_array(f.type)}[:]", f"o{k}")]
            parameters += [("uint8[:]", f"known{k}")] if f.nullable else []
        parameters += [("int64[:]", name) for name in ("rows", "failed_rows", "failed_sites")]
        literals = [f"    {kind}{k} = {kind}s[{k}]" for kind in ("integer", "float") for k in range(count[kind])]
        signature = f"UniTuple(int64, 2)({', '.join(type_ for type_, _ in parameters)})"
        arguments = ", ".join(name for _, name in parameters)
        return _MODULE.format(signature=signature, arguments=arguments, body="\n".join((*literals, *_LOOP, *self.lines)))


_LOOP = ("    kept = 0", "    failed = 0", "    for i in range(n):")
_MODULE = '''"""Generated by cep.compile.chain_source: the rows of a batch through a run of Maps and Filters."""

from numpy import float64, int64

from cep.compile.chain_arithmetic import *  # noqa: F403
from cep.kernels.jit import kernel


@kernel("{signature}")
def loop({arguments}):
{body}
    return kept, failed
'''


def _array(type_: DataType) -> str:
    return _ARRAY.get(type_.name, type_.name)


def _input_parameters(k: int, column: Field) -> list[tuple[str, str]]:
    parameters = [(f"const {_array(column.type)}[:]", f"c{k}")]
    if column.type.is_text:
        parameters += [("const uint8[:]", f"data{k}"), ("const int64[:]", f"starts{k}")]
    return parameters + ([("const uint8[:]", f"valid{k}")] if column.nullable else [])


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
        case "float64", "int32" | "int64":
            return f"float_to_int({a})", f"float_to_{target.name}_fails({a})"
        case "int64", "int32":
            return a, f"int_to_int32_fails({a})"
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
    return code, " or ".join(failures) or None
