"""Records as text, Parquet and Arrow: the same ten fields; blocks and the nodes that read them; what a damaged set says.

Tests `file.py`, `hibench/numa/node_local.py`.
"""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from cep import numa
from cep.dataflow.sources.blocks import cut_blocks
from cep.dataflow.sources.opening import format_of
from cep.kernels.jit import interpreted
from cep.machine import available_cores, read_topology
from cep.model.topology import NumaNode, Topology
from cep.world.store import DiskStore
from driver import files, stream
from driver.streams.arrow import record_batches
from hibench.errors import CacheError, OptionError
from hibench.numa.node_local import homes_for, pages_at_home, resident_pages, told
from hibench.records.dataset import FIELDS, RECORD_FORMATS, Dataset, Prepared
from hibench.records.file import write_record_file
from hibench.records.reader import batches
from hibench.records.records import RECORD, lines, rows

SMALL = Dataset(events=2_500, record_bytes=0, file_events=1_000, disorder_ms=50)
PADDED = replace(SMALL, record_bytes=200)
PAIR = Topology((NumaNode(0, (0, 1), 1 << 30), NumaNode(1, (2, 3), 1 << 30)), ((10, 20), (20, 10)))


def made(dataset, folder, homes=None):
    """The dataset in `folder`, written by this process."""
    folder.mkdir()
    facts = [write_record_file(dataset, folder, homes, index) for index in range(dataset.files)]
    prepared = Prepared(dataset, folder, tuple(facts))
    prepared.write_manifest()
    return Prepared.read(folder)


@pytest.mark.parametrize("format", RECORD_FORMATS)
def test_a_set_reads_back_as_it_was_made(tmp_path, format):
    prepared = made(replace(SMALL, format=format), tmp_path / "set")
    table = pa.Table.from_batches(batches(prepared))
    assert table == pa.Table.from_batches(rows(SMALL, range(SMALL.events)))
    assert [file.events for file in prepared.files] == [1000, 1000, 500]
    assert prepared.dataset.format == format
    prepared.verify()


def test_padding_is_no_field(tmp_path):
    padded, bare = made(PADDED, tmp_path / "padded"), made(SMALL, tmp_path / "bare")
    assert pa.Table.from_batches(batches(padded)) == pa.Table.from_batches(batches(bare))


def test_rows_say_what_the_lines_say():
    text = b"".join(map(bytes, lines(SMALL, range(SMALL.events)))).decode().splitlines()
    (batch,) = rows(SMALL, range(SMALL.events))
    for line, row in zip(text, batch.to_pylist(), strict=True):
        revenue = f"{row['ad_revenue']:.6f}"
        assert line.split(",") == [revenue if name == "ad_revenue" else str(row[name]) for name in RECORD.names]


@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_our_engine_takes_what_is_published(tmp_path, format):
    prepared = made(replace(SMALL, format=format), tmp_path / "set")
    visits = stream("visits", creation_ms="timestamp[ms]", source_ip=str, event_time="creation_ms", disorder="50ms")
    wanted = [batch.select(["creation_ms", "source_ip"]) for batch in batches(prepared)]
    assert sum(batch.num_rows for each in wanted for batch in record_batches(each, visits)) == SMALL.events


PEAKS = """
import sys, resource
from dataclasses import replace
from pathlib import Path
from hibench.records.dataset import RECORD_FORMATS, Dataset
from hibench.records.file import write_record_file
from hibench.records.records import CHUNK_EVENTS

for format in RECORD_FORMATS:
    for chunks in (2, 5):
        events = chunks * CHUNK_EVENTS
        facts = write_record_file(Dataset(events, record_bytes=0, format=format), Path(sys.argv[1]), None, 0)
        print(format, facts.bytes, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def test_memory_does_not_grow_with_the_file(tmp_path):
    """The peak of a process that writes two chunks of records, then five, in each format; one is made while the one before is there."""
    ran = subprocess.run([sys.executable, "-c", PEAKS, str(tmp_path)], capture_output=True, text=True, check=True)
    lines = [line.split() for line in ran.stdout.splitlines()]
    assert [line[0] for line in lines[::2]] == list(RECORD_FORMATS)
    (_, _, before), *_ = lines
    assert int(lines[1][1]) > 50_000_000, "or it proves nothing"
    assert int(lines[-1][2]) - int(before) < 32 << 20


@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_only_text_has_a_length(format):
    with pytest.raises(OptionError, match=f"--record-bytes: expected 0, for only lines of text have a length and this is {format}"):
        Dataset(format=format)


def test_an_unknown_format_is_refused():
    with pytest.raises(OptionError, match="--format: expected text or parquet or arrow, got 'csv'"):
        Dataset(format="csv", record_bytes=0)


def test_names_of_older_sets_hold():
    assert Dataset().name == "uservisits-10000000-zipf100000-200B-seed7-15b99c03"
    assert Dataset.from_options(Dataset().options()) == Dataset()
    arrow = replace(SMALL, format="arrow")
    assert Dataset.from_options(arrow.options()) == arrow
    assert len({replace(SMALL, format=format).name for format in RECORD_FORMATS}) == len(RECORD_FORMATS)


def test_a_byte_that_changed_is_found(tmp_path):
    prepared = made(SMALL, tmp_path / "set")
    with open(prepared.paths[1], "r+b") as file:
        file.seek(500)
        file.write(b"#")
    assert Prepared.read(prepared.folder).files == prepared.files, "sizes alone do not tell"
    with pytest.raises(CacheError, match=r"part-00001.txt' is damaged: expected sha256 .* delete the folder"):
        prepared.verify()


def test_a_full_disk_is_handed_back():
    outcome = write_record_file(replace(SMALL, format="arrow"), Path("/dev/full"), None, 0)
    assert isinstance(outcome, OSError)


class TestNodeLocal:
    def test_readers_fill_one_node_after_the_other(self):
        homes = homes_for(PADDED, 40, Topology.bullion_s16())
        assert homes.readers == (0,) * 18 + (1,) * 18 + (2,) * 4

    def test_blocks_are_those_that_the_engine_deals(self, tmp_path):
        prepared = made(PADDED, tmp_path / "set")
        homes = homes_for(PADDED, 3, PAIR, block_bytes=64 << 10)
        fields = dict.fromkeys(FIELDS[1:], str)
        paths = [str(path) for path in prepared.paths]
        visits = files(
            "visits", paths=paths, creation_ms="timestamp[ms]", **fields, event_time="creation_ms", disorder="50ms", block_bytes=64 << 10
        )
        with interpreted():
            sizes = [(str(path), path.stat().st_size) for path in prepared.paths]
            dealt = cut_blocks(visits, sizes, format_of(visits, FIELDS, DiskStore()))
        assert homes.readers == (0, 0, 1)
        found = {(str(path), start): home for path, start, _, home in homes.blocks(prepared)}
        assert found == {(block.path, block.start // (64 << 10) * (64 << 10)): homes.readers[i % 3] for i, block in enumerate(dealt)}
        assert [block.path for block in dealt] != sorted(block.path for block in dealt), "disorder has them dealt out of their order"

    def test_a_file_is_the_same_wherever_its_pages_are(self, tmp_path):
        homes = homes_for(PADDED, 2, read_topology().restricted(available_cores()))
        assert made(PADDED, tmp_path / "a", homes).sha256 == made(PADDED, tmp_path / "b").sha256

    def test_the_kernel_says_where_pages_are(self, tmp_path):
        file = tmp_path / "file"
        file.write_bytes(bytes(10 * 4096))
        node = read_topology().node_of(numa.verify().core_now)
        assert resident_pages(file, 4096, 9 * 4096) == {node: 8}

    def test_on_one_node_it_says_so(self, tmp_path):
        topology = read_topology().restricted(available_cores())
        homes = homes_for(PADDED, 2, topology)
        prepared = made(PADDED, tmp_path / "set", homes)
        said = told(prepared, homes)
        assert ("has one NUMA node" in said) == (len(topology.nodes) == 1)
        assert pages_at_home(prepared, homes)["away"] == 0

    @pytest.mark.parametrize("dataset", [SMALL, replace(SMALL, format="parquet")])
    def test_what_has_no_blocks_known_beforehand_is_refused(self, dataset):
        with pytest.raises(OptionError, match="--node-local: expected records of text padded to one length"):
            homes_for(dataset, 2, Topology.bullion_s16())
