"""What a role is told: of each of its options the value, and where that comes from. A flag counts before the environment, that before the
file, and that before the default."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from cep.errors import ClusterError, meant
from driver.configuration.file import ConfigFile, Mistake, read_file
from driver.configuration.option import PREFIX, Option, Unfit
from driver.configuration.table import OPTIONS, OTHER_VARIABLES, options_of

CONFIG_VARIABLE = "CEP_CONFIG"
DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class ToldValue:
    """`source`: `flag --port`, `CEP_REST_PORT`, `cep.toml:3`, `default`, `default beside listen`."""

    option: Option
    value: Any
    source: str

    @property
    def shown(self) -> str:
        return self.option.shown(self.value)


@dataclass(frozen=True, slots=True)
class Told:
    """The values by option. `file`: the configuration they were read from; None: none was named."""

    values: Mapping[str, ToldValue]
    file: str | None = None

    def __getitem__(self, name: str) -> Any:
        return self.values[name].value

    def fields_of(self, kind: type) -> dict[str, Any]:
        """Those that are fields of `kind`, a dataclass, by the field's name."""
        known = {each.name for each in fields(kind)}
        return {each.option.field_name: each.value for each in self.values.values() if each.option.field_name in known}

    def required(self, name: str) -> Any:
        """Raises ClusterError: it was not given."""
        if self[name] in (None, ""):
            option = self.values[name].option
            raise ClusterError(f"expected {option.flag('')} or {option.variable}, or {name} in a configuration: {option.meaning}")
        return self[name]


def tell(role: str, flags: Mapping[str, Any], config: str | None = None) -> Told:
    """What `role` is told; `flags`: what stood on the command line, by option. What processes read from their environment is put there.

    Raises ClusterError: all that is wrong with it, a line each.
    """
    file = named_file(config)
    told, mistakes = resolve(options_of(role), role, flags, os.environ, file)
    if wrong := [*(file.mistakes if file else ()), *mistakes]:
        raise ClusterError("\n".join(map(str, wrong)))
    for each in told.values.values():
        if each.option.exported and each.value:
            os.environ[each.option.variable] = each.option.to_text(each.value)
    return told


def tell_all(config: str | None = None) -> tuple[Told, list[Mistake]]:
    """Every option, as environment and file say it; and what is wrong there."""
    file = named_file(config)
    told, mistakes = resolve(OPTIONS, "", {}, os.environ, file)
    return told, [*(file.mistakes if file else ()), *mistakes, *unknown_variables(os.environ)]


def named_file(config: str | None) -> ConfigFile | None:
    """`config`, else what the environment names; None: neither. Raises ClusterError: it cannot be read."""
    named = config or os.environ.get(CONFIG_VARIABLE)
    return read_file(Path(named)) if named else None


def resolve(
    options: Sequence[Option], role: str, flags: Mapping[str, Any], environ: Mapping[str, str], file: ConfigFile | None
) -> tuple[Told, list[Mistake]]:
    """The values, and what is wrong in flags and environment: an option with a mistake has its default."""
    mistakes: list[Mistake] = []
    found = {}
    for option in options:
        try:
            found[option.name] = next(_said(option, role, flags, environ, file))
        except Unfit as wrong:
            where, _, what = str(wrong).partition("\n")
            mistakes.append(Mistake(where, what))
            found[option.name] = ToldValue(option, option.default, DEFAULT)
    return Told({name: _beside(value, found) for name, value in found.items()}, None if file is None else file.path), mistakes


def _beside(value: ToldValue, found: Mapping[str, ToldValue]) -> ToldValue:
    """Where nothing is said of it: the default that it has beside another option that is said."""
    if value.source != DEFAULT or not value.option.beside:
        return value
    name, default = value.option.beside
    other = found.get(name)
    return value if other is None or other.source == DEFAULT else ToldValue(value.option, default, f"{DEFAULT} beside {name}")


def unknown_variables(environ: Mapping[str, str]) -> list[Mistake]:
    """Variables that look like options and are none."""
    known = {name for option in OPTIONS for name in option.variables} | OTHER_VARIABLES
    return [Mistake(name, f"no option{meant(name, known)}") for name in sorted(environ) if name.startswith(PREFIX) and name not in known]


def _said(option: Option, role: str, flags: Mapping[str, Any], environ: Mapping[str, str], file: ConfigFile | None) -> Iterator[ToldValue]:
    """All that is said about it, what counts first. Raises Unfit: a place, a newline, and what is wrong there."""
    if (given := flags.get(option.name)) not in (None, [], ()):
        flag = option.flag(role)
        yield ToldValue(option, _read(flag, _flag_reader(option), given), f"flag {flag}")
    for variable in option.variables:
        if text := environ.get(variable):  # an empty one is none: compose files hand on what they were not given
            yield ToldValue(option, _read(variable, option.from_text, text), variable)
    if file is not None and option.name in file.values:
        placed = file.values[option.name]
        yield ToldValue(option, placed.value, f"{file.path}:{placed.line}")
    yield ToldValue(option, option.default, DEFAULT)


def _flag_reader(option: Option) -> Callable[[Any], Any]:
    """The command line has read numbers already; a flag of a list may have been given several times."""
    if option.type is list:
        return lambda given: tuple(part for text in given for part in option.from_text(text))
    return option.from_toml


def _read(where: str, reader: Callable[[Any], Any], given: Any) -> Any:
    try:
        return reader(given)
    except Unfit as wrong:
        raise Unfit(f"{where}\n{wrong}") from None
