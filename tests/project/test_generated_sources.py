"""Sources that are generated import names that are there: no type checker looks into them."""

from __future__ import annotations

import ast
import importlib
import re

from tests.support.paths import ROOT
from tests.support.syntax import statements


def _is_ours(node: ast.AST) -> bool:
    return isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cep")


def _imports() -> dict[tuple[str, str], str]:
    """(module, name) that a text in a module of the engine imports -> that module's file."""
    found = {}
    for path in sorted((ROOT / "cep").rglob("*.py")):
        source = path.read_text()
        tree = ast.parse(source)
        if source.count("from cep") == sum(map(_is_ours, statements(tree))):
            continue  # it has imports of its own alone
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                for module, names in re.findall(r"^from (cep[\w.]*) import ([\w, ]+)$", node.value, re.MULTILINE):
                    found |= {(module, name.strip()): str(path.relative_to(ROOT)) for name in names.split(",")}
    return found


def test_what_they_import_is_there() -> None:
    found = _imports()
    assert found
    missing = [
        f"{file} writes an import of {name} from {module}"
        for (module, name), file in sorted(found.items())
        if not hasattr(importlib.import_module(module), name)
    ]
    assert not missing
