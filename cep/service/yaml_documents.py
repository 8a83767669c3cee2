"""YAML as the core schema of its version 1.2 has it: only true and false are bools, so that a join's `on` stays a key; a date is a text;
`010` is ten; and a key stands once in its mapping. libyaml scans it; what it is made of is put together here, so that it has no aliases, no
tags, not too much depth, and no long numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import yaml
from yaml.composer import Composer

DEPTH_MAX = 250
"""How much may be in each other. 100 operations of an expression (`cep.model.expr`) take 200."""

TOO_DEEP = f"more than {DEPTH_MAX} lists and mappings are in each other"

NUMBER_CHARS_MAX = 100
"""Of anything but a text: reading a number takes time with the square of its length, and none of 64 bits needs so many."""

_NULL, _BOOL, _INT, _FLOAT, _TEXT = (f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float", "str"))
_BASES = {"0o": 8, "0x": 16}
T = TypeVar("T")


class _Loader(Composer, yaml.CSafeLoader):
    """With the composer that is written in Python: libyaml's own goes as deep as the document says, on the machine's stack."""

    depth = 0

    def __init__(self, text: str | bytes) -> None:
        yaml.CSafeLoader.__init__(self, text)
        Composer.__init__(self)

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: Any = self.peek_event()
        if isinstance(event, yaml.events.AliasEvent):
            # One that stands for what holds it, or for two of another that stands for two, would be a document without end.
            raise _refused(f"write out what *{event.anchor} stands for: aliases are not read", event)
        if event.tag not in (None, "!"):
            raise _refused(f"tags such as {event.tag[:100]} are not read", event)
        if self.depth == DEPTH_MAX:
            raise _refused(TOO_DEEP, event)
        self.depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1

    def compose_scalar_node(self, anchor: Any) -> Any:
        node = super().compose_scalar_node(anchor)
        if node.tag != _TEXT and len(node.value) > NUMBER_CHARS_MAX:
            raise _refused(f"{node.value[:20]}… is a number of {len(node.value):,} characters", node)
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        found: dict[Hashable, Any] = {}
        lines: dict[Hashable, int] = {}
        for key_node, value_node in node.value:
            key = self.construct_object(key_node, deep=deep)
            if not isinstance(key, Hashable):
                raise _refused("a list or a mapping is no key", key_node)
            if key in found:
                raise _refused(f"the key {str(key)[:100]!r} stands in line {lines[key]} already; a mapping has each key once", key_node)
            found[key] = self.construct_object(value_node, deep=deep)
            lines[key] = key_node.start_mark.line + 1
        return found

    def construct_yaml_int(self, node: Any) -> int:
        return int(node.value.removeprefix("0o"), _BASES.get(node.value[:2], 10))


def _refused(why: str, where: Any) -> yaml.YAMLError:
    return yaml.composer.ComposerError(None, None, why, where.start_mark)


_CORE = (
    (_NULL, "~|null|Null|NULL|", ["~", "n", "N", ""]),
    (_BOOL, "true|True|TRUE|false|False|FALSE", list("tTfF")),
    (_INT, "[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    (_FLOAT, r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", list("-+.0123456789")),
)


class _Dumper(yaml.SafeDumper):
    """It puts texts in quotes that either version would read as something else."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Loader.yaml_implicit_resolvers = {}  # none of version 1.1
for _tag, _pattern, _first in _CORE:
    for _each in (_Loader, _Dumper):
        _each.add_implicit_resolver(_tag, re.compile(rf"(?:{_pattern})\Z"), _first)
_Loader.add_constructor(_INT, _Loader.construct_yaml_int)


def load_yaml_documents(text: str | bytes) -> list[Any]:
    """All documents of a text, which `---` separates. Raises ValueError where one is none."""
    return _read(lambda: list(yaml.load_all(text, _Loader)))  # safe: built on SafeLoader


def load_yaml(text: str | bytes) -> Any:
    """The document. Raises ValueError where it is none."""
    return _read(lambda: yaml.load(text, _Loader))  # safe: built on SafeLoader


def written_yaml(document: Any) -> str:
    """A text that is read as this document."""
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    return text


def _read(load: Callable[[], T]) -> T:
    try:
        return load()
    except (yaml.YAMLError, RecursionError) as error:
        # The scanner looks ahead of what is composed here, and has a bound of its own: 1,000 since PyYAML 6.0.4.
        raise ValueError(TOO_DEEP if "nesting depth" in str(error) else str(error)) from error
