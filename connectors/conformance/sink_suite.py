"""The suite for sinks: inherit `SinkSuite` in a class that pytest finds, with a fixture `bench` that gives a new `SinkBench`."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress

import pyarrow as pa

from connectors.conformance.bench import SinkBench
from connectors.contract import AnswerWriter, ConnectorError, Fenced

BATCHES, ROWS, KILLS = 60, 7, 20
NAME = "bench"


def batch_of(number: int) -> tuple[pa.RecordBatch, str]:
    """Batch `number` of all, and its origin."""
    numbers = list(range(number * ROWS, (number + 1) * ROWS))
    return pa.RecordBatch.from_pydict({"number": numbers, "text": [f"é, {i}" for i in numbers]}, SinkBench.SCHEMA), f"q.1.l.0.{number}"


class SinkSuite:
    """What is asked of each sink."""

    def test_what_was_committed_is_there(self, bench: SinkBench) -> None:
        writer = bench.sink().open(NAME, 1)
        _write(writer, 0, 3)
        writer.commit("3")
        _write(writer, 3, 5)
        writer.commit("5")
        writer.close()
        assert sorted(bench.seen()) == list(range(5 * ROWS))

    def test_a_token_is_kept_with_its_rows(self, bench: SinkBench) -> None:
        if not bench.sink().keeps_tokens:
            return
        writer = bench.sink().open(NAME, 1)
        assert writer.token() is None
        writer.commit("0")  # where a subscription begins: there are no rows yet
        _write(writer, 0, 2)
        writer.commit("2")
        _write(writer, 2, 3)
        writer.close()
        again = bench.sink().open(NAME, 2)
        assert again.token() == "2"
        again.close()
        other = bench.sink().open("another", 3)
        assert other.token() is None
        other.close()
        assert sorted(bench.seen()) == list(range(2 * ROWS))

    def test_what_is_aborted_is_not_there(self, bench: SinkBench) -> None:
        if not bench.sink().keeps_tokens:
            return
        writer = bench.sink().open(NAME, 1)
        _write(writer, 0, 2)
        writer.abort()
        _write(writer, 2, 3)
        writer.commit("3")
        writer.close()
        assert sorted(bench.seen()) == list(range(2 * ROWS, 3 * ROWS))

    def test_an_old_writer_is_fenced_off(self, bench: SinkBench) -> None:
        """It was frozen, another one has come, and it goes on."""
        if not bench.sink().keeps_tokens:
            return
        old = bench.sink().open(NAME, 1)
        _write(old, 0, 1)
        old.commit("1")
        _write(old, 1, 2)
        new = bench.sink().open(NAME, 2)
        _write(new, 1, 3)
        new.commit("3")
        try:
            old.commit("2")
        except Fenced:
            pass
        else:
            raise AssertionError("it could still commit")
        with suppress(ConnectorError):
            old.close()
        new.close()
        assert sorted(bench.seen()) == list(range(3 * ROWS))
        try:
            bench.sink().open(NAME, 1).close()
        except Fenced:
            return
        raise AssertionError("one with a lesser epoch could be opened")

    def test_twenty_kills_lose_nothing(self, bench: SinkBench) -> None:
        """A writer is left where it is, at any point. Where tokens are kept with the rows nothing is there twice either."""
        chance, done, noted = random.Random(7), 0, "0"
        keeps = bench.sink().keeps_tokens
        left: list[AnswerWriter] = []
        for epoch in range(1, KILLS + 1):
            writer = bench.sink().open(NAME, epoch)
            done = int((writer.token() if keeps else noted) or 0)
            for _ in range(chance.randrange(4)):
                behind = min(done + chance.randrange(3), BATCHES)
                _write(writer, done, behind)
                if chance.random() < 0.4:
                    break  # killed before the commit
                writer.commit(str(behind))
                done = behind
                if chance.random() < 0.3:
                    break  # killed before the token could be noted elsewhere
                noted = str(done)
            left.append(writer)
        last = bench.sink().open(NAME, KILLS + 1)
        _write(last, int((last.token() if keeps else noted) or 0), BATCHES)
        last.commit(str(BATCHES))
        last.close()
        seen = Counter(bench.seen())
        assert seen.keys() == set(range(BATCHES * ROWS))
        assert not keeps or set(seen.values()) == {1}
        for writer in left:
            with suppress(ConnectorError):
                writer.close()


def _write(writer: AnswerWriter, first: int, behind: int) -> None:
    for number in range(first, behind):
        writer.write(*batch_of(number))
