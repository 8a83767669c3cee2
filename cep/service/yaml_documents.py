"""YAML as its version 1.2 has it: of the words of version 1.1 only true and false are bools, so that a join's `on` stays a key, and a date
is a text. libyaml scans it; what it is made of is put together here, so that it has no aliases, no tags, not too much depth, and no
long numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import yaml
from yaml.composer import Composer

DEPTH_MAX = 250
"""How much may be in each other. 100 operations of an expression (`cep.model.expr`) take 200."""

TOO_DEEP = f"more than {DEPTH_MAX} lists and mappings are in each other"

NUMBER_CHARS_MAX = 100
"""Of anything but a text: one of version 1.1 may be in base 60, whose reading takes time with the square of its length."""

_BOOL, _DATE, _TEXT = (f"tag:yaml.org,2002:{name}" for name in ("bool", "timestamp", "str"))
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


def _refused(why: str, where: Any) -> yaml.YAMLError:
    return yaml.composer.ComposerError(None, None, why, where.start_mark)


_Loader.yaml_implicit_resolvers = {
    letter: [(tag, pattern) for tag, pattern in resolvers if tag not in (_BOOL, _DATE)]
    for letter, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_BOOL, re.compile("^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))


def load_yaml_documents(text: str | bytes) -> list[Any]:
    """All documents of a text, which `---` separates. Raises ValueError where one is none."""
    return _read(lambda: list(yaml.load_all(text, _Loader)))  # safe: built on SafeLoader


def load_yaml(text: str | bytes) -> Any:
    """The document. Raises ValueError where it is none."""
    return _read(lambda: yaml.load(text, _Loader))  # safe: built on SafeLoader


def _read(load: Callable[[], T]) -> T:
    try:
        return load()
    except (yaml.YAMLError, RecursionError) as error:
        # The scanner looks ahead of what is composed here, and has a bound of its own: 1,000 since PyYAML 6.0.4.
        raise ValueError(TOO_DEEP if "nesting depth" in str(error) else str(error)) from error
