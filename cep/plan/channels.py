"""What a channel is called: the same at both of its ends, which make the name of the plan each for itself.

A query's inputs and outputs are edges of its plan, so channels of publishers and subscribers are named alike: one end is an instance, the
other a publisher or a subscription. A client says which instance it means by the channel without its own end (`ANY`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cep.model.ids import name_id
from cep.plan.physical import unmarked

#: An end of a channel: the index of an instance, the name of a publisher, the id of a subscription.
End = int | str
#: The end that is whichever client comes.
ANY = ""


@dataclass(frozen=True, slots=True)
class ChannelId:
    """The channel of edge `edge` of a query from instance `sender` of its source to instance `receiver` of its target.

    Args:
        edge: the edge's name, which for an input or an output is its stream; between the instances of one subquery, on which state goes,
            the subquery's.
        lineage: the deployment that it belongs to.
        attempt: how often that deployment has recovered.
        move: the last move of an instance that made it anew; 0: as it was deployed.
        holder: how many processes have had the subscription at its end before.
    """

    query: str
    edge: str
    sender: End
    receiver: End
    lineage: int = 0
    attempt: int = 0
    move: int = 0
    holder: int = 0

    @staticmethod
    def outlet(query: str, stream: str, producer: int, lineage: int, attempt: int = 0) -> ChannelId:
        """What a subscriber names instance `producer` of the subquery that puts out `stream` by."""
        return ChannelId(query, stream, producer, ANY, lineage, attempt)

    @staticmethod
    def entry(query: str, stream: str, reader: int, lineage: int, attempt: int = 0) -> ChannelId:
        """What a publisher names reader `reader` of `stream` by."""
        return ChannelId(query, stream, ANY, reader, lineage, attempt)

    @property
    def planned(self) -> ChannelId:
        """As the plan knows it, wherever its ends have moved."""
        return replace(self, move=0)

    def at(self, move: int) -> ChannelId:
        """The channel that takes its place when one of its ends moves."""
        return replace(self, move=move)

    def to(self, subscription: str, holder: int = 0) -> ChannelId:
        """The channel from this outlet to a subscription. Each `holder` has another one, so that what one process says is never taken for
        what the next one does."""
        return replace(self, receiver=subscription, holder=holder)

    def __str__(self) -> str:
        """For a person; of one deployment, no two are alike."""
        held, moved = f"+{self.holder}" if self.holder else "", f"#{self.move}" if self.move else ""
        return f"{unmarked(self.query)}/{self.edge}/{_text(self.sender)}>{_text(self.receiver)}{held}{moved}"

    @property
    def canonical(self) -> str:
        """What its number is the hash of."""
        return f"{self}@{self.lineage}.{self.attempt}"

    @property
    def id(self) -> int:
        """The 64 bits that stand for it in the header of a message."""
        return name_id(self.canonical)


def _text(end: End) -> str:
    """A client's name in quotes: it may be anything, also what an index looks like."""
    return repr(end) if isinstance(end, str) and end else str(end)


def publisher_channel(entry: int, publisher: str) -> int:
    """The id of the channel from a publisher to the entry with id `entry`: also one that does not know the entry can answer on it."""
    return name_id(f"{entry}<{publisher}")
