"""What becomes otherwise when an application is applied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Action = Literal["create", "extend", "adopt", "change", "redeclare", "upgrade", "fresh", "replace", "restart", "remove", "refused"]
"""`change`: a query is to become another one. The cluster says how: by an upgrade; by one in which operators begin with no state, `fresh`;
or by being deleted and deployed again, `replace`."""

Kind = Literal["stream", "query", "connector"]


@dataclass(frozen=True, slots=True)
class Change:
    """Something that is to become otherwise. `lines`: what of it; `why`: it is refused, or replaced and not upgraded."""

    kind: Kind
    name: str
    action: Action
    lines: tuple[str, ...] = ()
    why: str = ""
