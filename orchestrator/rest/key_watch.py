"""The keys that clients have handed in follow their tokens: a token that is removed takes its keys along, and one that may do less by now
has keys that may do less."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

from cep.errors import CepError, NotFound
from orchestrator.rest.api import Api
from orchestrator.state.events import RegisterKey, RevokeKey

LOOK_S = 1.0


async def watch_keys(api: Api) -> None:
    """For ever; an orchestrator that does not lead has none."""
    while True:
        await asyncio.sleep(LOOK_S)
        with suppress(CepError):  # it does not lead, or ZooKeeper is away: the next look has it
            await follow_tokens(api)


async def follow_tokens(api: Api) -> None:
    """Raises what `Api.do` does."""
    if not api.tokens.are_asked_for:
        return
    for key in await api.ask(lambda state: list(state.keys.clients.values())):
        access = api.tokens.named(key.name)
        if access is None:
            with suppress(NotFound):  # it has just ended
                await api.do(RevokeKey(key.public))
        elif key.roles != (roles := tuple(map(str, access.roles))):
            await api.do(RegisterKey(replace(key, roles=roles)))
