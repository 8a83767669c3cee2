"""When a publisher is idle, and how it goes on."""

from __future__ import annotations

import pytest

from cep.errors import ClusterError
from cep.transport import wire
from driver.streams.commands import NOTHING, Send
from tests.support.publisher_cores import HERE, document, hear, let_in, opened, said, send

AFTER_NS = 100_000_000


def test_it_is_idle_after_a_silence() -> None:
    made, (one, other) = opened(document("a"), document("b"))
    made.silence.ends(0)
    assert made.look(AFTER_NS - 1) == NOTHING and not made.silence.idle
    send(made, 5_000)
    assert made.look(AFTER_NS) == NOTHING  # it has sent
    assert made.look(2 * AFTER_NS - 1) == NOTHING
    assert said(made.look(2 * AFTER_NS)) == [(wire.IDLE, HERE, 1)] * 2 and made.silence.idle
    assert made.look(9 * AFTER_NS) == NOTHING and one.told_idle and other.told_idle
    (late,), _ = made.ask([document("a"), document("b"), document("c")])
    assert said(let_in(made, late)) == [(wire.IDLE, HERE, 0)]


def test_it_awakes_at_the_greatest_answer() -> None:
    made, (one, other) = opened(document("a"), document("b"))
    made.look(AFTER_NS)
    commands = made.ask_awake(made.readers.asleep.values())
    assert said(commands) == [(wire.OPEN, HERE, 0)] * 2
    assert isinstance(commands[0], Send) and wire.from_json(commands[0].body)["awakes"] is True
    for reader, watermark in ((one, 20_000), (other, 9_000)):
        assert reader.channel in made.readers.asleep
        hear(made, reader, wire.OPENED, {"here": True, "awakes": True}, watermark=watermark)
    assert not made.readers.asleep
    awake = made.awake([one, other], 5)
    assert said(awake) == [(wire.WATERMARK, HERE, 1)] * 2 and not made.silence.idle and made.silence.since == 5
    assert {each.header.watermark for each in awake if isinstance(each, Send)} == {20_000}


@pytest.mark.parametrize("word", [None, {"record": 0}])
def test_one_that_has_gone_or_closed_us_need_not_answer(word: dict[str, int] | None) -> None:
    made, (one, other) = opened(document("a"), document("b"))
    made.look(AFTER_NS)
    hear(made, one, wire.CLOSED, word)
    assert list(made.readers.asleep.values()) == [other]
    hear(made, other, wire.OPENED, {"here": True, "awakes": True})
    assert not made.readers.asleep
    if word is None:
        assert [kind for kind, *_ in said(made.awake([one, other], 0))] == [wire.WATERMARK]
    else:
        with pytest.raises(ClusterError, match="silent for so long"):
            made.awake([one, other], 0)
