"""YAML as its version 1.2 has it: of the words of version 1.1 only true and false are bools, so that a join's `on` stays a key."""

from __future__ import annotations

import re
from typing import Any

import yaml


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # which has no types
    def compose_node(self, parent: Any, index: Any) -> Any:
        """An alias that stands for what holds it, or for two of another that stands for two, would be a document without end."""
        if self.check_event(yaml.events.AliasEvent):
            alias = self.peek_event()
            raise yaml.composer.ComposerError(
                None, None, f"write out what *{alias.anchor} stands for: aliases are not read", alias.start_mark
            )
        return super().compose_node(parent, index)


_BOOL = "tag:yaml.org,2002:bool"
_Loader.yaml_implicit_resolvers = {
    letter: [(tag, pattern) for tag, pattern in resolvers if tag != _BOOL]
    for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_BOOL, re.compile("^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))


def load_yaml_documents(text: str | bytes) -> list[Any]:
    """All documents of a text, which `---` separates. Raises ValueError where one is none."""
    try:
        return list(yaml.load_all(text, _Loader))  # safe: built on SafeLoader
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def load_yaml(text: str | bytes) -> Any:
    """The document. Raises ValueError where it is none."""
    try:
        return yaml.load(text, _Loader)  # safe: built on SafeLoader
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
