"""What clients and other instance managers say in JSON, as what it has to be.

What is said stays: a name, an endpoint or a time that is none would be found later, by a tick or a heartbeat that serves all. So each
is looked at before anything is done with it. All functions raise ProtocolError, which names the key, what was expected and what was got.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from cep.elements import MAX_TIME, MIN_TIME
from cep.errors import ProtocolError
from cep.model.limits import KEEP_S_MAX
from cep.transport import wire
from cep.transport.sockets import is_endpoint

TEXT_CHARACTERS_MAX = 4096
COUNT_MAX = 1 << wire.COUNT_BITS


def document_of(body: Any) -> dict[str, Any]:
    found = wire.from_json(body)
    if not isinstance(found, dict):
        raise ProtocolError(f"expected a JSON object, got {found!r:.200}")
    return found


def text(document: Mapping[str, Any], key: str, default: str | None = None) -> str:
    found = document.get(key, default)
    if not isinstance(found, str) or len(found) > TEXT_CHARACTERS_MAX:
        raise _unexpected(key, f"a text of at most {TEXT_CHARACTERS_MAX} characters", found)
    try:
        found.encode()
    except UnicodeEncodeError:
        raise _unexpected(key, "a text without halves of characters", found) from None
    return found


def texts(document: Mapping[str, Any], key: str) -> list[str]:
    found = document.get(key)
    if not isinstance(found, list):
        raise _unexpected(key, "a list of texts", found)
    return [text({key: each}, key) for each in found]


def endpoint(document: Mapping[str, Any], ours: str, key: str = "endpoint") -> str:
    """An address that can be sent to from an endpoint of the same kind, `ours`."""
    found = text(document, key)
    if not is_endpoint(found, ours):
        raise _unexpected(key, f"an endpoint like {ours}", found)
    return found


def flag(document: Mapping[str, Any], key: str, default: bool | None = None) -> bool:
    found = document.get(key, default)
    if not isinstance(found, bool):
        raise _unexpected(key, "true or false", found)
    return found


def read_count(document: Mapping[str, Any], key: str, default: int | None = None, most: int = COUNT_MAX) -> int:
    found = document.get(key, default)
    if type(found) is not int or not 0 <= found <= most:
        raise _unexpected(key, f"an integer from 0 to {most}", found)
    return found


def time(document: Mapping[str, Any], key: str) -> int:
    """An event time, µs, or that there is none yet."""
    found = document.get(key)
    if type(found) is not int or not MIN_TIME <= found <= MAX_TIME:
        raise _unexpected(key, "an event time in µs", found)
    return found


def read_seconds(document: Mapping[str, Any], key: str, default: float) -> float:
    found = document.get(key, default)
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found) or not 0 <= found <= KEEP_S_MAX:
        raise _unexpected(key, f"seconds from 0 to {KEEP_S_MAX:.0f}", found)
    return float(found)


def _unexpected(key: str, expected: str, got: Any) -> ProtocolError:
    return ProtocolError(f"{key}: expected {expected}, got {got!r:.200}")
