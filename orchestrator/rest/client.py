"""Which client asks: the name of its token, as what lets requests in has found it; empty where there is but one."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

_KEY = "cep.client"


def note_client(scope: MutableMapping[str, Any], name: str) -> None:
    """For what stands behind: rates, quotas, the audit."""
    scope[_KEY] = name


def client_of(scope: MutableMapping[str, Any]) -> str:
    return str(scope.get(_KEY, ""))
