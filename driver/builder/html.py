"""What notebooks show of our objects, as HTML. Whatever comes from users is text: nothing of it is read as markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def preformatted(text: str) -> str:
    return f"<pre>{escape(text)}</pre>"


def html_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    lines = ("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{names}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
