"""The document of a pattern's variables, and of its parts."""

from __future__ import annotations

from typing import Any

from cep.errors import QueryError, escaped
from cep.model import expr as expressions
from cep.model.contract.forms import Form, schema_reference
from cep.model.patterns import parts
from cep.model.patterns.parts import Definition

Definitions = tuple[tuple[str, Definition], ...]


def _read_define(document: Any) -> Definitions:
    if not isinstance(document, dict) or not document:
        raise QueryError(f"expected an object with at least one variable, got {document!r}")
    return tuple((name, _read_definition(each, f"/{escaped(name)}")) for name, each in document.items())


def _read_definition(document: Any, pointer: str) -> Definition:
    if isinstance(document, dict) and document.keys() <= {"input", "condition"}:
        condition, input_ = document.get("condition"), document.get("input")
        if input_ is not None and not isinstance(input_, str):
            raise QueryError(f"input: expected a name, got {input_!r}", f"{pointer}/input")
        return Definition(None if condition is None else expressions.from_json(condition, f"{pointer}/condition"), input_)
    return Definition(expressions.from_json(document, pointer))


def _write_definition(definition: Definition) -> Any:
    condition = {} if definition.condition is None else {"condition": expressions.to_json(definition.condition)}
    if definition.input is None:
        return condition.get("condition", {})
    return {"input": definition.input, **condition}


DEFINE = Form(
    lambda pairs: {name: _write_definition(each) for name, each in pairs},
    _read_define,
    {"type": "object", "minProperties": 1, "additionalProperties": {"anyOf": [schema_reference("Expression"), {"type": "object"}]}},
)
PATTERN = Form(parts.to_json, parts.from_json, {"anyOf": [{"type": "string"}, {"type": "object"}]})
