"""Nexmark's events, as the generator of the suite for Flink makes them: equal arguments, equal events.

Of 50 events the first is a person, three are auctions, 46 are bids. The n-th has the number n, which decides its kind, its time and the
ids that it may name; all else is drawn. Kept as there: bidders lie 1,000 above the persons (nexmark#30), and one in some dozens of ids
names one that comes later or never. Left out, as there: changing rates, delays and order (every group has one event).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

PERSONS, AUCTIONS, CYCLE = 1, 3, 50  # in each cycle of events
FIRST_ID = 1000  # of persons and of auctions
ACTIVE_PERSONS, OPEN_AUCTIONS, AHEAD = 1000, 100, 10
HOT_EVERY = 100  # ids: the last multiple of it is the hot one
HOT_AUCTION, HOT_BIDDER, HOT_SELLER = 1 / 2, 3 / 4, 3 / 4
FIRST_CATEGORY, CATEGORIES = 10, 5
CHANNELS, HOT_CHANNELS = 10_000, ("Google", "Facebook", "Baidu", "Apple")
PERSON_BYTES, AUCTION_BYTES, BID_BYTES = 200, 500, 100  # on average
FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
CITIES = ("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent", "Cheyenne")
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
BASE_MS = 1_714_521_560_000
"""2024-04-30 23:59:20 UTC, so that a run of a minute and more has two days."""

NUMBER = "n"
"""The column with an event's number. Queries do not see it; the witness orders by it what has one time."""

Ids = np.ndarray  # int64, as all numbers here


@dataclass(frozen=True)
class DrawnEvents:
    """What is drawn.

    Args:
        count: how many events of all kinds.
        rate: events a second of event time.
        seed: of the draws.
        first: the number of the first one. Later ones find more persons and auctions before them.
    """

    count: int
    rate: float = 10_000
    seed: int = 7
    first: int = 0

    def times_ms(self, numbers: Ids) -> Ids:
        """When the events of these numbers happen, ms since 1970."""
        found: Ids = BASE_MS + np.floor((numbers - self.first) * (1e6 / self.rate)).astype(np.int64) // 1000
        return found

    @property
    def open_ms_max(self) -> int:
        """An auction expires at most so many ms after it began."""
        return 2 * int(np.ceil(OPEN_AUCTIONS * CYCLE // AUCTIONS * 1000 / self.rate)) + 3

    def tables(self) -> dict[str, pa.Table]:
        """Persons, auctions and bids by name of their stream, each in the order of its numbers."""
        numbers, random = np.arange(self.first, self.first + self.count, dtype=np.int64), np.random.default_rng(self.seed)
        place = numbers % CYCLE
        persons, auctions = place < PERSONS, (place >= PERSONS) & (place < PERSONS + AUCTIONS)
        return {
            "person": _persons(self, numbers[persons], random),
            "auction": _auctions(self, numbers[auctions], random),
            "bid": _bids(self, numbers[~persons & ~auctions], random),
        }


def _persons(events: DrawnEvents, numbers: Ids, random: np.random.Generator) -> pa.Table:
    rows = len(numbers)
    name = _joined(_one_of(FIRST_NAMES, rows, random), _one_of(LAST_NAMES, rows, random), " ")
    mail = _joined(_joined(_texts(7, rows, random), _texts(5, rows, random), "@"), _constant(".com", rows), "")
    card = _joined(*(_padded(random.integers(0, 10_000, rows)) for _ in range(4)), " ")
    city, state = _one_of(CITIES, rows, random), _one_of(STATES, rows, random)
    used = np.sum([_lengths(each) for each in (name, mail, card, city, state)], axis=0) + 8
    return pa.table(
        {
            "id": FIRST_ID + _last_person(numbers),
            "name": name,
            "emailAddress": mail,
            "creditCard": card,
            "city": city,
            "state": state,
            "dateTime": _instants(events.times_ms(numbers)),
            "extra": _extra(used, PERSON_BYTES, random),
            NUMBER: numbers,
        }
    )


def _auctions(events: DrawnEvents, numbers: Ids, random: np.random.Generator) -> pa.Table:
    rows, times = len(numbers), events.times_ms(numbers)
    until = events.times_ms(numbers + OPEN_AUCTIONS * CYCLE // AUCTIONS)
    first, item, description = prices(rows, random), _texts(20, rows, random), _texts(100, rows, random)
    hot = _last_person(numbers) // HOT_EVERY * HOT_EVERY
    seller = np.where(random.random(rows) < HOT_SELLER, hot, _any_person(numbers, random))
    return pa.table(
        {
            "id": FIRST_ID + _last_auction(numbers),
            "itemName": item,
            "description": description,
            "initialBid": first,
            "reserve": first + prices(rows, random),
            "dateTime": _instants(times),
            "expires": _instants(times + 1 + random.integers(0, np.maximum(2 * (until - times), 1))),
            "seller": FIRST_ID + seller,
            "category": FIRST_CATEGORY + random.integers(0, CATEGORIES, rows),
            "extra": _extra(48 + _lengths(item) + _lengths(description), AUCTION_BYTES, random),
            NUMBER: numbers,
        }
    )


def _bids(events: DrawnEvents, numbers: Ids, random: np.random.Generator) -> pa.Table:
    rows, last = len(numbers), _last_auction(numbers)
    auction = np.where(random.random(rows) < HOT_AUCTION, last // HOT_EVERY * HOT_EVERY, _any_auction(last, random))
    hot = _last_person(numbers) // HOT_EVERY * HOT_EVERY + 1
    bidder = np.where(random.random(rows) < HOT_BIDDER, hot, _any_person(numbers, random))
    cold, common = random.integers(0, CHANNELS, rows), CHANNELS + random.integers(0, len(HOT_CHANNELS), rows)
    chosen = pa.array(np.where(random.random(rows) < 0.5, common, cold))
    channels = pa.array([*(f"channel-{i}" for i in range(CHANNELS)), *HOT_CHANNELS])
    return pa.table(
        {
            "auction": FIRST_ID + auction,
            "bidder": 2 * FIRST_ID + bidder,
            "price": prices(rows, random),
            "channel": channels.take(chosen),
            "url": urls(random).take(chosen),
            "dateTime": _instants(events.times_ms(numbers)),
            "extra": _extra(np.full(rows, 32), BID_BYTES, random),
            NUMBER: numbers,
        }
    )


def _last_person(numbers: Ids) -> Ids:
    """The last person that there is at these events, counted from 0."""
    return numbers // CYCLE


def _last_auction(numbers: Ids) -> Ids:
    """The last auction, counted from 0; -1 before the first one."""
    found: Ids = numbers // CYCLE * AUCTIONS + np.minimum(numbers % CYCLE - PERSONS, AUCTIONS - 1)
    return found


def _any_person(numbers: Ids, random: np.random.Generator) -> Ids:
    """One that is active, or will be soon."""
    there = _last_person(numbers) + 1
    active = np.minimum(there, ACTIVE_PERSONS)
    found: Ids = there - active + random.integers(0, active + AHEAD)
    return found


def _any_auction(last: Ids, random: np.random.Generator) -> Ids:
    """One that is open, or will be soon."""
    oldest = np.maximum(last - OPEN_AUCTIONS, 0)
    found: Ids = oldest + random.integers(0, last - oldest + 1 + AHEAD)
    return found


def prices(rows: int, random: np.random.Generator) -> Ids:
    """Cents, evenly over the orders of magnitude from 100 to 10^8."""
    return np.round(10 ** (6 * random.random(rows)) * 100).astype(np.int64)


def urls(random: np.random.Generator) -> pa.Array:
    """A url for each channel. Nine of ten channels that are not hot have their number in it, its 32 bits reversed, without sign."""
    count = CHANNELS + len(HOT_CHANNELS)
    folders = [_texts(5, count, random, separator="_") for _ in range(3)]
    plain = _joined(_constant("https://www.nexmark.com", count), *folders, _constant("item.htm?query=1", count), "/")
    reversed_bits = [int(f"{i:032b}"[::-1], 2) for i in range(CHANNELS)]
    numbers = [abs(bits - (1 << 32 if bits >> 31 else 0)) for bits in reversed_bits]
    named = random.random(CHANNELS) < 0.9
    ends = [f"&channel_id={number}" if is_named else "" for number, is_named in zip(numbers, named, strict=True)]
    return _joined(plain, pa.array([*ends, *("" for _ in HOT_CHANNELS)]), "")


def _texts(longest: int, rows: int, random: np.random.Generator, separator: str = " ") -> pa.Array:
    """From 3 to `longest` - 1 characters a-z, one in thirteen a separator; without blanks at both ends."""
    lengths = 3 + random.integers(0, longest - 3, rows)
    letters = random.integers(ord("a"), ord("z") + 1, int(lengths.sum()), dtype=np.uint8)
    letters[random.random(len(letters)) < 1 / 13] = ord(separator)
    return pc.utf8_trim_whitespace(_cut(letters, lengths))


def _extra(used: Ids, average: int, random: np.random.Generator) -> pa.Array:
    """Fills events of `used` bytes up to an average, a fifth more or less; nothing where they are longer already."""
    missing = average - used
    around = np.floor(0.2 * missing + 0.5).astype(np.int64)
    lengths = np.where(missing > 0, missing - around + random.integers(0, np.maximum(2 * around, 1)), 0)
    return _cut(random.integers(ord("a"), ord("z") + 1, int(lengths.sum()), dtype=np.uint8), lengths)


def _cut(letters: np.ndarray, lengths: Ids) -> pa.Array:
    """Texts of these lengths, one after the other."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.StringArray.from_buffers(len(lengths), pa.py_buffer(offsets), pa.py_buffer(letters))


def _one_of(texts: tuple[str, ...], rows: int, random: np.random.Generator) -> pa.Array:
    return pa.array(texts).take(pa.array(random.integers(0, len(texts), rows)))


def _padded(numbers: Ids) -> pa.Array:
    return pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 4, "0")


def _constant(text: str, rows: int) -> pa.Array:
    return pa.repeat(text, rows)


def _joined(*texts_and_separator: object) -> pa.Array:
    """Texts side by side; the last argument stands between them."""
    return pc.binary_join_element_wise(*texts_and_separator)


def _lengths(texts: pa.Array) -> Ids:
    found: Ids = pc.binary_length(texts).to_numpy().astype(np.int64)
    return found


def _instants(milliseconds: Ids) -> pa.Array:
    return pa.array(milliseconds).cast(pa.timestamp("ms"))
