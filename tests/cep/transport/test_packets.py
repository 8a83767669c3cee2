"""What goes into packets comes out of them, whatever its sizes, and what is no packet is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.errors import ProtocolError
from cep.transport import wire
from cep.transport.packets import GATHER_BYTES, PART_BYTES, Gatherer, Unpacker
from cep.transport.wire import SIZED_BYTES, Header

SIZES = [0, 1, 7, 200, GATHER_BYTES - 1, GATHER_BYTES]
#: Runs of messages: channel, bytes of each body, how many.
RUNS = st.lists(st.tuples(st.integers(1, 3), st.sampled_from(SIZES), st.integers(1, 5)), max_size=8)


def messages(runs: list[tuple[int, int, int]]) -> list[tuple[Header, bytes]]:
    each = [(channel, size) for channel, size, count in runs for _ in range(count)]
    return [(Header(wire.BATCH, channel, i, record=i), bytes([i % 256]) * size) for i, (channel, size) in enumerate(each)]


def unpacked(parts: list[bytes]) -> list[tuple[Header, bytes]]:
    return [(header, bytes(body)) for header, body in Unpacker({}).messages(parts)]


@given(RUNS)
def test_what_goes_in_comes_out_in_order(runs: list[tuple[int, int, int]]) -> None:
    given_, gatherer = messages(runs), Gatherer()
    packets = [packet for header, body in given_ for packet in gatherer.add(header, body)] + gatherer.cut()
    assert [message for packet in packets for message in unpacked(list(packet.parts))] == given_


def test_a_body_that_is_larger_than_a_packet() -> None:
    gatherer, unpacker = Gatherer(), Unpacker({})
    body = bytes(range(256)) * (PART_BYTES // 100)
    packets = [*gatherer.add(Header(wire.BATCH, 1), body), *gatherer.add(Header(wire.BATCH, 2), b"x"), *gatherer.cut()]
    found = [(header.channel, bytes(each)) for packet in packets for header, each in unpacker.messages(list(packet.parts))]
    assert found == [(1, body), (2, b"x")]


@pytest.mark.parametrize("at", range(5))
@pytest.mark.parametrize(("field", "word"), [(8, 99), (9, 77), (24 + 7, 255)], ids=["version", "kind", "sequence"])
def test_one_of_many_alike_that_is_none_spoils_what_follows_it(at: int, field: int, word: int) -> None:
    lot = bytearray(b"".join(wire.pack_sized(10, header) + body for header, body in messages([(1, 10, 5)])))
    lot[at * (SIZED_BYTES + 10) + field] = word
    found = []
    with pytest.raises(ProtocolError, match="message header"):
        for header, _ in Unpacker({}).messages([bytes(lot)]):
            found.append(header.sequence)
    assert found == list(range(at))


@pytest.mark.parametrize("cut", [1, 10, SIZED_BYTES, SIZED_BYTES + 9])
def test_one_that_is_not_whole_is_no_message(cut: int) -> None:
    lot = b"".join(wire.pack_sized(10, header) + body for header, body in messages([(1, 10, 5)]))
    found = []
    with pytest.raises(ProtocolError, match="expected whole messages"):
        for header, _ in Unpacker({}).messages([lot[:-cut]]):
            found.append(header.sequence)
    assert found == list(range(4))
