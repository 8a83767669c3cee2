"""Functions that build expressions and are no methods of one: choices, and functions of several equal arguments."""

from __future__ import annotations

from cep.model.expr import Call, Expr, as_expr


class When(Call):
    """A `when` to which branches may be added; without `otherwise` it is NULL where no condition is true."""

    __slots__ = ()

    def when(self, condition: object, value: object) -> When:
        return When("when", (*self.args, as_expr(condition), as_expr(value)))

    def otherwise(self, value: object) -> Expr:
        return Call("when", (*self.args, as_expr(value)))


def when(condition: object, value: object) -> When:
    """`when(a, x).when(b, y).otherwise(z)`: x where a is true, else y where b is true, else z. Only what is needed is computed."""
    return When("when", (as_expr(condition), as_expr(value)))


def try_(expr: object) -> Expr:
    """NULL where computing `expr` would fail the row: overflow, division by zero, a cast whose value does not fit."""
    return Call("try", (as_expr(expr),))


def nullif(a: object, b: object) -> Expr:
    """`a`, NULL where it equals `b`."""
    return Call("nullif", (as_expr(a), as_expr(b)))


def greatest(*args: object) -> Expr:
    """The greatest of numbers or timestamps; NULL if one of them is."""
    return Call("greatest", tuple(map(as_expr, args)))


def least(*args: object) -> Expr:
    """The least of numbers or timestamps; NULL if one of them is."""
    return Call("least", tuple(map(as_expr, args)))


def atan2(y: object, x: object) -> Expr:
    """The angle of the point (x, y), radians."""
    return Call("atan2", (as_expr(y), as_expr(x)))


def concat(*args: object) -> Expr:
    """Strings one after the other, or binaries; NULL if one of them is."""
    return Call("concat", tuple(map(as_expr, args)))


def from_epoch(value: object, unit: str) -> Expr:
    """The instant that an integer of `unit` (s, ms, us, ns) since 1970 means."""
    return as_expr(value).cast(f"timestamp[{unit}]")


def format_time(value: object, format: str) -> Expr:
    """The timestamp as text, in UTC: `"%Y-%m-%d %H:%M:%S.%f"`; also %j, the day of the year, and %%. See docs/arithmetic.md."""
    return Call("format_time", (as_expr(value), as_expr(format)))


def parse_time(text: object, format: str) -> Expr:
    """The instant, in UTC, that the text says in this format; a row whose text says none fails, in `try_` it is NULL."""
    return Call("parse_time", (as_expr(text), as_expr(format)))


def hash_(*args: object) -> Expr:
    """int64, the same on every machine; NULL is a value like others."""
    return Call("hash", tuple(map(as_expr, args)))
