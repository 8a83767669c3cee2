"""Words from any thread, taken together."""

from __future__ import annotations

import threading

from cep.world.mailbox import Mailbox


def test_all_that_has_come_is_taken_in_order() -> None:
    box: Mailbox[int] = Mailbox()
    assert box.is_empty and box.take(0) == []
    for word in range(5):
        box.put(word)
    assert not box.is_empty
    assert box.take(0, words_max=2) == [0, 1]
    assert box.take(None) == [2, 3, 4]


def test_it_waits_for_the_first_and_for_what_comes_with_it() -> None:
    box: Mailbox[str] = Mailbox()
    began = threading.Event()

    def say() -> None:
        began.wait()
        for word in ("a", "b"):
            box.put(word)

    said = threading.Thread(target=say)
    said.start()
    began.set()
    assert box.take(None, burst_s=30, words_max=2) == ["a", "b"]
    said.join()
