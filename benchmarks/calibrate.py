"""The figures that the model of many nodes is made of, measured on this machine, none of them taken from elsewhere."""

from __future__ import annotations

import json
import multiprocessing
import tempfile
import time
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pyarrow as pa
import zmq

from benchmarks.data import DataOnDisk, as_texts, dataset
from benchmarks.measured.window import query, visits
from benchmarks.metering import drained, metered
from cep.dataflow.outputs.output import BATCH_BYTES_MANY, BATCH_BYTES_MAX
from driver import LocalCluster

SMALL_BYTES, LARGE_BYTES = 4 << 10, 1 << 20
SMALL_MESSAGES, LARGE_MESSAGES = 20_000, 1_000
TRANSFER_S_MAX = 60.0  # in which all messages have to be there
MEMORY_BYTES = 256 << 20
RECORDS = 2_000_000


@dataclass(frozen=True)
class Calibration:
    """CPU nanoseconds of the fixed window with all rows exchanged, and of what carries its tuples.

    Args:
        read_ns: per tuple, in the subquery that reads text, picks, and cuts rows by key; sending left out.
        window_ns: per tuple, in the subquery of the window, answers included; receiving left out.
        tuple_bytes: of a tuple on a channel.
        message_rows: tuples in a message, where there are many receivers.
        message_ns, byte_ns: of a message over ZeroMQ's ipc at each of its ends, and of each byte in it.
        memory_byte_ns: to read a byte of this machine's memory that no cache holds.
    """

    read_ns: float
    window_ns: float
    tuple_bytes: float
    message_rows: int
    message_ns: float
    byte_ns: float
    memory_byte_ns: float

    def describe(self) -> str:
        return (
            f"{self.read_ns:.1f} ns a tuple to read and pick, {self.window_ns:.1f} ns for the window; {self.tuple_bytes:.1f} B a tuple, "
            f"{self.message_rows:,} a message; {self.message_ns:.0f} ns a message and {self.byte_ns:.3f} ns a byte at each end "
            f"of a channel; {self.memory_byte_ns:.3f} ns a byte from memory"
        )

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @staticmethod
    def read(path: Path) -> Calibration:
        """Raises ValueError for a file that is no calibration."""
        try:
            return Calibration(**json.loads(path.read_text()))
        except TypeError as error:
            raise ValueError(f"{path}: expected the fields of a calibration: {error}") from None


def calibrate(cache: Path, records: int = RECORDS) -> Calibration:
    """Takes about a minute."""
    data = dataset("zipf", cache, records)
    message_ns, byte_ns = channel_costs()
    tuple_bytes = bytes_of_a_tuple(data)
    read, window = _subqueries(data)
    carried = byte_ns * tuple_bytes + message_ns * tuple_bytes / BATCH_BYTES_MAX
    rows = int(BATCH_BYTES_MANY / tuple_bytes)
    return Calibration(read - carried, window - carried, tuple_bytes, rows, message_ns, byte_ns, memory_byte_ns())


def _subqueries(data: DataOnDisk) -> tuple[float, float]:
    """CPU ns per tuple of the two processes in which the two subqueries run, channel included."""
    asked = query(visits(data.names()["csv"]), pre_aggregation="off", parallelism=1)
    # Not bound by the planner, which would put both into one process.
    with LocalCluster(instances=2, numa=False, data=[data.folder]) as cluster:
        running = cluster.deploy(asked, start=False)
        answers = running.subscribe("answers")
        with metered(cluster) as used:
            running.start()
            drained(answers, lambda batch: None)
    return used.cpu["im-0"] * 1e9 / data.data.records, used.cpu["im-1"] * 1e9 / data.data.records


def bytes_of_a_tuple(data: DataOnDisk, rows: int = 10_000) -> float:
    """The size of the Arrow message that carries the key and the event time."""
    named = data.names()
    addresses, times = (np.fromfile(named[name], kind, rows) for name, kind in (("addresses", np.uint32), ("times", np.int64)))
    batch = pa.record_batch({"ip": as_texts(addresses), "__time": times})
    return float(len(batch.serialize()) / batch.num_rows)


def channel_costs() -> tuple[float, float]:
    """(CPU ns of a message, CPU ns of a byte) at one end of an ipc channel, the mean of both ends, from two sizes of message."""
    small, large = _per_message(SMALL_BYTES, SMALL_MESSAGES), _per_message(LARGE_BYTES, LARGE_MESSAGES)
    byte_ns = (large - small) / (LARGE_BYTES - SMALL_BYTES)
    return max(0.0, small - byte_ns * SMALL_BYTES), byte_ns


def _per_message(size: int, count: int) -> float:
    """CPU ns of sender and receiver, by half."""
    fresh = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        here, there = fresh.Pipe()
        receiver = fresh.Process(target=_receive, args=(f"ipc://{folder}/in", count, there))
        receiver.start()
        here.recv()
        sent_ns, received_ns = _send(f"ipc://{folder}/in", size, count, here)
        receiver.join()
    return float((sent_ns + received_ns) / 2 / count)


def _send(endpoint: str, size: int, count: int, pipe: Connection) -> tuple[int, int]:
    """CPU ns at both ends; the context stays until the other one has all, for what lies in a socket may go with it."""
    context = zmq.Context()
    socket = context.socket(zmq.PUSH)
    socket.set_hwm(16)
    socket.connect(endpoint)
    message = bytes(size)
    start = time.process_time_ns()
    for _ in range(count):
        socket.send(message, copy=False)
    if not pipe.poll(TRANSFER_S_MAX):
        raise RuntimeError(f"{count} messages of {size} bytes had not arrived after {TRANSFER_S_MAX:g} s")
    received_ns, sent_ns = pipe.recv(), time.process_time_ns() - start
    context.destroy(linger=0)
    return sent_ns, received_ns


def _receive(endpoint: str, count: int, pipe: Connection) -> None:
    context = zmq.Context()
    socket = context.socket(zmq.PULL)
    socket.set_hwm(16)
    socket.bind(endpoint)
    pipe.send("ready")
    start = time.process_time_ns()
    for _ in range(count):
        socket.recv(copy=False)
    pipe.send(time.process_time_ns() - start)
    context.destroy()


def memory_byte_ns(size: int = MEMORY_BYTES) -> float:
    """By reading an array that fits no cache, once."""
    array = np.ones(size // 8, np.int64)
    start = time.process_time_ns()
    array.max()
    return (time.process_time_ns() - start) / size
