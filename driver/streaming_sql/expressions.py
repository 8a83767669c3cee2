"""Expressions of SQL as the engine's. Types are checked where an expression ends; the error points at the innermost part that is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Any

from sqlglot import exp

from cep.errors import QueryError, meant
from cep.model.expr import Binary, Call, Cast, Expr, Literal, Udf, Unary, columns_of, lit
from cep.model.schema import BOOL, STRING, DataType
from cep.model.types import infer
from driver.streaming_sql.catalog import NamedFunction
from driver.streaming_sql.errors import SqlError
from driver.streaming_sql.functions import AGGREGATES, OVER_ONLY, PARTS, SCALARS, element, substring
from driver.streaming_sql.scope import Scope
from driver.streaming_sql.spans import interval_us
from driver.streaming_sql.types import engine_type

_COMPARISONS: dict[type[exp.Expr], str] = {exp.EQ: "=", exp.NEQ: "!=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_ARITHMETIC: dict[type[exp.Expr], str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.IntDiv: "//", exp.Mod: "%",
}  # fmt: skip
#: How messages end about arguments that have to be constants: what they got is a value, and no type.
_GOT_VALUE = re.compile(r"expected .*, got (?:(an expression)|None|True|False|-?[\d.]+|['\"].*)$", re.DOTALL)
_WINDOWS = ("tumble", "hop", "session", "cumulate", "tumble_start", "tumble_end", "hop_start", "hop_end", "session_start", "session_end")
#: Functions that give one of their arguments.
_CHOOSING = ("coalesce", "ifnull", "nvl", "nullif", "if", "iif", "greatest", "least")
IN_VALUES_MAX = 2_000


def bound(node: exp.Expr, scope: Scope) -> Expr:
    """The expression, its types checked over the scope's rows. Raises SqlError."""
    try:
        made = bind(node, scope)
        _check(node, made, scope)
    except RecursionError:
        raise scope.error("SQL-DEPTH", "operations are too deep inside each other", node) from None
    return made


def condition(node: exp.Expr, scope: Scope, where: str) -> Expr:
    """Likewise, of a condition. Raises SqlError: it is no BOOLEAN."""
    made = bound(node, scope)
    if scope.hook is None and infer(made, scope.relation.schema)[0] != BOOL:
        raise scope.error("SQL-TYPE", f"{where} takes a BOOLEAN, got {node.sql()}", node, f"a comparison, such as {node.sql()} > 0")
    return made


def _check(node: exp.Expr, made: Expr, scope: Scope) -> None:
    if not columns_of(made) <= set(scope.relation.schema.names):
        return  # of a group: its operator is not there yet, and checks them
    try:
        infer(made, scope.relation.schema)
    except QueryError as error:
        inner = next((part for part in _parts(node) if _is_wrong(part, scope)), None)
        if inner is not None:
            bound(inner, scope)
        if constant := _GOT_VALUE.search(error.message):
            raise scope.error("SQL-LITERAL", error.message, node, "a constant" if constant[1] else "") from None
        raise scope.error("SQL-TYPE", error.message, node, "" if "cast" in error.message or "ISO" in error.message else None) from None


def _parts(node: exp.Expr) -> Iterator[exp.Expr]:
    """What is computed inside it."""
    for child in node.iter_expressions():
        if isinstance(child, exp.If | exp.Paren | exp.Where):
            yield from _parts(child)
        elif not isinstance(child, exp.Identifier | exp.DataType | exp.Var | exp.Interval | exp.Null | exp.Star | exp.Distinct):
            yield child


def _is_wrong(node: exp.Expr, scope: Scope) -> bool:
    try:
        infer(bind(node, scope), scope.relation.schema)
    except SqlError:
        return False
    except QueryError:
        return True
    return False


def bind(node: exp.Expr, scope: Scope) -> Expr:
    """Raises SqlError; types are not checked."""
    if scope.hook is not None:
        found = scope.hook(node)
        if found is not None:
            return found
    reader = _READERS.get(type(node))
    if reader is None:
        if isinstance(node, exp.Query):
            raise scope.error("SQL-SUBQUERY", "a subquery in an expression", node)
        raise scope.error("SQL-EXPRESSION", f"there is no {_shown(node)}", node)
    scope.check_parts(node, *_PARTS_READ.get(type(node), ("this", "expression")))
    return reader(node, scope)


def _shown(node: exp.Expr) -> str:
    written = node.sql()
    return written if len(written) <= 40 else f"{type(node).__name__.upper()} expression"


# --- leaves ---


def _column(node: Any, scope: Scope) -> Expr:
    return scope.value(node)


def _literal(node: Any, scope: Scope) -> Expr:
    if node.is_string:
        return lit(node.name)
    if re.fullmatch(r"[0-9]+", node.name):
        value = int(node.name) if len(node.name) < 20 else 2**64
        if value >= 2**63:
            raise scope.error("SQL-TYPE", f"{node.name} is beyond BIGINT", node, f"{node.name}.0, a DOUBLE")
        return lit(value)
    return lit(float(node.name))


def _negative(node: Any, scope: Scope) -> Expr:
    inner = node.this
    if isinstance(inner, exp.Literal) and not inner.is_string:
        if inner.name == "9223372036854775808":
            return lit(-(2**63))
        made = _literal(inner, scope)
        return Literal(-made.value, made.type) if isinstance(made, Literal) else made
    return Unary("-", bind(inner, scope))


def _null(node: Any, scope: Scope) -> Expr:
    raise scope.error("SQL-TYPE", "NULL has no type here", node, "IS NULL, or CAST(NULL AS BIGINT)")


def _interval(node: Any, scope: Scope) -> Expr:
    raise scope.error("SQL-INTERVAL", f"{node.sql()} beside no timestamp", node)


# --- operators ---


def _comparison(node: Any, scope: Scope) -> Expr:
    op = _COMPARISONS[type(node)]
    for side in (node.this, node.expression):
        if isinstance(side, exp.Null):
            raise scope.error("SQL-TYPE", f"{node.sql()} is never true", node, f"{'IS NOT' if op == '!=' else 'IS'} NULL")
    left, right = _spans(node.this, scope), _spans(node.expression, scope)
    _check_instants(node, (node.this, left), (node.expression, right), scope)
    return Binary(op, left, right)


#: A part of a text, and what it was bound to: it is bound once, for each level that did so again would double the work.
_Side = tuple[exp.Expr, Expr]


def _check_instants(node: exp.Expr, one: _Side, other: _Side, scope: Scope) -> None:
    """The engine takes a number beside a timestamp for an instant in its unit; SQL does not."""
    for (number, _), (_, beside) in ((one, other), (other, one)):
        if _is_number(number):
            type_ = _type_of(beside, scope)
            if type_ is not None and type_.name == "timestamp":
                raise scope.error("SQL-TYPE", f"{node.sql()}: a timestamp beside a number", node, "TIMESTAMP '2024-05-01 12:00:00'")


def _is_number(node: exp.Expr) -> bool:
    """Is it one as it is written, with a sign or in brackets, too?"""
    while isinstance(node, exp.Paren | exp.Neg):
        node = node.this
    return isinstance(node, exp.Literal) and not node.is_string


def _spans(node: exp.Expr, scope: Scope) -> Expr:
    """A side of a comparison or sum: an interval is µs, as the difference of two timestamps is."""
    span = _span_us(node, scope)
    return bind(node, scope) if span is None else lit(span)


def _span_us(node: exp.Expr, scope: Scope) -> int | None:
    """Of an interval, in brackets and with a sign, too; None: it is none."""
    inner = node.unnest()
    if isinstance(inner, exp.Neg):
        span = _span_us(inner.this, scope)
        return None if span is None else -span
    return interval_us(inner, scope.text) if isinstance(inner, exp.Interval) else None


def _arithmetic(node: Any, scope: Scope) -> Expr:
    """Intervals go with timestamps only: integers have no unit."""
    op = _ARITHMETIC[type(node)]
    sides = node.this, node.expression
    spans = [_span_us(each, scope) is not None for each in sides]
    if any(spans) and (op not in "+-" or all(spans) or (op == "-" and spans[0])):
        raise scope.error("SQL-INTERVAL", f"{node.sql()} is no timestamp", node)
    left, right = (_spans(each, scope) for each in sides)
    if not any(spans):
        if op in "+-":
            _check_spans(node, (left, right), scope)
        return Binary(op, left, right)
    other, made = (sides[0], left) if spans[1] else (sides[1], right)
    type_ = _type_of(made, scope)
    if type_ is not None and type_.name != "timestamp":
        raise scope.error("SQL-INTERVAL", f"{other.sql()} is {type_}, no timestamp", other)
    return Binary(op, left, right)


def _check_spans(node: exp.Expr, sides: tuple[Expr, Expr], scope: Scope) -> None:
    """The engine takes an integer beside a timestamp for µs; SQL does not."""
    types = [_type_of(each, scope) for each in sides]
    names = [type_.name if type_ is not None else "" for type_ in types]
    if "timestamp" in names and any(type_ is not None and type_.is_integer for type_ in types):
        raise scope.error("SQL-INTERVAL", f"{node.sql()}: an integer has no unit of time", node)


def _type_of(made: Expr, scope: Scope) -> DataType | None:
    """None: it cannot be known here."""
    if scope.types is not None:
        return scope.types(made)
    if not columns_of(made) <= set(scope.relation.schema.names):
        return None
    try:
        return infer(made, scope.relation.schema)[0]
    except QueryError:
        return None


def _connected(node: Any, scope: Scope) -> Expr:
    """A chain of AND or OR as a balanced tree: as deep as its logarithm."""
    kind, op = type(node), "and" if isinstance(node, exp.And) else "or"
    return _balanced(op, [bind(each, scope) for each in operands(node, kind)])


def operands(node: exp.Expr, kind: type[exp.Expr]) -> list[exp.Expr]:
    """Those of a chain, from left to right, without recursion."""
    found: list[exp.Expr] = []
    rest = [node]
    while rest:
        each = rest.pop()
        if isinstance(each, exp.Paren) and isinstance(each.this, kind):
            each = each.this
        if isinstance(each, kind):
            rest += [each.args["expression"], each.this]
        else:
            found.append(each)
    return found


def _balanced(op: str, parts: list[Expr]) -> Expr:
    if len(parts) < 2:
        return parts[0]
    half = len(parts) // 2
    return Binary(op, _balanced(op, parts[:half]), _balanced(op, parts[half:]))


def all_of(parts: list[Expr]) -> Expr | None:
    return _balanced("and", parts) if parts else None


def _not(node: Any, scope: Scope) -> Expr:
    return Unary("not", bind(node.this, scope))


def _paren(node: Any, scope: Scope) -> Expr:
    return bind(node.this, scope)


def _is(node: Any, scope: Scope) -> Expr:
    of = bind(node.this, scope)
    if isinstance(node.expression, exp.Null):
        return Unary("is_null", of)
    if isinstance(node.expression, exp.Boolean):
        wanted = bool(node.expression.this)
        return Call("coalesce", (of if wanted else Unary("not", of), lit(False)))
    raise scope.error("SQL-EXPRESSION", f"there is no IS {node.expression.sql()}", node, "IS NULL, IS TRUE or IS FALSE")


def _between(node: Any, scope: Scope) -> Expr:
    of, (low, high) = bind(node.this, scope), (_spans(node.args[each], scope) for each in ("low", "high"))
    for written, bound_ in ((node.args["low"], low), (node.args["high"], high)):
        _check_instants(node, (node.this, of), (written, bound_), scope)
    found = Binary("and", Binary(">=", of, low), Binary("<=", of, high))
    turned = Binary("and", Binary(">=", of, high), Binary("<=", of, low))
    return Binary("or", found, turned) if node.args.get("symmetric") else found


def _in(node: Any, scope: Scope) -> Expr:
    if node.args.get("query") is not None:
        raise scope.error("SQL-SUBQUERY", "IN of a subquery", node)
    if not node.expressions:
        raise scope.error("SQL-EXPRESSION", "IN of no list", node, "IN (1, 2)")
    if len(node.expressions) > IN_VALUES_MAX:
        raise scope.error("SQL-DEPTH", f"IN of {len(node.expressions):,} values", node, "a JOIN with a table")
    of, values = bind(node.this, scope), [bind(each, scope) for each in node.expressions]
    for each, value in zip(node.expressions, values, strict=True):
        _check_instants(node, (node.this, of), (each, value), scope)
    return _balanced("or", [Binary("=", of, value) for value in values])


def _distinct_from(equal: bool) -> Callable[[Any, Scope], Expr]:
    def read(node: Any, scope: Scope) -> Expr:
        if isinstance(node.expression, exp.Null):
            is_null = Unary("is_null", bind(node.this, scope))
            return is_null if equal else Unary("not", is_null)
        left, right = bind(node.this, scope), bind(node.expression, scope)
        _check_instants(node, (node.this, left), (node.expression, right), scope)
        both = Binary("and", Unary("is_null", left), Unary("is_null", right))
        same = Binary("or", Call("coalesce", (Binary("=", left, right), lit(False))), both)
        return same if equal else Unary("not", same)

    return read


def _like(node: Any, scope: Scope) -> Expr:
    return _matching(node, scope, "")


def _escaped(node: Any, scope: Scope) -> Expr:
    escape = node.expression
    if not isinstance(node.this, exp.Like | exp.ILike) or not isinstance(escape, exp.Literal) or len(escape.name) != 1:
        raise scope.error("SQL-LITERAL", "ESCAPE takes one character", node)
    scope.check_parts(node.this, *_PARTS_READ[exp.Like])
    return _matching(node.this, scope, escape.name)


def _matching(node: Any, scope: Scope, escape: str) -> Expr:
    pattern = node.expression
    if not isinstance(pattern, exp.Literal) or not pattern.is_string:
        raise scope.error("SQL-LITERAL", "the pattern of LIKE is a text", pattern)
    flags = "(?si)" if isinstance(node, exp.ILike) else "(?s)"
    found = Call("matches", (bind(node.this, scope), lit(f"{flags}^{_regex(pattern.name, escape)}$")))
    return Unary("not", found) if node.args.get("negate") else found


def _regex(pattern: str, escape: str) -> str:
    made, literally = "", False
    for each in pattern:
        if escape and each == escape and not literally:
            literally = True
            continue
        made += re.escape(each) if literally or each not in "%_" else {"%": ".*", "_": "."}[each]
        literally = False
    return made


def _concatenated(node: Any, scope: Scope) -> Expr:
    return Call("concat", tuple(bind(each, scope) for each in operands(node, exp.DPipe)))


# --- choices, casts, functions ---


def _case(node: Any, scope: Scope) -> Expr:
    of = None if node.this is None else bind(node.this, scope)
    tests: list[Expr] = []
    for each in node.args["ifs"]:
        test = bind(each.this, scope)
        if of is not None:
            _check_instants(node, (node.this, of), (each.this, test), scope)
        tests.append(test if of is None else Binary("=", of, test))
    otherwise = node.args.get("default")
    values = [each.args["true"] for each in node.args["ifs"]]
    values += [] if otherwise is None or isinstance(otherwise, exp.Null) else [otherwise]
    if all(isinstance(value, exp.Null) for value in values):
        raise scope.error("SQL-TYPE", "every value of the CASE is NULL", node, "a value, or CAST(NULL AS BIGINT)")
    made = _chosen(values, values, scope)
    return Call("when", tuple(part for pair in zip_longest(tests, made) for part in pair if part is not None))


def _chosen(values: Sequence[exp.Expr], alike: Sequence[exp.Expr], scope: Scope) -> list[Expr]:
    """What is chosen from, bound. NULL has the type of the first of `alike`, which are some of them, that is none."""
    made = [None if isinstance(each, exp.Null) else bind(each, scope) for each in values]
    first = next((each for value, each in zip(values, made, strict=True) if each is not None and any(value is a for a in alike)), None)
    type_ = None if first is None else _type_of(first, scope)
    for i, value in enumerate(values):
        if made[i] is None:
            made[i] = bind(value, scope) if type_ is None else Literal(None, type_)
    return [each for each in made if each is not None]


def _cast(node: Any, scope: Scope) -> Expr:
    scope.check_parts(node, "this", "to", "safe", "_type")
    type_ = engine_type(node.to, scope.text, scope.place(node))
    if isinstance(node.this, exp.Null):
        return Literal(None, type_)
    if isinstance(node.this, exp.Interval):
        if not type_.is_integer:
            raise scope.error("SQL-INTERVAL", f"{node.this.sql()} is µs, a BIGINT", node)
        return lit(interval_us(node.this, scope.text))
    made = bind(node.this, scope)
    safe = isinstance(node, exp.TryCast)
    if isinstance(made, Literal) and made.type == STRING and type_.name == "timestamp" and not safe:
        return _instant(node, made.value, type_, scope)
    return Cast(made, type_, safe)


def _instant(node: exp.Expr, value: str, type_: DataType, scope: Scope) -> Expr:
    made = Literal(value, type_)
    try:
        infer(made, scope.relation.schema)
    except QueryError as error:
        raise scope.error("SQL-TYPE", error.message, node, "TIMESTAMP '2024-05-01 12:00:00'") from None
    return made


def _extract(node: Any, scope: Scope) -> Expr:
    part = node.name.lower()
    if part not in PARTS:
        raise scope.error("SQL-FUNCTION", f"EXTRACT({part.upper()} …){meant(part, PARTS)}", node, f"one of {', '.join(PARTS).upper()}")
    return Call(PARTS[part], (bind(node.expression, scope),))


def _substring(node: Any, scope: Scope) -> Expr:
    given = [node.this, node.args.get("start") or exp.Literal.number(1), node.args.get("length")]
    return _made(node, scope, lambda: substring([bind(each, scope) for each in given if each is not None]))


def _trim(node: Any, scope: Scope) -> Expr:
    if node.expression is not None and node.expression.name != " ":
        raise scope.error("SQL-FUNCTION", "TRIM takes blanks away, nothing else", node, "TRIM(x), or REPLACE")
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or ""), "trim")
    return Call(name, (bind(node.this, scope),))


def _bracket(node: Any, scope: Scope) -> Expr:
    if len(node.expressions) != 1:
        raise scope.error("SQL-EXPRESSION", f"there is no {node.sql()}", node, "one place, such as x[1]")
    return _made(node, scope, lambda: element(bind(node.this, scope), bind(node.expressions[0], scope)))


def _made(node: exp.Expr, scope: Scope, make: Callable[[], Expr]) -> Expr:
    try:
        return make()
    except SqlError:
        raise
    except QueryError as error:
        raise scope.error("SQL-LITERAL", error.message, node, None if error.message.endswith("as a constant") else "") from None


def _called(node: Any, scope: Scope) -> Expr:
    name = node.name.lower()
    if name == "proctime":
        raise scope.error("SQL-PROCTIME", "PROCTIME()", node)
    own = scope.catalog.find(name)
    if isinstance(own, NamedFunction) and not own.aggregate:
        return Udf(own.reference, tuple(bind(each, scope) for each in node.expressions), own.type, True)
    if name in AGGREGATES or isinstance(own, NamedFunction):
        raise scope.error("SQL-AGGREGATE", f"{name}() where there is no group", node)
    if name in OVER_ONLY or name in ("rank", "dense_rank", "lead", "ntile"):
        raise scope.error("SQL-OVER", f"{name}() has no OVER here", node)
    if name in _WINDOWS:
        raise scope.error("SQL-WINDOW", f"{name}() is no function of a row", node)
    if name in ("row", "struct", "named_struct", "map"):
        raise scope.error("SQL-STRUCT", f"there is no {name.upper()}", node)
    if name not in SCALARS:
        raise scope.error("SQL-FUNCTION", f"there is no function {node.name}{meant(name, [*SCALARS, *AGGREGATES])}", node)
    function = SCALARS[name]
    if any(isinstance(each, exp.Distinct | exp.Star) for each in node.expressions):
        raise scope.error("SQL-FUNCTION", f"{name} takes expressions", node, f"{name}(x)")
    count = len(node.expressions)
    if count < function.fewest or (function.most is not None and count > function.most):
        takes = f"{function.fewest}" if function.fewest == function.most else f"{function.fewest} to {function.most or 'any number of'}"
        raise scope.error("SQL-FUNCTION", f"{name} takes {takes} arguments, got {count}", node)
    if name in _CHOOSING:
        alike = slice(1 if name in ("if", "iif") else 0, None)
        given = _chosen(node.expressions, node.expressions[alike], scope)
        sides = list(zip(node.expressions, given, strict=True))[alike]
        for each in sides[1:]:
            _check_instants(node, sides[0], each, scope)
    else:
        given = [bind(each, scope) for each in node.expressions]
    type_ = _type_of(given[0], scope) if name == "to_timestamp" and count == 1 else None
    if type_ is not None and type_.is_number:
        instead = "TO_TIMESTAMP_LTZ(x, 0) of seconds, 3 of milliseconds, 6 of microseconds"
        raise scope.error("SQL-FUNCTION", f"{node.sql()}: a number has no unit of time", node, instead)
    return _made(node, scope, lambda: function.make(given))


def _now(node: Any, scope: Scope) -> Expr:
    return Call("now", ())


def _over(node: Any, scope: Scope) -> Expr:
    raise scope.error("SQL-OVER", "OVER outside SELECT and QUALIFY", node, "a subquery that computes it, and the condition around it")


def _filtered(node: Any, scope: Scope) -> Expr:
    raise scope.error("SQL-AGGREGATE", "FILTER is of an aggregate", node)


def _no_struct(node: Any, scope: Scope) -> Expr:
    raise scope.error("SQL-STRUCT", f"there is no {_shown(node)}", node)


def _boolean(node: Any, scope: Scope) -> Expr:
    return lit(bool(node.this))


_READERS: dict[type[exp.Expr], Callable[[Any, Scope], Expr]] = {
    exp.Column: _column, exp.Literal: _literal, exp.Neg: _negative, exp.Null: _null, exp.Boolean: _boolean, exp.Interval: _interval,
    **dict.fromkeys(_COMPARISONS, _comparison), **dict.fromkeys(_ARITHMETIC, _arithmetic), exp.And: _connected, exp.Or: _connected,
    exp.Not: _not, exp.Paren: _paren, exp.Is: _is, exp.Between: _between, exp.In: _in, exp.NullSafeEQ: _distinct_from(True),
    exp.NullSafeNEQ: _distinct_from(False), exp.Like: _like, exp.ILike: _like, exp.Escape: _escaped, exp.DPipe: _concatenated,
    exp.Case: _case, exp.Cast: _cast, exp.TryCast: _cast, exp.Extract: _extract, exp.Substring: _substring, exp.Trim: _trim,
    exp.Bracket: _bracket, exp.Anonymous: _called, exp.CurrentTimestamp: _now, exp.Window: _over, exp.Filter: _filtered,
    exp.Struct: _no_struct, exp.Tuple: _no_struct, exp.Dot: _no_struct,
}  # fmt: skip

#: What readers read of a node: whatever else it has is refused, and not left out. Others read `this` and `expression`.
_PARTS_READ: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.Column: ("this", "table", "db", "catalog"), exp.Literal: ("this", "is_string"), exp.Interval: ("this", "unit"),
    exp.Between: ("this", "low", "high", "symmetric"), exp.In: ("this", "expressions", "query"), exp.Like: ("this", "expression", "negate"),
    exp.ILike: ("this", "expression", "negate"), exp.Case: ("this", "ifs", "default"), exp.Cast: ("this", "to", "safe", "_type"),
    exp.TryCast: ("this", "to", "safe", "_type"), exp.Substring: ("this", "start", "length"),
    exp.Div: ("this", "expression", "typed", "safe"),
    exp.Trim: ("this", "expression", "position"), exp.Bracket: ("this", "expressions", "offset", "safe", "returns_list_for_maps"),
    exp.Anonymous: ("this", "expressions"), exp.DPipe: ("this", "expression", "safe"), exp.Struct: ("expressions",),
    exp.Tuple: ("expressions",), exp.Window: ("this", "partition_by", "order", "spec", "alias", "over", "first"),
}  # fmt: skip
