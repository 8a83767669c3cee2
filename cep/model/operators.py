"""The operators of a query, one frozen value each (DESIGN 5.2). `inputs` name operators or streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cep.errors import QueryError
from cep.model import expr as expressions
from cep.model import functions, windows
from cep.model.expr import Expr
from cep.model.functions import Function
from cep.model.windows import TimeWindow


@dataclass(frozen=True)
class Map:
    """One output tuple per input tuple: `fields` are (name, expression) in output order. Event time stays."""

    name: str
    input: str
    fields: tuple[tuple[str, Expr], ...]

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.input,)


@dataclass(frozen=True)
class Filter:
    """The tuples for which `condition` is true (not false, not NULL)."""

    name: str
    input: str
    condition: Expr

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.input,)


@dataclass(frozen=True)
class Union:
    """The tuples of all inputs, whose schemas are the same."""

    name: str
    inputs: tuple[str, ...]


@dataclass(frozen=True)
class Aggregate:
    """Per window and per group (`by`, maybe empty): the key fields, then one field per function, at event time window end - 1."""

    name: str
    input: str
    window: TimeWindow
    by: tuple[str, ...]
    functions: tuple[tuple[str, Function], ...]

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.input,)


Operator = Map | Filter | Union | Aggregate
STATEFUL = (Aggregate,)


def is_stateful(operator: Operator) -> bool:
    return isinstance(operator, STATEFUL)


def to_json(operator: Operator) -> dict[str, Any]:
    match operator:
        case Map(name, input_, fields):
            return {"name": name, "type": "map", "input": input_, "fields": {n: expressions.to_json(e) for n, e in fields}}
        case Filter(name, input_, condition):
            return {"name": name, "type": "filter", "input": input_, "condition": expressions.to_json(condition)}
        case Union(name, inputs):
            return {"name": name, "type": "union", "inputs": list(inputs)}
        case Aggregate(name, input_, window, by, functions_):
            return {
                "name": name,
                "type": "aggregate",
                "input": input_,
                "window": windows.to_json(window),
                "by": list(by),
                "functions": {n: functions.to_json(f) for n, f in functions_},
            }


def from_json(document: Any, pointer: str = "") -> Operator:
    if not isinstance(document, dict) or not isinstance(document.get("name"), str) or document.get("type") not in _READERS:
        raise QueryError(f'expected an operator {{"name": ..., "type": one of {", ".join(_READERS)}, ...}}, got {document!r}', pointer)
    reader, keys = _READERS[document["type"]]
    for key in document.keys() - keys - {"name", "type"}:
        raise QueryError(f"unknown key {key!r}; an operator of type {document['type']!r} has {', '.join(sorted(keys))}", f"{pointer}/{key}")
    for key in keys - document.keys() - {"by"}:
        raise QueryError(f"operator {document['name']!r} ({document['type']}) lacks {key!r}", pointer)
    return reader(document, pointer)


def _name(document: dict[str, Any], key: str, pointer: str) -> str:
    if not isinstance(document[key], str):
        raise QueryError(f"{key}: expected a name, got {document[key]!r}", f"{pointer}/{key}")
    return str(document[key])


def _names(document: dict[str, Any], key: str, pointer: str) -> tuple[str, ...]:
    value = document.get(key, [])
    value = [value] if isinstance(value, str) else value
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise QueryError(f"{key}: expected a list of names, got {value!r}", f"{pointer}/{key}")
    return tuple(value)


def _mapping(document: dict[str, Any], key: str, pointer: str) -> Mapping[str, Any]:
    if not isinstance(document[key], dict) or not document[key]:
        raise QueryError(f"{key}: expected an object with at least one entry, got {document[key]!r}", f"{pointer}/{key}")
    return dict(document[key])


def _map(d: dict[str, Any], pointer: str) -> Map:
    fields = _mapping(d, "fields", pointer)
    read = tuple((n, expressions.from_json(e, f"{pointer}/fields/{n}")) for n, e in fields.items())
    return Map(d["name"], _name(d, "input", pointer), read)


def _filter(d: dict[str, Any], pointer: str) -> Filter:
    return Filter(d["name"], _name(d, "input", pointer), expressions.from_json(d["condition"], f"{pointer}/condition"))


def _union(d: dict[str, Any], pointer: str) -> Union:
    return Union(d["name"], _names(d, "inputs", pointer))


def _aggregate(d: dict[str, Any], pointer: str) -> Aggregate:
    read = _mapping(d, "functions", pointer)
    return Aggregate(
        d["name"],
        _name(d, "input", pointer),
        windows.from_json(d["window"], f"{pointer}/window"),
        _names(d, "by", pointer),
        tuple((n, functions.from_json(f, f"{pointer}/functions/{n}")) for n, f in read.items()),
    )


_READERS: dict[str, tuple[Callable[[dict[str, Any], str], Operator], frozenset[str]]] = {
    "map": (_map, frozenset(("input", "fields"))),
    "filter": (_filter, frozenset(("input", "condition"))),
    "union": (_union, frozenset(("inputs",))),
    "aggregate": (_aggregate, frozenset(("input", "window", "by", "functions"))),
}
