"""The records: same options, same bytes, wherever they are made; what a line looks like; how keys and times are drawn.

Tests `records.py`, `dataset.py`.
"""

import hashlib
import io
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from hibench.errors import CacheError, OptionError
from hibench.records.dataset import FIELDS, FIRST_EVENT_MS, AddressKeys, Dataset, FileFacts, Prepared
from hibench.records.file import RecordFile
from hibench.records.records import CHUNK_EVENTS, addresses, event_times_ms, lines

UNPADDED = Dataset(events=30_000, record_bytes=0)


def text(dataset, numbers=None):
    return b"".join(map(bytes, lines(dataset, numbers or range(dataset.events))))


def test_any_cutting_gives_the_same_bytes():
    dataset = replace(UNPADDED, events=2 * CHUNK_EVENTS + 10, disorder_ms=50)
    whole = text(dataset)
    cuts = [0, 1, 4, 999, CHUNK_EVENTS - 1, CHUNK_EVENTS + 7, dataset.events]
    pieces = [text(dataset, range(first, last)) for first, last in pairwise(cuts)]
    assert b"".join(pieces) == whole


def test_the_first_bytes_never_change():
    """Raise GENERATOR_VERSION with a change here: caches of older versions would be taken for the new ones."""
    assert text(UNPADDED, range(2)).decode().splitlines() == [
        "1700000010000,190.150.120.216,kecylmzttxzpjuiyiqhpetvmblgdn,1989-07-18,0.753126,"
        "Opera/9.80 (X11; Linux x86_64; U),DRA,DRA-EN,nroyyzuy,41",
        "1700000010000,102.250.94.27,mgzdsehjrvmvfuhgufjzqnrniobrprmmsypqtes,2002-07-07,0.083423,"
        "Mozilla/4.0 (compatible; MSIE 7.0),DNA,DNA-EN,divslbg,62",
    ]


@pytest.mark.parametrize("record_bytes", [160, 200])
@pytest.mark.parametrize("keys", ["uniform", "zipf:1000"])
def test_padded_lines_have_exactly_their_length(record_bytes, keys):
    dataset = Dataset(events=20_000, record_bytes=record_bytes, keys=AddressKeys.parse(keys))
    data = text(dataset)
    rows = data.split(b"\n")
    assert rows.pop() == b""
    assert {len(row) + 1 for row in rows} == {record_bytes}
    assert len(rows) == dataset.events
    assert data.isascii()
    assert all(row.count(b",") == len(FIELDS) and not row.rpartition(b",")[2].strip() for row in rows)


def test_padding_changes_nothing_else():
    padded = [line.rpartition(b",")[0] for line in text(replace(UNPADDED, record_bytes=200)).splitlines()]
    assert padded == text(UNPADDED).splitlines()


def test_unpadded_lines_have_ten_fields_and_133_bytes_on_average():
    rows = text(UNPADDED).splitlines()
    assert {row.count(b",") for row in rows} == {len(FIELDS) - 1}
    assert abs(sum(len(row) + 1 for row in rows) / len(rows) - 133) < 1


def test_seeds_differ():
    assert text(UNPADDED, range(100)) != text(replace(UNPADDED, seed=8), range(100))


def test_uniform_addresses_are_hibenchs():
    found = addresses(replace(UNPADDED, keys=AddressKeys("uniform", 0)), range(30_000)).to_pylist()
    octets = np.array([address.split(".") for address in found], int)
    assert octets.min(axis=0).tolist() == [1, 0, 0, 1]
    assert octets.max(axis=0).tolist() == [254, 254, 254, 254]
    assert len(set(found)) > 29_900


def test_zipf_addresses_follow_their_ranks():
    counts = Counter(addresses(replace(UNPADDED, keys=AddressKeys("zipf", 1000)), range(30_000)).to_pylist())
    assert len(counts) <= 1000
    harmonic = sum(1 / rank for rank in range(1, 1001))
    for rank, (_, count) in enumerate(counts.most_common(5), start=1):
        assert count == pytest.approx(30_000 / harmonic / rank, rel=0.15)


def test_without_disorder_times_never_step_back_and_keep_the_rate():
    times = event_times_ms(replace(UNPADDED, event_rate=1000), range(30_000))
    assert np.array_equal(times, FIRST_EVENT_MS + np.arange(30_000))


def test_ten_million_records_fill_twenty_windows():
    last = event_times_ms(Dataset(), range(9_999_999, 10_000_000))[0]
    assert FIRST_EVENT_MS % 30_000 == 0
    assert (last - FIRST_EVENT_MS) // 30_000 == 19


def test_no_event_is_further_behind_than_the_disorder():
    dataset = replace(UNPADDED, disorder_ms=200)
    times = event_times_ms(dataset, range(dataset.events))
    behind = np.maximum.accumulate(times) - times
    assert 150 < behind.max() <= 200
    assert times.min() >= FIRST_EVENT_MS


@pytest.mark.parametrize("keys", ["", "zipg", "zipf:", "zipf:0", "zipf:x", "uniform:3", "zipf:10000001"])
def test_unknown_keys_are_refused(keys):
    with pytest.raises(OptionError, match="--keys: expected 'uniform'"):
        AddressKeys.parse(keys)


@pytest.mark.parametrize("options", [{"events": 0}, {"record_bytes": 159}, {"record_bytes": -1}, {"seed": -1}, {"disorder_ms": -1}])
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(OptionError, match=r"expected .* got"):
        Dataset(**options)


def test_every_option_is_part_of_the_name():
    changed = [
        replace(UNPADDED, **{name: value})
        for name, value in {"events": 1, "seed": 8, "keys": AddressKeys("uniform", 0), "record_bytes": 200}.items()
    ]
    changed += [replace(UNPADDED, event_rate=5), replace(UNPADDED, disorder_ms=5), replace(UNPADDED, file_events=5)]
    assert len({dataset.name for dataset in [UNPADDED, *changed]}) == 8
    assert Dataset.from_options(changed[2].options()) == changed[2]


def test_a_damaged_dataset_is_named(tmp_path):
    Prepared(UNPADDED, tmp_path, ()).write_manifest()
    assert Prepared.read(tmp_path).dataset == UNPADDED
    (tmp_path / Prepared.MANIFEST).write_text("{")
    with pytest.raises(CacheError, match=r"is damaged .* delete that folder"):
        Prepared.read(tmp_path)


class Sipping(io.RawIOBase):
    """Takes a few bytes of what it is given, as a disk that is nearly full may."""

    def __init__(self):
        super().__init__()
        self.taken = b""

    def write(self, data):
        self.taken += bytes(data[:3])
        return min(3, len(data))


def test_a_write_that_is_cut_short_goes_on():
    raw = Sipping()
    file = RecordFile(raw, None, 0)
    assert [file.write(part) for part in (b"0123456789", b"", b"abc")] == [10, 0, 3]
    assert raw.taken == b"0123456789abc" and file.tell() == 13
    assert file.sha256 == hashlib.sha256(raw.taken).hexdigest()


def test_records_are_counted_file_by_file(tmp_path):
    made = Prepared(UNPADDED, tmp_path, tuple(FileFacts(str(events), events, 1, "") for events in (10, 10, 4)))
    assert [made.events_before(files) for files in range(4)] == [0, 10, 20, 24]
