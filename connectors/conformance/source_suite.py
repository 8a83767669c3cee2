"""The suite for sources: inherit `SourceSuite` in a class that pytest finds, with a fixture `bench` that gives a new `SourceBench`."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from connectors.conformance.bench import SourceBench
from connectors.contract import Place, Polled, RecordReader

RECORDS, KILLS, LATE_S, PATIENCE_S = 200, 20, 2.0, 30.0


def records(first: int, behind: int) -> list[bytes]:
    """What is fed: JSON, each with a number, some with a text that is awkward."""
    return [f'{{"number": {i}, "text": "{"quoted, with é" if i % 3 else "plain"} {i}"}}'.encode() for i in range(first, behind)]


class SourceSuite:
    """What is asked of each source."""

    def test_all_is_found_in_order(self, bench: SourceBench) -> None:
        bench.feed(records(0, RECORDS))
        assert _all(bench, None) == records(0, RECORDS)

    def test_what_comes_later_is_found_too(self, bench: SourceBench) -> None:
        bench.feed(records(0, 10))
        reader = _open(bench, None)
        assert _take(bench, reader, 10)[0] == records(0, 10)
        bench.feed(records(10, 20))
        assert _take(bench, reader, 10)[0] == records(10, 20)
        reader.close()

    def test_it_goes_on_at_any_place(self, bench: SourceBench) -> None:
        """In another reader, of another source: a place is all that is left of the one before."""
        if not bench.source().replayable:
            return
        bench.feed(records(0, 30))
        reader = _open(bench, None)
        for taken in range(1, 30):
            _, place = _take(bench, reader, 1)
            assert _all(bench, place, 30 - taken) == records(taken, 30), f"behind {taken} records, at {place!r}"
        reader.close()

    def test_twenty_kills_lose_nothing_and_repeat_nothing(self, bench: SourceBench) -> None:
        """A reader is left where it is, between any two polls; the next one begins at the place of what had been taken over by then."""
        if not bench.source().replayable:
            return
        for seed in range(3):
            chance, place, found = random.Random(seed), None, list[bytes]()
            bench.feed(records(seed * RECORDS, (seed + 1) * RECORDS)) if seed else bench.feed(records(0, RECORDS))
            expected = records(0, (seed + 1) * RECORDS)
            for _ in range(KILLS):
                reader = _open(bench, place)
                for _ in range(chance.randrange(3)):
                    polled = reader.poll(chance.randrange(1, 9), PATIENCE_S if len(found) < len(expected) else 0.01)
                    if chance.random() < 0.3:
                        break  # killed before it was taken over
                    found += _values(bench, polled)
                    place = polled.place
                    if chance.random() < 0.5:
                        reader.committed(place)
                reader.close()
            found += _all(bench, place, len(expected) - len(found)) if len(found) < len(expected) else []
            assert found == expected

    def test_numbers_rise_and_are_places(self, bench: SourceBench) -> None:
        if not bench.source().numbered:
            return
        bench.feed(records(0, 30))
        reader, numbers = _open(bench, None), list[int]()
        while len(numbers) < 30:
            polled = reader.poll(7, PATIENCE_S)
            if len(polled):
                assert polled.numbers is not None and len(polled.numbers) == len(polled)
                numbers += list(polled.numbers)
                assert polled.place > numbers[-1]
        reader.close()
        assert numbers == sorted(set(numbers))
        for at in (1, 15, 29):
            assert _all(bench, numbers[at], 30 - at) == records(at, 30)

    def test_a_bad_record_is_one_of_many(self, bench: SourceBench) -> None:
        """It comes as it is; the format judges it."""
        bench.feed([*records(0, 5), b"nonsense", *records(5, 10)])
        assert _all(bench, None, 11) == [*records(0, 5), b"nonsense", *records(5, 10)]

    def test_no_more_than_was_asked_for(self, bench: SourceBench) -> None:
        bench.feed(records(0, 30))
        reader = _open(bench, None)
        for most in (1, 2, 3, 5):
            assert 0 < len(_polled(reader, most)) <= most
        reader.close()

    def test_a_poll_keeps_its_time(self, bench: SourceBench) -> None:
        bench.feed(records(0, 1))
        reader = _open(bench, None)
        _take(bench, reader, 1)
        begun = time.monotonic()
        assert len(reader.poll(10, 0.1)) == 0
        assert time.monotonic() - begun < 0.1 + LATE_S
        reader.close()

    def test_it_bears_not_to_be_polled(self, bench: SourceBench) -> None:
        """For the stream's queries had no room."""
        bench.feed(records(0, 10))
        reader = _open(bench, None)
        _, place = _take(bench, reader, 3)
        reader.committed(place)
        time.sleep(bench.silence_s)
        assert _take(bench, reader, 7)[0] == records(3, 10)
        reader.close()

    def test_partitions_that_appear_are_found(self, bench: SourceBench) -> None:
        bench.feed(records(0, 3))
        source = bench.source()
        before = set(source.partitions())
        if not bench.add_partition(records(3, 6)):
            return
        deadline = time.monotonic() + PATIENCE_S
        while not (added := set(source.partitions()) - before):
            assert time.monotonic() < deadline
        (name,) = added
        reader = source.open(name, None)
        assert _take(bench, reader, 3)[0] == records(3, 6)
        reader.close()


def _open(bench: SourceBench, place: Place | None) -> RecordReader:
    source = bench.source()
    return source.open(source.partitions()[0], place)


def _values(bench: SourceBench, polled: Polled) -> list[bytes]:
    return [bench.value_of(polled, index) for index in range(len(polled))]


def _polled(reader: RecordReader, most: int) -> Polled:
    deadline = time.monotonic() + PATIENCE_S
    while not len(polled := reader.poll(most, 1.0)):
        assert time.monotonic() < deadline, "nothing is found"
    return polled


def _take(bench: SourceBench, reader: RecordReader, count: int) -> tuple[Sequence[bytes], Place]:
    found, place = list[bytes](), None
    while len(found) < count:
        polled = _polled(reader, count - len(found))
        found += _values(bench, polled)
        place = polled.place
    return found, place


def _all(bench: SourceBench, place: Place | None, count: int = RECORDS) -> list[bytes]:
    """So many, and no more follow."""
    reader = _open(bench, place)
    found = list(_take(bench, reader, count)[0]) if count else []
    assert len(reader.poll(10, 0.05)) == 0
    reader.close()
    return found
