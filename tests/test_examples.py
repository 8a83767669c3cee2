"""The examples of the OpenAPI document: one for each operator and window, each a valid query by its schema and by the planner."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from cep.model import query as queries
from cep.model.operator_documents import TYPES
from cep.plan.validate import validate
from orchestrator import query_schema
from orchestrator.examples import EXAMPLES

COMPONENTS = {"components": {"schemas": query_schema.schemas()}}
QUERY = {"$ref": "#/components/schemas/Query", **COMPONENTS}


def test_there_is_one_for_every_operator_and_window() -> None:
    operators = [operator for document in EXAMPLES.values() for operator in document["operators"]]
    assert {operator["type"] for operator in operators} == TYPES.keys()
    assert {o["window"]["type"] for o in operators if o["type"] == "aggregate"} == {"time", "size", "session", "transaction", "unbounded"}


@pytest.mark.parametrize("document", EXAMPLES.values(), ids=EXAMPLES)
def test_an_example_is_a_query(document: dict[str, Any]) -> None:
    jsonschema.validate(document, QUERY)
    query = queries.from_json(document)
    assert queries.to_json(queries.from_json(queries.to_json(query))) == queries.to_json(query)
    jsonschema.validate(queries.to_json(query), QUERY)
    assert validate(query, {}).schemas


@pytest.mark.parametrize(
    "operator",
    [
        {"name": "f", "type": "filter", "input": "visits"},
        {"name": "f", "type": "delay", "input": "visits", "by": "5s", "to": "x"},
        {"name": "f", "type": "nothing", "input": "visits"},
    ],
)
def test_the_schema_refuses_what_the_reader_refuses(operator: dict[str, Any]) -> None:
    document = {"name": "q", "streams": [], "operators": [operator], "outputs": [{"stream": "out", "input": "f"}]}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, QUERY)
    with pytest.raises(Exception, match=operator["name"]):
        queries.from_json(document)
