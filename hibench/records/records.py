"""uservisits records as lines of text or as rows of columns: a pure function of (options, record number).

Record i draws its fields from the four 64-bit words of block i of a counter-based generator (Philox), so any cutting
into files, chunks or Spark partitions gives the same bytes. Words become fields by integer arithmetic alone, which no
NumPy version changes; lines are put together by Arrow, a column at a time.

    word 0   the address
    word 1   low half: URL         high half: date
    word 2   low half: revenue     high half: how far the event time lies behind
    word 3   16 bits: agent, country and language     24 bits: search word     24 bits: duration
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hibench.records.dataset import FIELDS, FIRST_EVENT_MS, Dataset

RECORD = pa.schema(
    [
        ("creation_ms", pa.int64()),
        *((name, pa.string()) for name in FIELDS[1:4]),
        ("ad_revenue", pa.float64()),
        *((name, pa.string()) for name in FIELDS[5:9]),
        ("duration", pa.int32()),
    ]
)
"""The columns of a record where it is no text."""

CHUNK_EVENTS = 100_000
_WORDS = 4
_VOCABULARY_SEED = 20_120_501
_AGENTS = (
    "Mozilla/5.0 (Windows; U; Windows NT 5.2)",
    "Mozilla/4.0 (compatible; MSIE 7.0)",
    "Opera/9.80 (X11; Linux x86_64; U)",
    "Wget/1.9.1",
    "Googlebot/2.1 (+bot.html)",
    "Mozilla/5.0 (iPhone; U; CPU like Mac OS X)",
)
_COUNTRIES = tuple(f"{a}{b}{c}" for a in "ABCDEF" for b in "LNRS" for c in "AEUZ")


def lines(dataset: Dataset, numbers: range) -> Iterator[memoryview]:
    """The lines of the records `numbers`, in order, in pieces of at most CHUNK_EVENTS lines."""
    for chunk in _chunks(numbers):
        yield _joined(_texts(dataset, chunk), dataset.record_bytes)


def rows(dataset: Dataset, numbers: range) -> Iterator[pa.RecordBatch]:
    """The records `numbers` as batches like RECORD, in order, of at most CHUNK_EVENTS rows: what the lines say, column by column."""
    for chunk in _chunks(numbers):
        texts = _texts(dataset, chunk)
        visitors = pc.split_pattern(texts[5], ",").flatten()  # one text, three fields
        columns = [*texts[:5], *(visitors.take(pa.array(np.arange(field, len(visitors), 3))) for field in range(3)), *texts[6:]]
        yield pa.record_batch([pc.cast(column, type) for column, type in zip(columns, RECORD.types, strict=True)], schema=RECORD)


def event_times_ms(dataset: Dataset, numbers: range) -> np.ndarray:
    """int64 event times of the records `numbers`, ms since 1970."""
    return _event_times(dataset, numbers, _draw(dataset.seed, numbers))


def addresses(dataset: Dataset, numbers: range) -> pa.Array:
    """String array of the source addresses of the records `numbers`."""
    return _addresses(dataset, _draw(dataset.seed, numbers)[:, 0])


def _chunks(numbers: range) -> Iterator[range]:
    for first in range(numbers.start, numbers.stop, CHUNK_EVENTS):
        yield range(first, min(first + CHUNK_EVENTS, numbers.stop))


def _texts(dataset: Dataset, numbers: range) -> list[pa.Array]:
    """String arrays that commas join to the lines of the records; agent, country and language are one of them."""
    words, tables = _draw(dataset.seed, numbers), _vocabulary()
    return [
        pc.cast(pa.array(_event_times(dataset, numbers, words)), pa.string()),
        _addresses(dataset, words[:, 0]),
        _pick(tables.urls, _low(words[:, 1]), 32),
        _pick(tables.dates, _high(words[:, 1]), 32),
        _pick(tables.revenues, _low(words[:, 2]), 32),
        _pick(tables.visitors, words[:, 3] & np.uint64(0xFFFF), 16),
        _pick(tables.words, (words[:, 3] >> np.uint64(16)) & np.uint64(0xFFFFFF), 24),
        _pick(tables.durations, words[:, 3] >> np.uint64(40), 24),
    ]


def _joined(columns: list[pa.Array], record_bytes: int) -> memoryview:
    """The lines of the columns; the value buffer of the joined strings is the text of the file."""
    if record_bytes:
        unpadded = pc.binary_join_element_wise(*columns, "", ",")
        whole = pc.binary_join_element_wise(pc.ascii_rpad(unpadded, record_bytes - 1, " "), "", "\n")
    else:
        whole = pc.binary_join_element_wise(pc.binary_join_element_wise(*columns, ","), "", "\n")
    offsets = np.frombuffer(whole.buffers()[1], np.int32, len(whole) + 1, whole.offset * 4)
    return memoryview(whole.buffers()[2])[offsets[0] : offsets[-1]]


def _draw(seed: int, numbers: range) -> np.ndarray:
    """uint64[records, 4]: the words of the records `numbers`."""
    generator = np.random.Philox(counter=numbers.start, key=np.array([seed, 0], np.uint64))
    return generator.random_raw(len(numbers) * _WORDS).reshape(-1, _WORDS)


def _low(words: np.ndarray) -> np.ndarray:
    return words & np.uint64(0xFFFFFFFF)


def _high(words: np.ndarray) -> np.ndarray:
    return words >> np.uint64(32)


def _below(bound: int, draws: np.ndarray, bits: int) -> np.ndarray:
    """Draws of `bits` bits, scaled to 0 … bound - 1."""
    return ((draws * np.uint64(bound)) >> np.uint64(bits)).astype(np.int32)


def _pick(table: pa.Array, draws: np.ndarray, bits: int) -> pa.Array:
    return table.take(pa.array(_below(len(table), draws, bits)))


def _event_times(dataset: Dataset, numbers: range, words: np.ndarray) -> np.ndarray:
    """On schedule, less up to `disorder_ms`, never before the first: so never more than that behind an earlier one."""
    index = np.arange(numbers.start, numbers.stop, dtype=np.int64)
    seconds, rest = np.divmod(index, dataset.event_rate)
    scheduled: np.ndarray = FIRST_EVENT_MS + seconds * 1000 + rest * 1000 // dataset.event_rate
    if not dataset.disorder_ms:
        return scheduled
    disordered: np.ndarray = np.maximum(FIRST_EVENT_MS, scheduled - _below(dataset.disorder_ms + 1, _high(words[:, 2]), 32))
    return disordered


def _addresses(dataset: Dataset, draws: np.ndarray) -> pa.Array:
    if dataset.keys.kind == "uniform":
        outer, inner = _octet_pairs()
        return pc.binary_join_element_wise(_pick(outer, _low(draws), 32), _pick(inner, _high(draws), 32), ".")
    cumulated, table = _zipf(dataset.seed, dataset.keys.addresses)
    fraction = (draws >> np.uint64(11)) * (1.0 / (1 << 53))
    return table.take(pa.array(np.searchsorted(cumulated, fraction, side="right").astype(np.int32)))


@lru_cache(maxsize=1)
def _octet_pairs() -> tuple[pa.Array, pa.Array]:
    """HiBench's a.b.c.d with a, d in 1 … 254 and b, c in 0 … 254, as the tables of `a.b` and of `c.d`."""
    outer = pa.array([f"{a}.{b}" for a in range(1, 255) for b in range(255)])
    inner = pa.array([f"{c}.{d}" for c in range(255) for d in range(1, 255)])
    return outer, inner


@lru_cache(maxsize=2)
def _zipf(seed: int, addresses: int) -> tuple[np.ndarray, pa.Array]:
    """Cumulated probability of every rank (the last is > 1, so that a rank is always found) and each rank's address."""
    cumulated = np.cumsum(1.0 / np.arange(1, addresses + 1))
    cumulated /= cumulated[-1]
    cumulated[-1] = 2.0
    return cumulated, _distinct_addresses(seed, addresses)


def _distinct_addresses(seed: int, addresses: int) -> pa.Array:
    """The first `addresses` distinct ones that a generator of their own draws."""
    outer, inner = _octet_pairs()
    generator = np.random.Philox(counter=0, key=np.array([seed, 1], np.uint64))
    found = np.empty(0, np.int64)
    while len(found) < addresses:
        draws = generator.random_raw(addresses)
        more = _below(len(outer), _low(draws), 32).astype(np.int64) * len(inner) + _below(len(inner), _high(draws), 32)
        found = np.concatenate([found, more])
        found = found[np.sort(np.unique(found, return_index=True)[1])]
    outer_index, inner_index = np.divmod(found[:addresses], len(inner))
    return pc.binary_join_element_wise(outer.take(pa.array(outer_index)), inner.take(pa.array(inner_index)), ".")


@dataclass(frozen=True)
class _Vocabulary:
    """The words that records are made of; the same for every dataset."""

    urls: pa.Array
    dates: pa.Array
    revenues: pa.Array
    visitors: pa.Array
    words: pa.Array
    durations: pa.Array


@lru_cache(maxsize=1)
def _vocabulary() -> _Vocabulary:
    generator = np.random.Philox(counter=0, key=np.array([_VOCABULARY_SEED, 2], np.uint64))
    days = np.datetime64("1980-01-01") + np.arange(0, 11_808, 3)  # the last is before HiBench's 2012-05-01
    revenues = _below(1_000_000, generator.random_raw(50_000) >> np.uint64(32), 32)
    return _Vocabulary(
        urls=_random_words(generator, 20_000, 20, 40),
        dates=pa.array(days.astype(str).tolist()),
        revenues=pa.array([f"0.{revenue:06d}" for revenue in revenues.tolist()]),
        visitors=pa.array([f"{agent},{country},{country}-EN" for agent in _AGENTS for country in _COUNTRIES]),
        words=_random_words(generator, 5_000, 4, 10),
        durations=pa.array([str(seconds) for seconds in range(1, 100)]),
    )


def _random_words(generator: np.random.Philox, count: int, least: int, most: int) -> pa.Array:
    """`count` lower-case words of `least` to `most` letters."""
    lengths = least + _below(most - least + 1, generator.random_raw(count) >> np.uint64(32), 32)
    letters = 97 + _below(26, generator.random_raw(count * most) >> np.uint64(32), 32)
    rows = letters.astype(np.uint8).reshape(count, most)
    return pa.array([row[:length].tobytes().decode() for row, length in zip(rows, lengths.tolist(), strict=True)])
