"""What a set of uservisits records is: its options, its name in the cache, its files.

As text, a record is one ASCII line of ten comma-separated fields (`FIELDS`), none of them quoted and none holding a comma.
With `record_bytes` it is padded to exactly that length, newline included, by an eleventh field of spaces. As Parquet or
Arrow it is a row with these ten columns (`hibench.records.records.RECORD`), and nothing is padded.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from hibench.errors import CacheError, OptionError

FIELDS = (
    "creation_ms",
    "source_ip",
    "dest_url",
    "visit_date",
    "ad_revenue",
    "user_agent",
    "country",
    "language",
    "search_word",
    "duration",
)
GENERATOR_VERSION = 1
"""Raised when the same options give other bytes than before; part of a dataset's name, so no old set is taken."""

FIRST_EVENT_MS = 1_700_000_010_000
"""Event time of record 0: a whole multiple of 30 s, so that ten million records fill twenty windows."""

RECORD_FORMATS = {"text": "txt", "parquet": "parquet", "arrow": "arrow"}
"""Format → how the names of its files end."""

FILE_EVENTS = 1_000_000
RECORD_BYTES_LEAST = 160
RECORD_BYTES_LARGEST = 1 << 20
UNPADDED_BYTES_MEAN = 133
_ROW_BYTES_MEAN = {"parquet": 40, "arrow": 148}
_READ_BYTES = 1 << 20
ZIPF_ADDRESSES = 100_000
ZIPF_ADDRESSES_LARGEST = 10_000_000


@dataclass(frozen=True)
class AddressKeys:
    """How source addresses are drawn: `uniform` (HiBench's own, nearly unique) or `zipf`, s = 1.0, over `addresses`."""

    kind: str = "zipf"
    addresses: int = ZIPF_ADDRESSES

    @classmethod
    def parse(cls, text: str) -> AddressKeys:
        """`uniform`, `zipf` or `zipf:N`; anything else raises OptionError."""
        kind, colon, count = text.partition(":")
        if kind == "uniform" and not colon:
            return cls("uniform", 0)
        if kind == "zipf" and not colon:
            return cls()
        if kind == "zipf" and count.isdecimal() and 1 <= int(count) <= ZIPF_ADDRESSES_LARGEST:
            return cls("zipf", int(count))
        expected = f"'uniform', 'zipf' or 'zipf:N' with N from 1 to {ZIPF_ADDRESSES_LARGEST:,}"
        raise OptionError(f"--keys: expected {expected}, got {text!r}")

    def __str__(self) -> str:
        return "uniform" if self.kind == "uniform" else f"zipf:{self.addresses}"


@dataclass(frozen=True)
class Dataset:
    """The options that decide every byte of the records. Equal options, equal bytes, wherever they are made.

    events       number of records
    seed         0 ≤ seed < 2**64
    keys         the distribution of source addresses
    record_bytes length of every line with its newline; 0 leaves lines unpadded (about 133 bytes on average)
    event_rate   records per second of event time (not of the wall clock)
    disorder_ms  how far at most a record's event time lies behind the greatest one before it; 0: never
    file_events  records per file; cutting into files changes no record
    format       one of FORMATS
    """

    events: int = 10_000_000
    seed: int = 7
    keys: AddressKeys = AddressKeys()
    record_bytes: int = 200
    event_rate: int = 16_667
    disorder_ms: int = 0
    file_events: int = FILE_EVENTS
    format: str = "text"

    def __post_init__(self) -> None:
        _expect(1 <= self.events <= 10**12, "--events", "a number from 1 to 10**12", self.events)
        _expect(0 <= self.seed < 2**64, "--seed", "a number from 0 to 2**64 - 1", self.seed)
        _expect(1 <= self.event_rate <= 10**9, "--event-rate", "1 to 10**9 events a second", self.event_rate)
        _expect(0 <= self.disorder_ms <= 86_400_000, "--disorder", "at most one day", f"{self.disorder_ms} ms")
        _expect(self.file_events >= 1, "--file-events", "at least 1", self.file_events)
        _expect(self.format in RECORD_FORMATS, "--format", " or ".join(RECORD_FORMATS), self.format)
        padded = RECORD_BYTES_LEAST <= self.record_bytes <= RECORD_BYTES_LARGEST
        expected = f"0 (unpadded) or {RECORD_BYTES_LEAST} to {RECORD_BYTES_LARGEST} (the ten fields need up to 159 bytes)"
        _expect(self.record_bytes == 0 or padded, "--record-bytes", expected, self.record_bytes)
        text = self.format == "text" or self.record_bytes == 0
        _expect(text, "--record-bytes", f"0, for only lines of text have a length and this is {self.format}", self.record_bytes)

    @property
    def files(self) -> int:
        return -(-self.events // self.file_events)

    @property
    def bytes_expected(self) -> int:
        """Exact for padded records, an estimate for others."""
        return self.events * (self.record_bytes or _ROW_BYTES_MEAN.get(self.format, UNPADDED_BYTES_MEAN))

    @property
    def name(self) -> str:
        """The folder's name: readable, and unlike that of any other set of options."""
        digest = hashlib.sha256(json.dumps([GENERATOR_VERSION, self.options()], sort_keys=True).encode()).hexdigest()
        length = f"{self.record_bytes}B" if self.record_bytes else "unpadded" if self.format == "text" else self.format
        return f"uservisits-{self.events}-{str(self.keys).replace(':', '')}-{length}-seed{self.seed}-{digest[:8]}"

    def options(self) -> dict[str, object]:
        """Text goes unnamed, as it did before there were other formats: so the names of older sets hold."""
        options = {**{field.name: getattr(self, field.name) for field in fields(self)}, "keys": str(self.keys)}
        return {name: value for name, value in options.items() if (name, value) != ("format", "text")}

    @classmethod
    def from_options(cls, options: dict[str, Any]) -> Dataset:
        return cls(**{**options, "keys": AddressKeys.parse(options["keys"])})

    def file_name(self, index: int) -> str:
        return f"part-{index:05d}.{RECORD_FORMATS[self.format]}"

    def file_range(self, index: int) -> range:
        """The record numbers that file `index` holds."""
        return range(index * self.file_events, min((index + 1) * self.file_events, self.events))


def _expect(holds: bool, option: str, expected: str, got: object) -> None:
    if not holds:
        raise OptionError(f"{option}: expected {expected}, got {got!r}")


@dataclass(frozen=True)
class FileFacts:
    """One finished file: what it holds and a checksum of its bytes."""

    name: str
    events: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Prepared:
    """A complete dataset on disk: its manifest was written last, so it is never half made."""

    dataset: Dataset
    folder: Path
    files: tuple[FileFacts, ...]

    MANIFEST = "manifest.json"

    @property
    def paths(self) -> list[Path]:
        return [self.folder / file.name for file in self.files]

    def events_before(self, files: int) -> int:
        """How many records the first `files` files hold."""
        return sum(file.events for file in self.files[:files])

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def sha256(self) -> str:
        """One digest over the digests of the files, in order."""
        return hashlib.sha256("".join(file.sha256 for file in self.files).encode()).hexdigest()

    def write_manifest(self) -> None:
        manifest = {
            "generator": GENERATOR_VERSION,
            "format": self.dataset.format,
            "options": self.dataset.options(),
            "bytes": self.bytes,
            "sha256": self.sha256,
            "files": [asdict(file) for file in self.files],
        }
        (self.folder / self.MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")

    @classmethod
    def read(cls, folder: Path) -> Prepared:
        """The dataset in `folder`. Raises CacheError if its manifest is unreadable or a file has another length."""
        try:
            manifest = json.loads((folder / cls.MANIFEST).read_text())
            dataset = Dataset.from_options(manifest["options"])
            found = cls(dataset, folder, tuple(FileFacts(**file) for file in manifest["files"]))
            sizes = [path.stat().st_size for path in found.paths]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CacheError(f"dataset {str(folder)!r} is damaged ({error}); delete that folder and run again") from error
        for path, file, size in zip(found.paths, found.files, sizes, strict=True):
            if size != file.bytes:
                raise CacheError(
                    f"dataset file {str(path)!r} is damaged: expected {file.bytes} bytes, got {size}; "
                    f"delete the folder {str(folder)!r} and run again"
                )
        return found

    def verify(self, progress: Callable[[int], None] = lambda done: None) -> None:
        """Reads every byte. Raises CacheError: a file is not as it was made. `progress` is told how many records are done."""
        for number, (path, file) in enumerate(zip(self.paths, self.files, strict=True), start=1):
            digest = hashlib.sha256()
            with open(path, "rb") as data:
                while piece := data.read(_READ_BYTES):
                    digest.update(piece)
            if digest.hexdigest() != file.sha256:
                raise CacheError(
                    f"dataset file {str(path)!r} is damaged: expected sha256 {file.sha256}, got {digest.hexdigest()}; "
                    f"delete the folder {str(self.folder)!r} and run again"
                )
            progress(self.events_before(number))
