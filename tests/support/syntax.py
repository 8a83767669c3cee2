"""Statements of Python files: a tenth of the nodes of their trees, and where functions, classes and imports are."""

from __future__ import annotations

import ast
from collections.abc import Iterator

#: Fields of statements, and of what belongs to them, that hold statements.
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def statements(*trees: ast.AST) -> Iterator[ast.AST]:
    """Those nodes, and all that are statements below them, or hold some: handlers of exceptions, cases of a match."""
    waiting = list(trees)
    while waiting:
        node = waiting.pop()
        yield node
        for name in BLOCKS:
            found = getattr(node, name, None)
            if isinstance(found, list):  # of a lambda and of a conditional expression it is one expression
                waiting += found
