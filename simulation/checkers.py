"""What must hold, whatever the seed. Each checker looks at one thing, and says in words what it has found wrong."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from cep.elements import EVENT_TIME_MAX, MIN_TIME
from cep.errors import CepError
from cep.model.operators import Aggregate
from cep.model.query import Query
from cep.transport import wire
from cep.transport.wire import Header
from tests.reference import Answer, difference
from tests.reference.engine import TimedRow
from tests.support.running import outputs_of

#: Those that have numbers on their channel, and those of them with which it ends.
NUMBERED = frozenset((*range(wire.BATCH, wire.CREDIT), wire.CLOSE))
ENDINGS = frozenset((wire.END, wire.STOP, wire.FAIL))
COMPLAINTS_MAX = 5


class Checker(Protocol):
    def complaints(self) -> Iterator[str]:
        """What was wrong, once everything is over."""


class Numbers:
    """The elements of every channel are sent with numbers without a gap, and none follows the last one (rule 4.3)."""

    def __init__(self) -> None:
        self._next: dict[int, tuple[str, int]] = {}  # by channel; who has sent the one before
        self._ended: set[int] = set()
        self._wrong: list[str] = []

    def sent(self, source: str, header: Header) -> None:
        if header.kind not in NUMBERED:
            return
        channel = header.channel
        _, expected = self._next.get(channel, ("", header.sequence))
        if header.sequence != expected:
            self._wrong.append(f"{source} sent element {header.sequence} of channel {header.channel:x}, expected {expected}")
        if channel in self._ended:
            self._wrong.append(f"{source} sent element {header.sequence} of channel {header.channel:x}, which has ended")
        self._next[channel] = source, header.sequence + 1
        if header.kind in ENDINGS:
            self._ended.add(channel)

    def died(self, source: str) -> None:
        """What comes in its place goes on behind what counts of what it has sent, which may be more than has left it."""
        self._next = {channel: last for channel, last in self._next.items() if last[0] != source}

    def complaints(self) -> Iterator[str]:
        yield from self._wrong[:COMPLAINTS_MAX]


class AnswersAgree:
    """All rows that come out, late ones too, are the reference's (rule 5.8)."""

    def __init__(self, query: Query, expected: Answer) -> None:
        self.expected = outputs_of(query, expected)
        self.rows: defaultdict[str, list[TimedRow]] = defaultdict(list)
        self.partial: set[str] = set()  # streams that were not read to their ends: nothing that came was wrong

    def took(self, stream: str, rows: Iterable[TimedRow]) -> None:
        self.rows[stream] += rows

    def complaints(self) -> Iterator[str]:
        for stream in sorted({*self.expected, *self.rows}):
            wrong = difference(self.expected.get(stream, ()), self.rows[stream])
            if wrong and (stream not in self.partial or "\n  unexpected " in wrong):
                yield f"stream {stream!r}: {wrong}"


class Promises:
    """No instance gives out a row older than a watermark it has told (rule 4.8), and those of one key it gives out by event time."""

    def __init__(self, query: Query) -> None:
        self._keys = {output.stream: by for output in query.outputs if (by := _key_of(query, output.input)) is not None}
        self._late = query.late
        self._watermarks: dict[tuple[str, int], int] = {}  # by stream and channel
        self._times: dict[tuple[str, int, str], int] = {}  # by stream, channel and key
        self._wrong: list[str] = []

    def took(self, stream: str, names: Sequence[str], header: Header, rows: Sequence[TimedRow]) -> None:
        if stream == self._late:
            return
        promised = self._watermarks.get((stream, header.channel), MIN_TIME)
        self._watermarks[stream, header.channel] = max(promised, header.watermark)
        by = self._keys.get(stream)
        at = None if by is None else [names.index(name) for name in by]
        for time, values in rows:
            if time < promised:
                self._wrong.append(f"stream {stream!r}: a row at {time} came behind the watermark {promised}: {values!r}")
            if at is not None:
                self._in_order(stream, header.channel, repr([values[i] for i in at]), time)

    def _in_order(self, stream: str, channel: int, key: str, time: int) -> None:
        """What the end of the streams lets out is at the end of event time, behind which windows may end."""
        before = self._times.get((stream, channel, key), time)
        if time < min(before, EVENT_TIME_MAX):
            self._wrong.append(f"stream {stream!r}: of key {key} a row at {time} came behind one at {before}")
        self._times[stream, channel, key] = max(time, before)

    def complaints(self) -> Iterator[str]:
        yield from self._wrong[:COMPLAINTS_MAX]


def _key_of(query: Query, name: str) -> tuple[str, ...] | None:
    """The columns of the key of an aggregate; None: `name` is something else, which promises no order."""
    operator = next((each for each in query.operators if each.name == name), None)
    return operator.by if isinstance(operator, Aggregate) and operator.by else None


class CountsAgree:
    """Late rows, dead letters and rows that came out are counted exactly, whatever was killed, and when (rule 4.9): so says the record of
    a query that has ended."""

    def __init__(self, query: Query, expected: Answer) -> None:
        self.late, self.dead = sum(map(len, expected.late.values())), expected.dead_counts()
        self.rows = {stream: len(rows) for stream, rows in outputs_of(query, expected).items()}
        self._found: tuple[int, Mapping[str, int], Mapping[str, int]] | None = None

    def ended(self, late: int, dead: Mapping[str, int], rows: Mapping[str, int]) -> None:
        """With these totals; not called where what counted may be gone."""
        self._found = late, dead, rows

    def complaints(self) -> Iterator[str]:
        if self._found is None:
            return
        late, dead, rows = self._found
        if late != self.late:
            yield f"late rows: expected {self.late}, counted {late}"
        if dead != self.dead:
            yield f"dead letters: expected {dict(self.dead)}, counted {dict(dead)}"
        if rows != self.rows:
            yield f"rows out: expected {self.rows}, counted {dict(rows)}"


class QueryOutcome:
    """A query that nothing has hit ends; one that was hit fails by name, with the cause. That a subscriber hears of an end only with all
    rows says `AnswersAgree`."""

    def __init__(self) -> None:
        self.publishing_failed = False
        self._readers: dict[str, CepError | str] = {}  # stream -> what became of its reader: `attached`, `ended`, or an error
        self._wrong: list[str] = []

    def attached(self, stream: str) -> None:
        self._readers[stream] = "attached"

    def ended(self, stream: str) -> None:
        self._readers[stream] = "ended"

    def failed(self, stream: str, error: CepError) -> None:
        self._readers[stream] = error

    def knows(self, stream: str) -> bool:
        return stream in self._readers

    def is_whole(self, stream: str) -> bool:
        """Has its reader come to the end?"""
        return self._readers.get(stream) == "ended"

    def judge(self, state: str, cause: Mapping[str, Any] | None, hit: Collection[str], lost: bool) -> None:
        """`hit`: the instance managers that were; `lost`: publishers are, so that the query has no end."""
        text = "" if cause is None else str(cause.get("cause"))
        if state == "failed" and not any(repr(im) in text for im in hit):
            self._wrong.append(f"the query failed, and none of {sorted(hit)} is named as the cause: {text!r}")
        if state == "stopped" and not (lost or self.publishing_failed):
            self._wrong.append("the query was stopped, and that was not asked for")
        if self.publishing_failed and not hit and not lost:
            self._wrong.append("a publisher was told of an error, and nothing was hit")
        for stream, found in sorted(self._readers.items()):
            if isinstance(found, CepError) and state == "ended" and not hit:
                self._wrong.append(f"stream {stream!r} broke off, and nothing was hit: {type(found).__name__}: {found}")

    def judge_recovering(self, state: str, cause: Mapping[str, Any] | None) -> None:
        """A query that recovers ends, whatever was hit, and its subscribers hear of nothing."""
        if state != "ended":
            self._wrong.append(f"the query is {state}: {cause}")
        for stream, found in sorted(self._readers.items()):
            if isinstance(found, CepError):
                self._wrong.append(f"stream {stream!r} broke off: {type(found).__name__}: {found}")

    def complaints(self) -> Iterator[str]:
        yield from self._wrong


def complaints(checkers: Iterable[Checker]) -> list[str]:
    return [f"{type(checker).__name__}: {text}" for checker in checkers for text in checker.complaints()]


__all__ = ["AnswersAgree", "Checker", "CountsAgree", "Numbers", "Promises", "QueryOutcome", "complaints"]
