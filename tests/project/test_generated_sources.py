"""Sources that are generated import names that are there: no type checker looks into them."""

from __future__ import annotations

import ast
import importlib
import re

import pytest

from tests.support.paths import ROOT


def _imports() -> dict[tuple[str, str], str]:
    """(module, name) that a text in a module of the engine imports -> that module's file."""
    found = {}
    for path in sorted((ROOT / "cep").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                for module, names in re.findall(r"^from (cep[\w.]*) import ([\w, ]+)$", node.value, re.MULTILINE):
                    found |= {(module, name.strip()): str(path.relative_to(ROOT)) for name in names.split(",")}
    return found


@pytest.mark.parametrize(("wanted", "file"), sorted(_imports().items()))
def test_what_it_imports_is_there(wanted: tuple[str, str], file: str) -> None:
    module, name = wanted
    assert hasattr(importlib.import_module(module), name), f"{file} writes an import of {name} from {module}"
