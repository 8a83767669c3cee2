"""The thread around `Control`."""

from __future__ import annotations

import threading

from cep.service.mark import Slot
from instance_manager.control.control import BURST_S, BURST_WORDS, Control


class ControlThread(threading.Thread):
    """Takes what has come to `control`, and lets it do one turn after the other."""

    def __init__(self, control: Control, slot: Slot) -> None:
        super().__init__(name="control", daemon=True)
        self.control, self.slot = control, slot

    def run(self) -> None:
        control = self.control
        self.slot.begin()
        control.begin()
        while control.turn(control.mailbox.take(control.patience_s, BURST_S, BURST_WORDS)):
            pass

    def close(self) -> None:
        self.control.close()
        self.join(timeout=5)
