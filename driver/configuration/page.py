"""The table of docs/configuration.md."""

from __future__ import annotations

from itertools import groupby

from driver.configuration.option import Option
from driver.configuration.table import OPTIONS

_HEAD = "| option | type | default | what it means | read by, with the flag |\n|---|---|---|---|---|\n"


def table() -> str:
    """All options in Markdown, by groups."""
    parts = (f"### {title}\n\n{_HEAD}{''.join(map(_row, options))}" for title, options in groupby(OPTIONS, _title))
    return "\n".join(parts)


def _title(option: Option) -> str:
    return option.panel


def _row(option: Option) -> str:
    kind = f"{option.type_name}{option.bounds}{', ' + option.unit if option.unit else ''}" + (", secret" if option.secret else "")
    readers = "; ".join(f"`{flag}` {', '.join(roles)}" for flag, roles in _by_flag(option).items())
    return f"| `{option.name}` | {kind} | {_default(option)} | {option.meaning} | {readers} |\n"


def _by_flag(option: Option) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for role in option.roles:
        found.setdefault(option.flag(role), []).append(role)
    return found


def _default(option: Option) -> str:
    value = option.default
    if value is None:
        return ""
    if value == ():
        return "`[]`"
    beside = "; beside `{}` `{}`".format(*option.beside) if option.beside else ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`{beside}"
