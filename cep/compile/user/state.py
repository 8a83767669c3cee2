"""State that a user's function keeps: plain values, which can be packed into bytes quickly, and written down as text.

None, bool, int, float, str, bytes, and lists, tuples and dicts of them; nothing else, for nothing else would come back from a
snapshot as it was.
"""

from __future__ import annotations

import json
import marshal
from typing import Any

from cep.compile.user.values import WrongResult

_PLAIN = frozenset((type(None), bool, int, float, str, bytes))
#: How what JSON has not is written: {tag: content}.
_TAGS = {tuple: "tuple", dict: "dict", bytes: "bytes"}


Packed = bytes


def packed(state: Any) -> Packed:
    """`state` as it is kept between two calls: bytes, which a function cannot change. Raises WrongResult for other types."""
    _check(state)
    return marshal.dumps(state)


def unpacked(data: Packed) -> Any:
    """The state, a new one each time."""
    return marshal.loads(data)


def _check(state: Any) -> None:
    """By the very types: marshal takes whatever has a buffer for bytes."""
    kind = type(state)
    if kind is list or kind is tuple:
        parts = state
    elif kind is dict:
        parts = [*state, *state.values()]
    elif kind in _PLAIN:
        return
    else:
        raise WrongResult(f"a state is made of None, bool, int, float, str, bytes, list, tuple and dict; got {kind.__name__} in it")
    for part in parts:
        if type(part) not in _PLAIN:
            _check(part)


def state_to_text(state: Any) -> str:
    """As text."""
    return json.dumps(_tagged(state), separators=(",", ":"))


def state_from_text(text: str) -> Any:
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
