"""The kinds of operators: what JSON calls them, an Aggregate and a Sort by their windows too, a StatefulMap with a function apart."""

from __future__ import annotations

from cep.model.contract.matching import Joining
from cep.model.contract.operator import Stateless
from cep.model.operator_documents import type_of
from cep.model.operators import TYPES, Aggregate, Operator, Sort, StatefulMap
from cep.model.windows import CumulateWindow, SessionWindow, SizeWindow, TimeWindow, TransactionWindow, UnboundedWindow, Window

WINDOWS = ("time", "cumulate", "size", "session", "transaction", "running", "periodic")
STATELESS = tuple(type_ for type_, kind in TYPES.items() if issubclass(kind, Stateless))
JOINS = tuple(type_ for type_, kind in TYPES.items() if issubclass(kind, Joining))
KINDS = (
    *STATELESS,
    *(f"aggregate {window}" for window in WINDOWS),
    *JOINS,
    "sort time",
    "sort size",
    "sort",
    "top_n time",
    "sample_n",
    "deduplicate",
    "keep_last",
    "over",
    "stateful_map",
    "stateful_map function",
    "pattern",
)


def kind_of(operator: Operator) -> str:
    type_ = type_of(operator)
    if isinstance(operator, StatefulMap) and operator.function is not None:
        return f"{type_} function"
    window = getattr(operator, "window", None)
    return f"{type_} {window_of(window)}" if (isinstance(operator, Aggregate | Sort) and window is not None) or type_ == "top_n" else type_


def window_of(window: Window) -> str:
    match window:
        case TimeWindow():
            return "time"
        case CumulateWindow():
            return "cumulate"
        case SizeWindow():
            return "size"
        case SessionWindow():
            return "session"
        case TransactionWindow():
            return "transaction"
        case UnboundedWindow(advance=advance):
            return "running" if advance is None else "periodic"
