"""Pieces of checkpoints that are not written: why is said, whatever it was."""

from __future__ import annotations

import pytest

from cep.kernels.jit import interpreted
from cep.world.archive import Archive
from cep.world.store import File, MemoryStore
from tests.instance_manager.fast_path.test_fast_path import script


class Failing(MemoryStore):
    """It has no disk to write to, for that reason."""

    def __init__(self, why: Exception) -> None:
        super().__init__()
        self.why = why

    def create(self, path: str, overwrite: bool = False) -> File:
        raise self.why


@pytest.mark.parametrize("why", [OSError(28, "No space left on device"), MemoryError("no room"), RuntimeError("no room")])
def test_one_that_cannot_be_written_says_so_and_the_next_may_be(why: Exception) -> None:
    with interpreted(), script(True, 1 << 20, 1 << 20, "on-commit") as made:
        own = made.stations[0].hosted.recovery
        assert own is not None
        whole, own.archive = own.archive, Archive(Failing(why), "/checkpoints")
        made.checkpoint()
        failed = own.stored
        own.archive = whole
        made.checkpoint()
        assert failed is not None and own.stored is not None
        assert failed["number"] != own.stored["number"] and own.stored["error"] == ""
        expected = "No space left on device" if isinstance(why, OSError) else f"cannot be made: {type(why).__name__}: no room"
        assert expected in failed["error"] and failed["piece"] in failed["error"]
