"""Bids, and updates of their auctions, as lines of text in the order of their times, made once and kept. Equal values, equal bytes.

<folder>/bids.csv       ms,auction,bidder,price,channel,url     zipf (s = 1.0): 100,000 auctions, a million bidders, 10,000 channels
<folder>/updates.csv    ms,auction,reserve,item                 half as many; 100,000 auctions, all alike
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.nexmark.generator import BASE_MS, prices, urls

AUCTIONS, BIDDERS, CHANNELS = 100_000, 1_000_000, 10_000
FIRST_AUCTION = 100_000
BIDS_PER_MS, BIDS_PER_UPDATE = 10, 2
_CHUNK_ROWS = 200_000

#: The first folder of a url has three letters. RE2 itself has to look: the engine's own tables have no counts.
FOLDER = "^https?://[^/]+/[a-z_]{3}/"
#: Nexmark's: its second group is the id.
CHANNEL_ID = "(&|^)channel_id=([^&]*)"


@dataclass(frozen=True)
class Bids:
    """How many bids, and the seed of all that is drawn."""

    records: int = 4_000_000
    seed: int = 7

    @property
    def updates(self) -> int:
        return self.records // BIDS_PER_UPDATE

    @property
    def folder(self) -> str:
        return f"bids-{self.records}-{self.seed}"

    def smaller(self, records: int) -> Bids:
        return replace(self, records=records)

    def write(self, folder: Path) -> None:
        random = np.random.default_rng(self.seed)
        channels, of_channel = _texts("channel-", np.arange(CHANNELS)), urls(random).slice(0, CHANNELS)
        shares = {count: _zipf(count) for count in (AUCTIONS, BIDDERS, CHANNELS)}
        with (folder / "bids.csv").open("wb") as file:
            for first in range(0, self.records, _CHUNK_ROWS):
                number = np.arange(first, min(first + _CHUNK_ROWS, self.records))
                auction, bidder, channel = (np.searchsorted(shares[count], random.random(len(number))) for count in shares)
                ids = _spread(auction, AUCTIONS) + FIRST_AUCTION, _texts("u", _spread(bidder, BIDDERS)), prices(len(number), random)
                chosen = pa.array(channel)
                file.write(_lines(BASE_MS + number // BIDS_PER_MS, *ids, channels.take(chosen), of_channel.take(chosen)))
        with (folder / "updates.csv").open("wb") as file:
            for first in range(0, self.updates, _CHUNK_ROWS):
                number = np.arange(first, min(first + _CHUNK_ROWS, self.updates))
                auction, item = FIRST_AUCTION + random.integers(0, AUCTIONS, len(number)), random.integers(0, 1000, len(number))
                ms = BASE_MS + number * BIDS_PER_UPDATE // BIDS_PER_MS
                file.write(_lines(ms, auction, prices(len(number), random), _texts("item-", item)))

    def names(self, folder: Path) -> dict[str, Any]:
        """What stands in commands."""
        files = {"bids": folder / "bids.csv", "updates": folder / "updates.csv"}
        return {**files, "records": self.records, "both": self.records + self.updates}

    def describe(self, folder: Path) -> str:
        """One line for the report."""
        size = (folder / "bids.csv").stat().st_size
        keys = f"zipf s = 1.0 over {AUCTIONS:,} auctions, {BIDDERS:,} bidders, {CHANNELS:,} channels"
        return f"{self.records:,} bids of {size / self.records:.1f} B, {BIDS_PER_MS * 60_000:,} a minute, {keys}, seed {self.seed}"


def _zipf(count: int) -> np.ndarray:
    """The share of the first, of the first two, and so on."""
    cumulated = np.cumsum(1 / np.arange(1, count + 1))
    shares: np.ndarray = cumulated / cumulated[-1]
    return shares


def _spread(rank: np.ndarray, count: int) -> np.ndarray:
    """A number below `count` for each rank, so that what is frequent does not lie together: 7,919 and `count` have no factor in common."""
    number: np.ndarray = rank * 7919 % count
    return number


def _texts(before: str, numbers: np.ndarray) -> pa.Array:
    return pc.binary_join_element_wise(before, pc.cast(pa.array(numbers), pa.string()), "")


def _lines(*columns: np.ndarray | pa.Array) -> memoryview:
    texts = [pc.cast(pa.array(each), pa.string()) if isinstance(each, np.ndarray) else each for each in columns]
    *others, last = texts
    lines = pc.binary_join_element_wise(*others, pc.binary_join_element_wise(last, "\n", ""), ",")
    starts = np.frombuffer(lines.buffers()[1], np.int32)
    return memoryview(lines.buffers()[2])[starts[lines.offset] : starts[lines.offset + len(lines)]]
