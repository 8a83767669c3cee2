"""Functions of expressions that a loop computes: what is written for each, over arguments in the machine's types.

Those that work on texts as a whole come between the loops: `cep.compile.chain.calls`.
"""

from __future__ import annotations

#: Functions of float64, whatever number they are given.
OF_FLOATS = {
    "sqrt": "square_root({0})",
    "exp": "libm_exp({0})",
    "ln": "libm_log({0})",
    "log10": "libm_decimal_log({0})",
    "log2": "libm_binary_log({0})",
    "sin": "libm_sin({0})",
    "cos": "libm_cos({0})",
    "tan": "libm_tan({0})",
    "asin": "libm_asin({0})",
    "acos": "libm_acos({0})",
    "atan": "libm_atan({0})",
    "pow": "libm_pow({0}, {1})",
    "atan2": "libm_atan2({0}, {1})",
    "is_nan": "{0} != {0}",
}
#: Functions of either kind of number, and timestamps: (of int64, of float64).
OF_NUMBERS = {
    "sign": ("integer_sign({0})", "float_sign({0})"),
    "floor": ("{0}", "round_down({0})"),
    "ceil": ("{0}", "round_up({0})"),
    "trunc": ("{0}", "round_zero({0})"),
    "round": ("{0}", "round_to({0}, {1})"),
    "greatest": ("integer_greatest({0}, {1})", "float_greatest({0}, {1})"),
    "least": ("integer_least({0}, {1})", "float_least({0}, {1})"),
}
OF_INSTANTS = {name: f"{name}({{0}})" for name in ("year", "month", "day", "hour", "minute", "second")}
OF_INSTANTS |= {name: f"{name}({{0}})" for name in ("millisecond", "weekday", "day_of_year")}
OF_INSTANTS |= {"epoch_s": "{0} // 1000000", "epoch_ms": "{0} // 1000", "epoch_us": "{0}"}
OF_TEXTS = {
    "contains": "text_contains({0}, {1})",
    "starts_with": "text_begins({0}, {1})",
    "ends_with": "text_ends({0}, {1})",
}
IN_LOOP = frozenset((*OF_FLOATS, *OF_NUMBERS, *OF_INSTANTS, *OF_TEXTS, "truncate"))
