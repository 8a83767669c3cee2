"""The grammar of expressions on docs/rest.md is the code's."""

from __future__ import annotations

import json
import re

import pytest

from cep.model import expr
from cep.model.expr import FUNCTIONS, from_json, to_json
from numa_cep import col, lit, udf, when
from tests.support.paths import ROOT

SECTION = (ROOT / "docs" / "rest.md").read_text().partition("## Expressions in documents")[2].partition("\n## ")[0]
ROWS = re.findall(r"^\| `(.+?)` \| `(.+?)` \|$", SECTION, re.MULTILINE)


@pytest.mark.parametrize(("document", "python"), ROWS)
def test_a_document_is_the_expression_beside_it(document: str, python: str) -> None:
    built = eval(python, {"col": col, "lit": lit, "udf": udf, "when": when})
    assert to_json(from_json(json.loads(document))) == to_json(built)


def test_nothing_is_missing() -> None:
    """Every kind of expression, operator and function."""
    prose = SECTION.rpartition("|")[2]
    names = {word for words in re.findall(r"`([^`]+)`", prose) for word in words.split()}
    assert names >= {*FUNCTIONS, *expr._OPERATORS} and names - {"true", "false", "when"} <= {*FUNCTIONS, *expr._OPERATORS}
    kinds = {key for document, _ in ROWS if document[0] == "{" for key in json.loads(document)}
    assert kinds == {"column", "literal", "type", "op", "args", "cast", "try_cast", "to", "call", "udf", "returns"}
