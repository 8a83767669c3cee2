"""What a channel is called: structured, and the same canonical name at both of its ends."""

from __future__ import annotations

from dataclasses import astuple, replace

from hypothesis import given
from hypothesis import strategies as st

from cep.plan.channels import ANY, ChannelId, publisher_channel

NUMBERS = st.integers(0, 2**31)
NAMES = st.text("ab/>~#@.0", min_size=1, max_size=4)
#: An instance's index, or what a client may call itself: also what looks like an index, or like the rest of a name.
ENDS = NUMBERS | st.sampled_from([ANY, "0", "1", "0>1", "'0'", "a/0>1@7.0", "p\\'"]) | st.text("01>'\"@", max_size=4)
CHANNELS = st.builds(ChannelId, NAMES, st.sampled_from(["a>b", "b>a", "SQ2"]), ENDS, ENDS, NUMBERS, NUMBERS, NUMBERS, NUMBERS)


@given(CHANNELS, CHANNELS)
def test_two_channels_have_two_canonical_names(one: ChannelId, other: ChannelId) -> None:
    assert (one == other) == (one.canonical == other.canonical)
    assert ChannelId(*astuple(one)) == one and ChannelId(*astuple(one)).canonical == one.canonical


@given(CHANNELS, NUMBERS)
def test_a_move_makes_another_channel_of_the_same_plan(channel: ChannelId, move: int) -> None:
    moved = channel.at(move)
    assert moved.planned == channel.planned == replace(channel, move=0) and moved.move == move
    assert (moved.canonical == channel.canonical) == (move == channel.move)


def test_what_people_read_has_no_deployment() -> None:
    assert str(ChannelId("per-ip", "pick>window", 0, 1, lineage=7)) == "per-ip/pick>window/0>1"
    assert str(ChannelId("per-ip", "pick>window", 0, 1, lineage=7, move=3)) == "per-ip/pick>window/0>1#3"
    assert ChannelId("per-ip", "pick>window", 0, 1, 7, 2, 3).canonical == "per-ip/pick>window/0>1#3@7.2"


def test_a_client_names_an_instance_of_one_deployment() -> None:
    """By the channel without its own end; a publisher and a subscriber of one stream mean different ones."""
    outlet, entry = ChannelId.outlet("q", "s", 0, 7), ChannelId.entry("q", "s", 0, 7)
    assert (outlet.canonical, entry.canonical) == ("q/s/0>@7.0", "q/s/>0@7.0")
    assert outlet.to("mine") == ChannelId("q", "s", 0, "mine", 7) and str(outlet.to("mine")) == "q/s/0>'mine'"
    assert str(outlet.to("mine", 2)) == "q/s/0>'mine'+2" and outlet.to("mine", 2).id not in (outlet.to("mine+2").id, outlet.to("mine").id)
    ids = [each.id for lineage in (7, 8) for each in (ChannelId.outlet("q", "s", 0, lineage), ChannelId.entry("q", "s", 0, lineage))]
    channels = [publisher_channel(id_, name) for id_ in ids for name in ("a", "b")]
    assert len({*ids, *channels}) == len(ids) + len(channels)
