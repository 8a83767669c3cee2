"""The kinds of operators: what JSON calls them, an Aggregate and a Sort by their windows too, a StatefulMap with a function apart."""

from __future__ import annotations

from cep.model.operator_documents import TYPES
from cep.model.operators import Aggregate, Operator, Sort, StatefulMap
from cep.model.windows import SessionWindow, SizeWindow, TimeWindow, TransactionWindow, UnboundedWindow, Window

WINDOWS = ("time", "size", "session", "transaction", "running", "periodic")
STATELESS = ("map", "filter", "union", "demux", "flat_map", "apply", "delay", "lookup")
JOINS = ("join", "interval_join", "as_of_join")
KINDS = (
    *STATELESS,
    *(f"aggregate {window}" for window in WINDOWS),
    *JOINS,
    "sort time",
    "sort",
    "top_n time",
    "deduplicate",
    "stateful_map",
    "stateful_map function",
)

#: What the engine runs yet.
SUPPORTED = frozenset(KINDS)

_TYPE_OF = {cls: type_ for type_, (cls, _) in TYPES.items()}


def kind_of(operator: Operator) -> str:
    type_ = _TYPE_OF[type(operator)]
    if isinstance(operator, StatefulMap) and operator.function is not None:
        return f"{type_} function"
    window = getattr(operator, "window", None)
    return f"{type_} {window_of(window)}" if (isinstance(operator, Aggregate | Sort) and window is not None) or type_ == "top_n" else type_


def window_of(window: Window) -> str:
    match window:
        case TimeWindow():
            return "time"
        case SizeWindow():
            return "size"
        case SessionWindow():
            return "session"
        case TransactionWindow():
            return "transaction"
        case UnboundedWindow(advance=advance):
            return "running" if advance is None else "periodic"
