"""The life of a query, as tables. The code, its errors, the tests and `mermaid()`, the docs' diagram, all read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

LIFE_CYCLE: dict[str, dict[str, str]] = {
    "accepted": {"assign": "deploying"},
    "deploying": {"failure": "failed", "loss": "recovering", "all ready": "ready", "stop": "stopping", "drain": "stopping"},
    "ready": {
        "failure": "failed",
        "loss": "recovering",
        "all ended": "ended",
        "all running": "running",
        "stop": "stopping",
        "drain": "draining",
    },
    "running": {"failure": "failed", "loss": "recovering", "all ended": "ended", "stop": "stopping", "drain": "draining"},
    "draining": {"failure": "failed", "loss": "recovering", "all ended": "stopped", "stop": "stopping"},
    "stopping": {"all over": "stopped"},
    "stopped": {},
    "ended": {},
    "failed": {},
    "recovering": {
        "failure": "failed",
        "loss": "recovering",
        "ready again": "ready",
        "running again": "running",
        "draining again": "draining",
        "stop": "stopping",
    },
}
"""state -> {signal: next state}. Signals of a row are tried in its order. A `loss` is what a query that recovers goes on from."""

DESIRED = {"deploying": "ready", "recovering": "ready", "running": "run", "draining": "drain", "stopping": "stop", "failed": "fail"}
"""What a query's instances are asked to be once it enters a state; states without an entry change nothing.
A query in `ready` asks for `run` as soon as it is to start."""

_REACHED = {
    "all ready": frozenset(("ready", "running", "ended")),
    "all running": frozenset(("running", "ended")),
    "all ended": frozenset(("ended",)),
    "all over": frozenset(("ended", "stopped", "failed", "gone")),
}
"""Signal -> the statuses that all instances must have for it; `gone`: the instance manager is not there any more."""

READABLE = frozenset(("ready", "running", "recovering"))
"""A publisher of a stream it reads is told of a query in these states."""

STARTABLE = frozenset(("accepted", "deploying", "ready", "running", "recovering"))
"""A query in these states may be told to start."""

STOPPING = frozenset(("stopping", "draining"))
"""A query in these states does what `stop` asks for already."""


def is_over(state: str) -> bool:
    """Nothing changes such a query any more."""
    return not LIFE_CYCLE[state]


def signals(statuses: Iterable[str | None]) -> frozenset[str]:
    """What the instances' statuses (None: none yet) say together."""
    seen = frozenset(statuses)
    return frozenset(signal for signal, reached in _REACHED.items() if seen <= reached)


def step(state: str, seen: frozenset[str]) -> str | None:
    """The next state, given the signals that hold now; None: it stays."""
    return next((target for signal, target in LIFE_CYCLE[state].items() if signal in seen), None)


def mermaid() -> str:
    """The table as a state diagram for the docs."""
    return "\n".join(["stateDiagram-v2", "    [*] --> accepted", *_arrows()])


def _arrows() -> Iterator[str]:
    for state, row in LIFE_CYCLE.items():
        yield from (f"    {state} --> {target}: {signal}" for signal, target in row.items())
        if not row:
            yield f"    {state} --> [*]"
