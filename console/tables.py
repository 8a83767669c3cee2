"""Tables of the pages: a row is a list of values, which the page shows as text.

The keys of a row are `c0`, `c1`, …, never a name that a user has chosen: NiceGUI reads a key that begins with a colon as JavaScript.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from nicegui import ui

PAGE_ROWS = 50


class Head(NamedTuple):
    """A column. `value`: how a value is shown; tables are sorted by the value itself. `css`: of its cells; `cut`: what is longer
    than its place is seen when one points at it."""

    name: str
    right: bool = False
    css: str = ""
    wide: bool = False


class Sheet:
    """A table whose rows are set again and again.

    Args:
        to: the address of the page of a row, by its first value; None: rows lead nowhere.
        state: the number of the column that is a state, drawn as a badge.
        filtered: has a field by which rows are looked for.
    """

    def __init__(
        self,
        heads: Sequence[Head],
        to: Callable[[str], str] | None = None,
        state: int | None = None,
        filtered: bool = False,
        rows: int = PAGE_ROWS,
        on_pick: Callable[[str], object] | None = None,
    ) -> None:
        self._heads, self._rows = heads, list[dict[str, Any]]()
        wanted = ui.input(placeholder="filter  /").props("dense outlined clearable").classes("filter w-64") if filtered else None
        columns = [_column(i, head) for i, head in enumerate(heads)]
        self.table = ui.table(columns=columns, rows=[], row_key="key", pagination={"rowsPerPage": rows}).props(
            "flat dense wrap-cells=false"
        )
        self.table.props["no-data-label"] = "nothing yet"
        if wanted is not None:
            wanted.bind_value_to(self.table, "filter", forward=lambda text: text or "")
        if state is not None:
            self.table.add_slot(f"body-cell-c{state}", _STATE)
        for i in (i for i, head in enumerate(heads) if head.css == "cut"):
            self.table.add_slot(f"body-cell-c{i}", _CUT)
        if to is not None or on_pick is not None:
            self.table.on("rowClick", lambda event: _picked(event.args[1], to, on_pick))
            self.table.classes("picked")

    def show(self, rows: Sequence[Sequence[object]]) -> None:
        """Each row: a value for each head; one that is a tuple is (what is shown, by what it is sorted)."""
        told = [_told(i, row) for i, row in enumerate(rows)]
        if told != self._rows:
            self._rows = told
            self.table.rows = told
            bottom = len(told) > PAGE_ROWS
            self.table.props["hide-bottom"] = bool(told) and not bottom


_STATE = """<q-td :props="props"><span :class="'state ' + props.value">{{ props.value }}</span></q-td>"""


_CUT = """<q-td :props="props"><div class="cut" :title="props.value">{{ props.value }}</div></q-td>"""


def _column(number: int, head: Head) -> dict[str, Any]:
    values = f"const x = r['sort{number}'] ?? a, y = s['sort{number}'] ?? b"
    sort = f"(a, b, r, s) => {{ {values}; return x < y ? -1 : x > y ? 1 : 0 }}"
    return {
        "name": f"c{number}",
        "label": head.name,
        "field": f"c{number}",
        "align": "right" if head.right else "left",
        "sortable": True,
        ":sort": sort,
        "classes": f"{'wide' if head.wide else ''} {head.css}".strip(),
    }


def _told(number: int, row: Sequence[object]) -> dict[str, Any]:
    told: dict[str, Any] = {"key": number, "name": str(row[0][0] if isinstance(row[0], tuple) else row[0])}
    for i, value in enumerate(row):
        if isinstance(value, tuple):
            told[f"c{i}"], told[f"sort{i}"] = value
        else:
            told[f"c{i}"] = value
    return told


def _picked(row: dict[str, Any], to: Callable[[str], str] | None, on_pick: Callable[[str], object] | None) -> object:
    """What is to be awaited, if it is that."""
    if to is not None:
        ui.navigate.to(to(str(row["name"])))
        return None
    return None if on_pick is None else on_pick(str(row["name"]))
