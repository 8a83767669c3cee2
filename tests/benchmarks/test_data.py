"""The files that rows of the table read, and digests of answers. The same data wherever they are made.

Tests `data.py`, `bids.py`.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from benchmarks.data import NAMED, Data, as_numbers, as_texts, dataset
from benchmarks.lines import digest


@pytest.mark.parametrize("name", NAMED)
def test_a_dataset_is_the_same_wherever_it_is_made(name: str, tmp_path: Path) -> None:
    one, other = (dataset(name, tmp_path / folder, records=3000) for folder in ("a", "b"))
    contents = [{path.name: path.read_bytes() for path in each.folder.iterdir()} for each in (one, other)]
    assert len(contents[0]) >= 2 and contents[0] == contents[1]
    assert one.names()["records"] == 3000 and "3,000 " in one.describe() and "seed 7" in one.describe()


@pytest.mark.parametrize("name", [name for name, data in NAMED.items() if isinstance(data, Data)])
def test_columns_of_visits_are_those_of_the_lines(name: str, tmp_path: Path) -> None:
    data = NAMED[name].smaller(3000)
    assert isinstance(data, Data)
    files = dataset(name, tmp_path, records=3000).names()
    rows = [line.split(",") for line in files["csv"].read_text().splitlines()]
    assert [int(row[0]) for row in rows] == np.fromfile(files["times"], np.int64).tolist()
    assert [row[1] for row in rows] == as_texts(np.fromfile(files["addresses"], np.uint32)).to_pylist()
    assert max(Counter(int(row[0]) // 30_000 for row in rows).values()) <= data.dataset.event_rate * 30


def test_bids_are_in_order_of_their_times_and_have_all_that_the_references_count_on(tmp_path: Path) -> None:
    files = dataset("bids", tmp_path, records=3000).names()
    bids, updates = ([line.split(",") for line in files[name].read_text().splitlines()] for name in ("bids", "updates"))
    assert {len(bid) for bid in bids} == {6} and {len(update) for update in updates} == {4}
    assert (len(bids), len(updates), files["both"]) == (3000, 1500, 4500)
    for rows in (bids, updates):
        times = [int(row[0]) for row in rows]
        assert times == sorted(times)
    assert max(len(text) for bid in bids for text in (bid[2], bid[4])) <= 15
    ((_, often),) = Counter(bid[1] for bid in bids).most_common(1)
    assert often == pytest.approx(3000 / 12.1, rel=0.3)  # the sum of 1 / k up to 100,000 is 12.1


def test_addresses_there_and_back() -> None:
    texts = as_texts(np.array([0, 1, 0xFFFFFFFF, 0x0A000102], np.uint32))
    assert texts.to_pylist() == ["0.0.0.0", "0.0.0.1", "255.255.255.255", "10.0.1.2"]
    assert as_numbers(texts).tolist() == [0, 1, 0xFFFFFFFF, 0x0A000102]


def test_a_digest_knows_lines_but_not_their_order(tmp_path: Path) -> None:
    for name, files in {"a": ["x\ny\n", "y\n"], "b": ["y\ny\nx"], "c": ["x\ny\nz\n"], "d": ["x\ny\n"], "e": ["xy\n", "\n", "y\n"]}.items():
        (tmp_path / name).mkdir()
        for i, text in enumerate(files):
            (tmp_path / name / str(i)).write_text(text)
    one, same, *others = (digest(tmp_path / name) for name in "abcde")
    assert one == same
    assert one.startswith("3 lines")
    assert len({one, *others}) == 4
