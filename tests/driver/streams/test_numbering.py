"""Numbers of rows and elements, stamps and watermarks."""

from __future__ import annotations

from cep.elements import MIN_TIME
from cep.transport import wire
from driver.streams.commands import Send
from tests.support.publisher_cores import core, document, let_in, opened, said, send


def test_its_stamp_starts_at_the_greatest_answer() -> None:
    made = core()
    (one, other), _ = made.ask([document("a"), document("b")])
    let_in(made, one, watermark=9_000)
    let_in(made, other, watermark=5_000)
    assert made.numbering.max_time == 10_000  # and the disorder is subtracted again
    assert [(header.stamp, header.watermark) for _, header in send(made, 4_000)] == [(10_000, 9_000)] * 2
    assert made.numbering.sent_until == 4_000


def test_numbers_rows_and_elements() -> None:
    made, _ = opened()
    headers = [send(made, greatest, rows=3)[0][1] for greatest in (5_000, 4_000, 9_000)]
    assert [(h.sequence, h.record, h.stamp, h.watermark) for h in headers] == [
        (0, 0, MIN_TIME, 4_000),
        (1, 3, 5_000, 4_000),
        (2, 6, 5_000, 8_000),
    ]


def test_watermarks_go_to_those_that_do_not_know_them() -> None:
    made, _ = opened(document("a", 0), document("a", 1))
    ((taker, _),) = send(made, 5_000)
    commands = made.tell_watermark()
    assert [kind for kind, *_ in said(commands)] == [wire.WATERMARK]
    assert isinstance(commands[0], Send) and (commands[0].header.channel != taker.channel, commands[0].header.watermark) == (True, 4_000)
    assert not made.tell_watermark()
    assert len(made.promise(8_000)) == 2 and made.numbering.max_time == 9_000
    assert not made.promise(7_000)  # it has passed
    assert len(made.go_on_with(20_000)) == 2 and not made.go_on_with(19_000)
