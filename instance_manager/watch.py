"""Which of the loop's work was slow: a piece that the meter found slow gets its place, as `cep top` names it."""

from __future__ import annotations

from cep.dataflow.meter import Account
from cep.world.stalls import SLOW_NS, Place, Stalls
from instance_manager.accounts import step_accounts
from instance_manager.loop import Loop

ROUNDED_NS = 1_000_000  # so much later than it was to, the loop wakes by intention (`Loop._park`)
KNOWN_MAX = 1_024  # accounts whose places are remembered: steps of large batches are slow again and again


class Watch:
    """Tells `stalls` of what holds `loop` up."""

    def __init__(self, loop: Loop, stalls: Stalls) -> None:
        self._loop, self._stalls = loop, stalls
        own = loop.accounts
        self._own = {
            id(own.rest): Place("loop"),
            id(own.commands): Place("commands"),
            id(own.ticks): Place("tick"),
            id(own.reports): Place("report"),
            id(loop.network.account): Place("network"),
        }
        self._known: dict[int, tuple[Account, Place]] = {}
        loop.meter.slow, loop.meter.came_round = self._slow, stalls.refresh

    def _slow(self, account: Account, spent_ns: int) -> None:
        loop, now = self._loop, self._loop.meter.mark
        if account is not loop.idle:
            self._stalls.took(self._place(account), spent_ns, now)
        elif (late_ns := now - loop.next_tick - ROUNDED_NS) > SLOW_NS and not loop.in_doubt:
            self._stalls.late(late_ns, now)
        else:
            self._stalls.slept(now)

    def _place(self, account: Account) -> Place:
        if (place := self._own.get(id(account))) is not None:
            return place
        known = self._known.get(id(account))
        if known is None or known[0] is not account:
            if len(self._known) == KNOWN_MAX:
                self._known.clear()
            known = self._known[id(account)] = account, self._found(account)
        return known[1]

    def _found(self, account: Account) -> Place:
        hosted = self._loop.hosted.get(account.owner)
        if hosted is None:
            return Place("an instance that is gone", account.owner)
        instance = hosted.instance
        where = instance.query, instance.subquery, instance.index
        for step in step_accounts(hosted):
            if step.account is account:
                return Place(step.step, step.name, *where)
        return Place("fast path", "+".join(node.operator.name for node in instance.nodes), *where)
