"""REST: the keys of the data plane. A client hands in its public key, which may do there what the token may that it is handed in with: a
token that is removed takes its keys along, and one that may do less by now has keys that may do less."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from cep.errors import CepError, Conflict, NotFound
from cep.service.keys import ClientKey
from cep.transport.curve import new_pair, public_key
from orchestrator.rest import audit, models
from orchestrator.rest.api import Api, Asking, InjectedApi
from orchestrator.rest.bodies import DocumentRoute
from orchestrator.state.cluster_state import ClusterState
from orchestrator.state.events import RegisterKey, RevokeKey, RotateMembersKey
from orchestrator.state.keys import NO_KEYS

LOOK_S = 1.0  # between looks at the tokens
router = APIRouter(route_class=DocumentRoute)


@router.post("/keys", status_code=201, response_model=models.RegisteredKey)
async def register(handed: models.HandedKey, request: Request, api: InjectedApi, access: Asking) -> Any:
    """Hands in a client's public key. It may do on the data plane what the token may, until it ends or is handed in again; the answer has
    the members' public key, which they prove to have."""
    key = ClientKey(public_key(handed.public), access.name, tuple(map(str, access.roles)), api.clock.wall_ns() / 1e9 + handed.seconds)
    audit.about(request, key.public)
    await api.do(RegisterKey(key))
    return key.to_json() | {"members": await _members(api)}


@router.get("/keys", response_model=list[models.ClientKeyInfo])
async def list_keys(api: InjectedApi) -> Any:
    """The keys that clients have handed in and that have not ended, by the names of their tokens."""
    found = await api.ask(lambda state: list(state.keys.clients.values()))
    return [key.to_json() for key in sorted(found, key=lambda key: (key.name, key.public))]


@router.delete("/keys", status_code=204)
async def revoke(public: Annotated[str, Query(max_length=64, description="A public key.")], request: Request, api: InjectedApi) -> None:
    """A client's key counts no more."""
    key = public_key(public)
    audit.about(request, key)
    await api.do(RevokeKey(key))


@router.get("/keys/members", response_model=models.MembersKey)
async def members(api: InjectedApi) -> Any:
    """The members' public key."""
    return {"members": await _members(api)}


@router.post("/keys/members", response_model=models.MembersKey)
async def rotate(request: Request, api: InjectedApi) -> Any:
    """The members have a new key pair from now on, while everything runs: links are made anew, and nothing is lost."""
    audit.about(request, "members")
    await _members(api)
    await api.do(RotateMembersKey(new_pair()))
    return {"members": await _members(api)}


async def _members(api: Api) -> str:
    """Raises Conflict: there is none."""

    def public(state: ClusterState) -> str:
        if state.keys.members is None:
            raise Conflict(NO_KEYS)
        return state.keys.members.public

    return await api.ask(public)


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
