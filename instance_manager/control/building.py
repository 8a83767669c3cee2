"""An instance that is assigned to us, built: compiled, wired, and made ready for its fast path. It touches no socket and no ZooKeeper."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from cep.elements import State
from cep.errors import ClusterError, ProtocolError
from cep.model.shapes import read_shape
from cep.plan import physical
from cep.plan.checkpoints import CheckpointNumber, Manifest
from cep.plan.moving import is_dealt_anew
from cep.plan.physical import PhysicalPlan, Worker
from cep.transport.endpoints import host_of
from cep.transport.sockets import Sockets
from cep.world.archive import Archive
from instance_manager.control.assignment_checks import Assignment, Restore
from instance_manager.fast_path.form import prepare
from instance_manager.hosting import InstanceHost, Preparation
from instance_manager.recovery import scaled
from instance_manager.recovery.increments import PieceKey, completed
from instance_manager.recovery.pieces import reopen_readers, restore, states_in
from instance_manager.recovery.upgraded import as_read_by

#: By name and CRC: of a subquery that is dealt anew all instances here look at the same ones.
ReadPieces = dict[PieceKey, Sequence[State]]


def built(
    preparation: Preparation,
    assignment: Assignment,
    found: PhysicalPlan | ProtocolError | None,
    publishers: Mapping[str, Sequence[str]],
    pieces: ReadPieces,
) -> InstanceHost:
    """`pieces`: what has been read for others. Raises whatever is wrong with its plan, or with the functions of users that it calls."""
    if not isinstance(found, PhysicalPlan):
        raise found or ProtocolError(f"there is no plan of query {assignment.query!r}")
    config, plan = preparation.config, found
    if assignment.arrives_at(config.id):
        # As the plan will be when the instance is here; it is written so when that has come about.
        here = Worker(config.id, config.node, config.core, config.endpoint, host=host_of(config.endpoint))
        plan = plan.with_instance_at(assignment.subquery, assignment.instance, here)
    hosted = preparation.prepare(plan, assignment, inbound_channels(plan, config.id), publishers)
    if assignment.restore is not None and hosted.recovery is not None:
        _restore(hosted, plan, assignment, assignment.restore, pieces, preparation.sockets)
    prepare(hosted)
    return hosted


def _restore(hosted: InstanceHost, plan: PhysicalPlan, assignment: Assignment, from_: Restore, read: ReadPieces, sockets: Sockets) -> None:
    """It gets what it had at the checkpoint, or its part of what there was. Raises ClusterError: that cannot be read."""
    assert hosted.recovery is not None
    archive, subquery, index = hosted.recovery.archive, assignment.subquery, assignment.instance
    manifest = read_shape(Manifest, json.loads(bytes(archive.read(from_.manifest, from_.crc))))
    before, number = physical.from_json(manifest.plan), CheckpointNumber(*manifest.number).packed
    keys = {j: _piece(manifest, from_, f"{subquery}/{j}") for j in scaled.needed(before, plan, subquery, index)}
    found = {j: as_read_by(before, plan, _read(archive, key, number, read)) for j, key in keys.items()}
    wanted = {str(each["id"]) for each in assignment.subscriptions} | reopen_readers(hosted, found.get(index, ()), sockets)
    if not is_dealt_anew(before, plan):
        restore(hosted, found[index], wanted, number, own=keys[index])
        return
    own = list(scaled.of_its_own(before, plan, subquery, index, found))
    if is_dealt_anew(before, plan, subquery):
        restore(hosted, own, wanted, number, scaled.Shared(plan, subquery, index, found))
    else:
        restore(hosted, [*(state for state in found[index] if state.operator), *own], wanted, number, own=keys[index])


def _piece(manifest: Manifest, from_: Restore, place: str) -> PieceKey:
    pieces = manifest.pieces
    if place not in pieces:
        raise ClusterError(f"manifest {from_.manifest!r} has no piece of {place}; it has {', '.join(sorted(pieces))}")
    return pieces[place].piece, pieces[place].crc


def _read(archive: Archive, key: PieceKey, number: int, read: ReadPieces) -> Sequence[State]:
    if key not in read:
        read[key] = completed(states_in(archive.read(*key)), number, lambda each: states_in(archive.read(*each)))
    return read[key]


def inbound_channels(plan: PhysicalPlan, im: str) -> int:
    """How many channels of a plan end at an instance manager: they share its budget."""
    here = {(i.subquery, i.index) for i in plan.instances if i.im == im}
    fed = [plan.feeds[stream] for name, _ in here for stream in plan.subquery(name).streams if stream in plan.feeds]
    return sum(len(feed.producers) for feed in fed) + sum(
        (edge.target, j) in here for edge in plan.edges if edge.is_inner for _, j in plan.channels(edge)
    )
