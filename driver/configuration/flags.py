"""The flags of a role, made of the table: a role is a function of what it is told, and the command line is read before it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from driver.configuration.option import Option
from driver.configuration.table import options_of
from driver.configuration.told import CONFIG_VARIABLE, tell

CONFIG = typer.Option("--config", metavar="FILE", help=f"A TOML file with options ({CONFIG_VARIABLE}).")
"""Which file: of a role, of `cep` itself, of `cep config show`."""


def role_command(role: str, function: Callable[..., None]) -> Callable[..., None]:
    """`function` as a command: its first parameter is a `Told`, which the command line, the environment and the file make up; the others
    are arguments of its own."""
    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    options = options_of(role)

    def run(context: typer.Context, config: str | None, **given: Any) -> None:
        flags = {option.name: given.pop(option.name) for option in options}
        function(tell(role, flags, config or root_config(context)), **given)

    parameters = [_parameter("context", typer.Context, inspect.Parameter.empty), _parameter("config", Annotated[str | None, CONFIG])]
    parameters += [_parameter(option.name, _annotation(option, role)) for option in options]
    whole = inspect.Signature([*(each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own), *parameters])
    run.__signature__ = whole  # type: ignore[attr-defined]  # typer reads the command's parameters from it
    run.__annotations__ = {each.name: each.annotation for each in whole.parameters.values()}
    run.__name__, run.__doc__ = role, function.__doc__
    return run


def root_config(context: typer.Context) -> str | None:
    """The file that `cep --config FILE COMMAND` names."""
    found = context.find_root().params.get("config")
    return None if found is None else str(found)


def _parameter(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _annotation(option: Option, role: str) -> Any:
    """None: the flag was not given."""
    flag = option.flag(role)
    names = f"{flag}/--no-{flag.removeprefix('--')}" if option.type is bool else flag
    is_number = option.type in (int, float)
    bounds: dict[str, Any] = {"min": option.least, "max": option.most} if is_number else {}
    kind = list[str] | None if option.type is list else option.type | None
    return Annotated[kind, typer.Option(names, help=help_text(option), show_default=False, rich_help_panel=option.panel, **bounds)]


def help_text(option: Option) -> str:
    """Its meaning, unit, variable and default."""
    unit = f" In {option.unit}." if option.unit else ""
    several = f" Several with {option.separator!r}, or the flag several times." if option.type is list else ""
    beside = "; beside {} {}".format(*option.beside) if option.beside else ""
    default = "" if option.default in (None, ()) else f"; default {option.default}{beside}"
    return f"{option.meaning}{unit}{several} ({option.variable}{default})"
