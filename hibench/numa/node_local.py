"""Blocks of text on the NUMA node that reads them.

A page of a file that is kept in memory (the page cache) lies at the node of the process that wrote it. The engine cuts files into blocks
and deals them to the instances that read them, block i to reader i mod n, and the planner has said at which node each of these
is. So each block is written by a thread that is bound to that node; `resident_pages` asks the kernel where the pages are.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np

from cep import numa
from cep.machine import available_cores, read_topology
from cep.model.streams import BLOCK_BYTES
from cep.model.topology import Topology
from cep.plan.physical import Worker
from cep.plan.planner import plan
from driver import TIME, Query, count, files
from hibench.errors import OptionError
from hibench.records.dataset import FIELDS, Dataset, Prepared
from hibench.records.records import event_times_ms


@dataclass(frozen=True)
class Homes:
    """Where blocks are to lie.

    Args:
        nodes: for each file of the dataset, the node of each of its blocks.
        readers: the node of each instance that reads, in order.
        cores: node → its cores.
        block_bytes: files are cut at its multiples.
    """

    nodes: tuple[tuple[int, ...], ...]
    readers: tuple[int, ...]
    cores: Mapping[int, tuple[int, ...]]
    block_bytes: int = BLOCK_BYTES

    def move_to(self, node: int) -> None:
        """Binds this thread to the node. Where that is impossible it goes on, and the pages tell."""
        os.sched_setaffinity(0, self.cores[node])
        numa.bind(None, node)

    def blocks(self, prepared: Prepared) -> Iterator[tuple[Path, int, int, int]]:
        """(path, start, end, home) of every block: bytes [start, end) of a file."""
        for path, file, nodes in zip(prepared.paths, prepared.files, self.nodes, strict=True):
            for block, node in enumerate(nodes):
                yield path, block * self.block_bytes, min((block + 1) * self.block_bytes, file.bytes), node


def here() -> Topology:
    """What this process may use of the machine."""
    return read_topology().restricted(available_cores())


def homes_for(dataset: Dataset, instances: int, topology: Topology, block_bytes: int = BLOCK_BYTES) -> Homes:
    """For a run of `instances` instance managers on a machine of this `topology`.

    Raises OptionError: blocks of such records have no place that is known beforehand.
    """
    if dataset.format != "text" or not dataset.record_bytes:
        what = "unpadded text" if dataset.format == "text" else f"{dataset.format}, which is published and not read by blocks"
        raise OptionError(f"--node-local: expected records of text padded to one length (--record-bytes 200), got {what}")
    readers = reading_nodes(_reading(dataset), instances, topology)
    cores = {node.id: node.cores for node in topology.nodes if node.cores}
    return Homes(_dealt(dataset, readers, block_bytes), readers, cores, block_bytes)


def _dealt(dataset: Dataset, readers: Sequence[int], block_bytes: int) -> tuple[tuple[int, ...], ...]:
    """The node of each block of each file, as the engine deals them (`cep/dataflow/sources/files.py`): in order of the greatest event time
    that a block of the file up to it begins with, then of the files."""
    bounds = [_bounds(dataset, index, block_bytes) for index in range(dataset.files)]
    order = sorted((bound, index, block) for index, each in enumerate(bounds) for block, bound in enumerate(each))
    nodes = {(index, block): readers[turn % len(readers)] for turn, (_, index, block) in enumerate(order)}
    return tuple(tuple(nodes[index, block] for block in range(len(each))) for index, each in enumerate(bounds))


def _bounds(dataset: Dataset, index: int, block_bytes: int) -> list[int]:
    numbers = dataset.file_range(index)
    starts = range(0, len(numbers) * dataset.record_bytes, block_bytes)
    firsts = (numbers.start + -(-start // dataset.record_bytes) for start in starts)
    return list(accumulate((int(event_times_ms(dataset, range(first, first + 1))[0]) for first in firsts), max))


def _reading(dataset: Dataset) -> Query:
    """A query over the records with a window by address, as `hibench run` has."""
    fields = {"creation_ms": "timestamp[ms]"} | dict.fromkeys(FIELDS[1:], str)
    visits = files("visits", fields, paths=[dataset.file_name(0)], event_time="creation_ms", disorder="0s")
    return Query("readers").source(visits).aggregate("window", TIME("30s"), by="source_ip", visits=count()).output("answers")


def reading_nodes(query: Query, instances: int, topology: Topology) -> tuple[int, ...]:
    """The node of each instance that reads the query's stream, as the planner places them on instance managers of a local cluster."""
    places = [(node.id, core) for node in topology.nodes for core in node.cores]
    workers = [Worker(f"im-{i}", *places[i % len(places)], endpoint="") for i in range(instances)]
    planned, nodes = plan(query.build(), {}, workers, topology), {worker.im: worker.node for worker in workers}
    reading = {subquery.name for subquery in planned.subqueries if subquery.streams}
    return tuple(nodes[instance.im] or 0 for instance in planned.instances if instance.subquery in reading)


def told(prepared: Prepared, homes: Homes) -> str:
    """For a person: where the pages are, by the kernel's word."""
    nodes = ", ".join(map(str, homes.readers))
    try:
        found = pages_at_home(prepared, homes)
    except OSError as error:
        return f"node-local: readers at nodes {nodes}; the kernel does not say where the pages are ({error.strerror})"
    counts = f"{found['home']:,} pages at home, {found['away']:,} at other nodes, {found['absent']:,} not in memory"
    if len(homes.cores) == 1:
        return f"node-local: this machine has one NUMA node, so all that is in memory is at home: {counts}"
    advice = "" if found["home"] == sum(found.values()) else f"; delete {str(prepared.folder)!r} and prepare again to place them anew"
    return f"node-local: readers at nodes {nodes}; {counts}{advice}"


def pages_at_home(prepared: Prepared, homes: Homes) -> dict[str, int]:
    """How many pages of the dataset are at 'home', 'away' at another node, and 'absent' from memory, by the kernel's word.

    Raises OSError: the kernel does not tell.
    """
    found: Counter[str] = Counter(home=0, away=0, absent=0)
    for path, start, end, home in homes.blocks(prepared):
        for node, pages in resident_pages(path, start, end).items():
            found["absent" if node == numa.NOT_PRESENT else "home" if node == home else "away"] += pages
    return dict(found)


def resident_pages(path: Path, start: int, end: int) -> dict[int, int]:
    """Node → pages of bytes [start, end) of a file that are in memory there; those that are not count under `NOT_PRESENT`.

    Nothing is read from the disk for it. `start` is a multiple of the page size. Raises OSError: the kernel does not tell.
    """
    with open(path, "rb") as file, mmap.mmap(file.fileno(), end - start, prot=mmap.PROT_READ, offset=start) as region:
        view = np.frombuffer(region, np.uint8)
        try:
            _touch(view, _in_memory(view))
            return numa.pages_by_node(view.ctypes.data, end - start)
        finally:
            del view  # a region that is looked at cannot be closed


def _in_memory(view: np.ndarray) -> np.ndarray:
    """Numbers of the pages of a mapping that the page cache has: mincore(2)."""
    resident = np.zeros(-(-len(view) // mmap.PAGESIZE), np.uint8)
    libc = ctypes.CDLL(None, use_errno=True)
    arguments = ctypes.c_void_p(view.ctypes.data), ctypes.c_size_t(len(view)), ctypes.c_void_p(resident.ctypes.data)
    if libc.mincore(*arguments):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "mincore")
    return np.flatnonzero(resident & 1)


def _touch(view: np.ndarray, pages: np.ndarray) -> None:
    """Maps these pages: only of what is mapped does the kernel say where it is."""
    view[pages * mmap.PAGESIZE].sum()
