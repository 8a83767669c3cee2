"""Which instance should move to another instance manager, so that no core has much more to do than the others: a pure function.

Hysteresis: nothing moves before the busiest instance manager uses `BUSY` of its core and is `START` over the mean; and an instance moves
only if the busier of the two has then `GAIN` less to do than the busiest has now. So noise smaller than that moves nothing, what moved
does not move back, and an instance that is nearly all of its load stays, for the load would only be elsewhere. Distance is dear: a target
on the same node is taken if one helps, else one on the same host, however much better another would be.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

BUSY, START, GAIN = 0.5, 1.25, 0.1
#: Of a core: what costs less is not worth a move.
SHARE_MIN = 0.02


@dataclass(frozen=True, slots=True)
class ManagerLoad:
    """An instance manager; `busy`: the share of its core that its instances used."""

    im: str
    node: int | None
    busy: float
    host: str = ""  # the name of its machine


@dataclass(frozen=True, slots=True)
class MovableInstance:
    """An instance of the busiest instance manager that may move; `share`: of a core, what it used; `stays`: on its host."""

    key: Hashable
    share: float
    stays: bool = False


def busiest(hosts: Sequence[ManagerLoad]) -> ManagerLoad | None:
    """The instance manager that has so much more to do than the others that something should be done; None: there is none."""
    if len(hosts) < 2:
        return None
    most = max(hosts, key=lambda host: host.busy)
    mean = sum(host.busy for host in hosts) / len(hosts)
    return most if most.busy >= BUSY and most.busy > START * mean else None


def chosen_move(hosts: Sequence[ManagerLoad], source: ManagerLoad, candidates: Iterable[MovableInstance]) -> tuple[Hashable, str] | None:
    """The instance that should leave `source`, and the instance manager where it should go; None: nothing would help."""
    worth = [each for each in candidates if each.share >= SHARE_MIN]
    others = [host for host in hosts if host.im != source.im]
    here = [host for host in others if host.host == source.host]
    near = [host for host in here if host.node == source.node]
    return _best(near, source, worth) or _best(here, source, worth) or _best(others, source, [each for each in worth if not each.stays])


def _best(targets: Sequence[ManagerLoad], source: ManagerLoad, candidates: Iterable[MovableInstance]) -> tuple[Hashable, str] | None:
    """The move, of all that help, after which the busier of the two has least to do."""
    idlest = min(targets, key=lambda host: host.busy, default=None)
    if idlest is None:
        return None
    after = [(max(source.busy - each.share, idlest.busy + each.share), each) for each in candidates]
    least = min(after, key=lambda each: each[0], default=None)
    return (least[1].key, idlest.im) if least is not None and least[0] <= (1 - GAIN) * source.busy else None
