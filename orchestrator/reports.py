"""What instance managers report, as the metric server believes it: what could not be shown later is refused when it comes.

A report stays until the next, and is in every page and every answer meanwhile: an odd figure of one query would be in the way of all.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from cep.dataflow.meter import LATENCY_BOUNDS_US
from cep.model.packed import unpacked

_NUMBER_MAX = 2**64
_TEXTS = ("query", "subquery")
_WHOLE = ("instance", "epoch", "cpu_ns")
#: Figures of an instance, with which others reckon.
_FIGURES = frozenset(
    (
        *("rows_in", "rows_out", "bytes_in", "bytes_out", "queue_bytes", "state_bytes", "late", "odd_times", "before_since"),
        *("dropped_rows", "incomplete", "outside", "dead", "cpu_ns", "moves", "moved_rows", "moved_bytes", "move_ns", "watermark"),
        *("open_panes_max", "attempt"),
    )
)


def read_report(message: bytes) -> dict[str, Any]:
    """Raises ValueError: it is none."""
    try:
        report: dict[str, Any] = json.loads(message, parse_constant=_refuse)
        if b"\\u" in message:  # half of a character would be found where an answer is written
            json.dumps(report, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("lists in lists in lists") from None
    _expect(isinstance(report, dict), "an object", report)
    _text(report.get("im"))
    _text(report.get("compiling", ""))
    _numbers(report.get("process", {}))
    if report.get("stalls") is not None:
        _stalls(_object(report["stalls"]))
    for where in _list(report.get("withdrawn", [])):
        _expect(isinstance(where, list) and len(where) == 3, "a query, a subquery and an instance", where)
        _expect(all(isinstance(each, str) for each in where[:2]) and str(where[2]).isdecimal(), "an instance", where)
    for each in _list(report.get("instances")):
        _instance(each)
    return report


def _instance(report: Any) -> None:
    _expect(isinstance(report, dict), "an object", report)
    for key in _TEXTS:
        _text(report.get(key))
    for key in _WHOLE:
        _whole(report.get(key))
    if report.get("waits_for") is not None:
        _text(report["waits_for"])
    for operator in _list(report.get("operators", [])):
        _named(operator, ("name", "step"))
    for output in _list(report.get("outputs", [])):
        _named(output, ("name",), ("latency_us",))
        if (latency := output.get("latency_us")) is not None:
            _latency(latency)
    _dead_letters(report.get("dead_letters", {}))
    for counts in _object(report.get("buckets") or {}).values():
        _text(counts)
        unpacked(counts)
    _each_number(value for key, value in report.items() if key in _FIGURES)


def _latency(latency: Any) -> None:
    found = _object(latency)
    _each_number([found.get("sum"), *_list(found.get("counts"))], known=True)
    _expect(len(found["counts"]) == len(LATENCY_BOUNDS_US) + 1, f"{len(LATENCY_BOUNDS_US) + 1} counts", found["counts"])


def _dead_letters(found: Any) -> None:
    for each in _list(_object(found).get("count", [])):
        _expect(isinstance(each, list) and len(each) == 2, "a name and a count", each)
        for name in each[0] if isinstance(each[0], list) else [each[0]]:
            _text(name)
        _whole(each[1])
    for letter in _list(found.get("letters", [])):
        for text in _object(letter).values():
            _text(text)


def _stalls(report: Mapping[str, Any]) -> None:
    _each_number([report.get("began")], known=True)
    for total in _list(report.get("totals")):
        _each_number([_object(total).get(figure) for figure in ("count", "total_ns", "worst_ns")], known=True)
    for each in _list(report.get("slowest")):
        _each_number([_object(each).get(figure) for figure in ("at", "took_ns", "cpu_ns", "delay_ns")], known=True)
    for each in [*report["totals"], *report["slowest"]]:
        texts = ("step", "name", "query", "subquery", "cause")
        _named(each, texts, ("by",))
        _text(each.get("by", ""))


def _named(found: Any, names: Iterable[str], but: Iterable[str] = ()) -> None:
    for name in names:
        _text(_object(found).get(name))
    _each_number(value for key, value in found.items() if key not in (*names, *but))


def _numbers(found: Any) -> None:
    _each_number(_object(found).values())


def _each_number(values: Iterable[Any], known: bool = False) -> None:
    """Unless they are all `known`, one may be None."""
    for value in values:
        if type(value) is int and -_NUMBER_MAX < value < _NUMBER_MAX:
            continue  # as nearly always
        number = isinstance(value, int | float) and abs(value) < _NUMBER_MAX
        _expect(number or (value is None and not known), "a number", value)


def _object(found: Any) -> Mapping[str, Any]:
    _expect(isinstance(found, dict), "an object", found)
    return dict(found)


def _list(found: Any) -> list[Any]:
    _expect(isinstance(found, list), "a list", found)
    return list(found)


def _text(found: Any) -> None:
    _expect(isinstance(found, str), "a text", found)


def _whole(found: Any) -> None:
    _expect(type(found) is int and abs(found) < _NUMBER_MAX, "a whole number", found)


def _expect(is_so: bool, expected: str, got: Any) -> None:
    if not is_so:
        raise ValueError(f"expected {expected}, got {got!r:.200}")


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"expected a number, got {constant}")
