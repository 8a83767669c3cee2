"""What one run of one engine measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from hibench.runs.answers import AnswerSums, Expected, RowsAgain, difference
from hibench.runs.meter import ProcessUse, Use


@dataclass(frozen=True)
class LatencyPercentiles:
    """Milliseconds at three percentiles, over `samples` answers."""

    p50: float
    p95: float
    p99: float
    samples: int


@dataclass(frozen=True)
class RunResult:
    """What was measured, and after `checked` also whether the answers are right.

    numa        'on' or 'off' for our engine, None for others
    answers     how many rows; `checksum` is theirs (hibench.runs.answers)
    expected    the reference's answers; None until checked
    difference  '' or the rows that only one side has
    """

    engine: str
    numa: str | None
    events: int
    seconds: float
    events_per_second: float
    cpu_seconds: float
    events_per_cpu_second: float
    peak_anonymous_bytes: int
    answers: int
    checksum: str
    latency_ms: LatencyPercentiles | None = None
    settings: dict[str, object] = field(default_factory=dict)
    processes: tuple[ProcessUse, ...] = ()
    expected: AnswerSums | None = None
    difference: str = ""

    @property
    def equal(self) -> bool:
        """Whether the answers were checked and are the expected ones."""
        return self.expected is not None and (self.answers, self.checksum) == (
            self.expected.rows,
            self.expected.checksum,
        )

    def checked(self, expected: Expected, rows: RowsAgain) -> RunResult:
        """This result, held against the reference; the answers themselves (`rows`) are compared only where the checksums differ."""
        checked = replace(self, expected=expected.answers)
        return checked if checked.equal else replace(checked, difference=difference(expected.shape, expected.rows, rows))

    @classmethod
    def measured(
        cls,
        engine: str,
        numa: str | None,
        events: int,
        use: Use,
        answers: AnswerSums,
        settings: dict[str, object],
        latency_ms: LatencyPercentiles | None = None,
    ) -> RunResult:
        """The result of a run over `events` records that used `use` and gave `answers`."""
        return cls(
            engine=engine,
            numa=numa,
            events=events,
            seconds=use.seconds,
            events_per_second=events / use.seconds,
            cpu_seconds=use.cpu_seconds,
            events_per_cpu_second=events / use.cpu_seconds if use.cpu_seconds else 0.0,
            peak_anonymous_bytes=use.peak_anonymous_bytes,
            answers=answers.rows,
            checksum=answers.checksum,
            latency_ms=latency_ms,
            settings=settings,
            processes=tuple(use.processes),
        )

    def to_json(self) -> dict[str, object]:
        return {**asdict(self), "answers_equal": self.equal}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> RunResult:
        """The result that `to_json` wrote. Raises KeyError or TypeError: it is none."""
        read = {field.name: document[field.name] for field in fields(cls)}
        return cls(
            **{
                **read,
                "latency_ms": read["latency_ms"] and LatencyPercentiles(**read["latency_ms"]),
                "expected": read["expected"] and AnswerSums(**read["expected"]),
                "processes": tuple(ProcessUse(**process) for process in read["processes"]),
            }
        )
