"""What the model of many nodes is made of, measured: of messages, of a tuple, of memory."""

from __future__ import annotations

import multiprocessing
import threading
from pathlib import Path

import pytest

from benchmarks import calibrate
from benchmarks.calibrate import Calibration, _receive, _send
from benchmarks.data import dataset
from tests.benchmarks.test_model import COSTS
from tests.support.waiting import HANG_S


def test_a_calibration_there_and_back(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    COSTS.write(file)
    assert Calibration.read(file) == COSTS
    file.write_text('{"read_ns": 1}')
    with pytest.raises(ValueError, match="expected the fields of a calibration"):
        Calibration.read(file)


def test_both_ends_of_a_channel_say_what_their_messages_cost(tmp_path: Path) -> None:
    here, there = multiprocessing.Pipe()
    receiver = threading.Thread(target=_receive, args=(f"ipc://{tmp_path}/in", 50, there), daemon=True)
    receiver.start()
    assert here.recv() == "ready"
    assert min(_send(f"ipc://{tmp_path}/in", 1_000, 50, here)) > 0
    receiver.join(HANG_S)
    assert not receiver.is_alive()


def test_a_tuple_is_its_key_and_its_time(tmp_path: Path) -> None:
    data = dataset("zipf", tmp_path, 3_000)
    assert 4 + 7 + 8 < calibrate.bytes_of_a_tuple(data, 3_000) < 4 + 15 + 8 + 1


def test_memory_takes_time_to_read() -> None:
    assert calibrate.memory_byte_ns(8 << 20) > 0
