"""State that a user's function keeps: plain values, which can be copied, measured, and written down as text.

None, bool, int, float, str, bytes, and lists, tuples and dicts of them; nothing else, for nothing else would come back from a
snapshot as it was.
"""

from __future__ import annotations

import json
from typing import Any

from cep.compile.user_values import WrongResult

_WORD_BYTES = 8
_SCALARS = frozenset((type(None), bool, int, float))
_TEXTS = frozenset((str, bytes))
#: How what JSON has not is written: {tag: content}.
_TAGS = {tuple: "tuple", dict: "dict", bytes: "bytes"}


def copied(state: Any) -> tuple[Any, int]:
    """`state`, nothing of it shared that can change, and about how many bytes it has. Raises WrongResult for other types."""
    kind = type(state)
    if kind in _SCALARS:
        return state, _WORD_BYTES
    if kind in _TEXTS:
        return state, _WORD_BYTES + len(state)
    if kind is dict:
        keys, values = copied(list(state.keys())), copied(list(state.values()))
        return dict(zip(keys[0], values[0], strict=True)), keys[1] + values[1]
    if kind is list or kind is tuple:
        parts = [copied(part) for part in state]
        return kind(part for part, _ in parts), _WORD_BYTES + sum(size for _, size in parts)
    raise WrongResult(f"a state is made of None, bool, int, float, str, bytes, list, tuple and dict; got {kind.__name__} in it")


def written(state: Any) -> str:
    """As text."""
    return json.dumps(_tagged(state), separators=(",", ":"))


def read(text: str) -> Any:
    """What was written."""
    return _untagged(json.loads(text))


def _tagged(state: Any) -> Any:
    match state:
        case bytes():
            return {_TAGS[bytes]: state.hex()}
        case tuple():
            return {_TAGS[tuple]: [_tagged(part) for part in state]}
        case list():
            return [_tagged(part) for part in state]
        case dict():
            return {_TAGS[dict]: [[_tagged(key), _tagged(value)] for key, value in state.items()]}
    return state


def _untagged(state: Any) -> Any:
    match state:
        case {"bytes": text}:
            return bytes.fromhex(text)
        case {"tuple": parts}:
            return tuple(_untagged(part) for part in parts)
        case {"dict": pairs}:
            return {_untagged(key): _untagged(value) for key, value in pairs}
        case list():
            return [_untagged(part) for part in state]
    return state
