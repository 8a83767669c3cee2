"""What Prometheus reads: every metric with its name, type, help and labels, made of what was reported.

Names are `cep_`, what is counted, its unit in full and in base units (seconds, bytes; none for tuples), and `_total` for what only grows.
Labels: query, subquery, instance, im (the instance manager), operator, output; of what belongs to no instance, im or process alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

from cep.dataflow.meter import LATENCY_BOUNDS_US
from orchestrator.metrics.stalls import STALLED, STALLS, ReportedStalls, Sample
from orchestrator.records import Now

Metric = tuple[str, str, str]
Instances = Collection[tuple["ReportedInstance", "InstanceReport"]]

#: Field of a report -> (metric, type, help).
_INSTANCE = {
    "rows_in": ("cep_rows_in_total", "counter", "Tuples taken in"),
    "rows_out": ("cep_rows_out_total", "counter", "Tuples given out"),
    "bytes_in": ("cep_input_bytes_total", "counter", "Bytes that came from other processes"),
    "bytes_out": ("cep_output_bytes_total", "counter", "Bytes given to channels and subscribers"),
    "late": ("cep_late_rows_total", "counter", "Tuples that came later than the stream's disorder allows"),
    "odd_times": ("cep_odd_event_times_total", "counter", "Tuples whose event time is none that their stream allows"),
    "dropped_rows": ("cep_dropped_rows_total", "counter", "Answers without a subscriber, or dropped for slow ones"),
    "incomplete": (
        "cep_incomplete_windows_total",
        "counter",
        "Windows cut by the query's start or by the end; a zip's tuples without a partner",
    ),
    "outside": ("cep_outside_rows_total", "counter", "Tuples outside every transaction"),
    "cpu_ns": ("cep_cpu_seconds_total", "counter", "Processor time spent"),
    "moves": ("cep_bucket_moves_total", "counter", "Moves of buckets to or from an instance"),
    "moved_rows": ("cep_bucket_moved_rows_total", "counter", "Rows of state given to another instance"),
    "moved_bytes": ("cep_bucket_moved_bytes_total", "counter", "Bytes of state given to another instance"),
    "move_ns": ("cep_bucket_move_seconds_total", "counter", "Time in which an instance took no tuples since buckets moved"),
    "queue_bytes": ("cep_queue_bytes", "gauge", "Bytes that wait to be processed"),
    "state_bytes": ("cep_state_bytes", "gauge", "Bytes of operators' state"),
}
_OPERATOR = {
    "rows_in": ("cep_operator_rows_in_total", "counter", "Tuples an operator took in"),
    "rows_out": ("cep_operator_rows_out_total", "counter", "Tuples an operator gave out"),
    "batches": ("cep_operator_batches_total", "counter", "Batches an operator took in"),
    "cpu_ns": ("cep_operator_cpu_seconds_total", "counter", "Processor time of an operator, or of a step that is none"),
    "bypassed": ("cep_operator_bypassed_rows_total", "counter", "Tuples that went on one by one, since pre-aggregation did not reduce"),
}
_OUTPUT = {
    "blocked_ns": ("cep_blocked_seconds_total", "counter", "Time an output waited for credit to send"),
    "blocked": ("cep_blocked", "gauge", "1: an output waits for credit to send"),
}
_LATENCY = ("cep_latency_seconds", "histogram", "From the creation of a batch's oldest tuple until it came out of the query, by tuples")
_LAG = ("cep_watermark_lag_seconds", "gauge", "How far the watermark is behind the clock")
_LETTERS = ("cep_dead_letters_total", "counter", "Records that could not be used")
_PROCESS = {
    "cpu_ns": ("cep_process_cpu_seconds_total", "counter", "Processor time of an instance manager"),
    "engine_cpu_ns": ("cep_engine_cpu_seconds_total", "counter", "Processor time of an instance manager's engine thread"),
    "loop_cpu_ns": ("cep_loop_cpu_seconds_total", "counter", "Part of the engine's that belongs to no instance"),
    "network_cpu_ns": ("cep_network_cpu_seconds_total", "counter", "Part of the engine's for credits and control messages"),
    "rss_bytes": ("cep_process_memory_bytes", "gauge", "Memory of an instance manager"),
    "memory_limit_bytes": ("cep_process_memory_limit_bytes", "gauge", "Memory that an instance manager may have"),
    "strays": ("cep_process_strays_total", "counter", "Messages for channels that are not there"),
    "fast_path": ("cep_process_fast_path_messages_total", "counter", "Small messages that were passed on by the fast path"),
    "compilations": ("cep_process_compilations_total", "counter", "Kernels compiled or loaded"),
}


class ReportedInstance(NamedTuple):
    """A subquery instance."""

    query: str
    subquery: str
    instance: int


@dataclass
class InstanceReport:
    """The last report of an instance."""

    im: str
    at: Now
    report: Mapping[str, Any]
    withdrawn: bool = False  # its instance manager has it no more


def exposition(
    instances: Instances, managers: Mapping[str, tuple[Now, Mapping[str, Any]]], stalls: ReportedStalls, now: float
) -> Iterator[str]:
    """In the format that Prometheus reads; `now` in s since 1970."""
    for field, metric in _INSTANCE.items():
        yield from family(metric, ((_labels(*each), _value(field, each[1].report)) for each in instances))
    yield from family(_LAG, ((_labels(*each), _lag_s(each[1].report, now)) for each in instances))
    for field, metric in _OPERATOR.items():
        yield from family(metric, _operators(instances, field))
    for field, metric in _OUTPUT.items():
        yield from family(metric, ((labels, _value(field, output)) for labels, output in _outputs(instances)))
    yield from _latencies(instances)
    yield from family(_LETTERS, _letters(instances))
    for field, metric in _PROCESS.items():
        yield from family(metric, (({"im": im}, _value(field, process)) for im, (_, process) in managers.items()))
    yield from family(STALLS, stalls.samples("count"))
    yield from family(STALLED, stalls.samples("total_ns", 1e9))


def family(metric: Metric, samples: Iterable[Sample]) -> Iterator[str]:
    """One metric with all its samples; nothing at all if there are none."""
    name, type_, help_ = metric
    lines = [f"{name}{{{_text(labels)}}} {value}\n" for labels, value in samples if value is not None]
    if lines:
        yield f"# HELP {name} {help_}.\n# TYPE {name} {type_}\n"
        yield from lines


def letter_counts(report: Mapping[str, Any]) -> Iterable[tuple[str, int]]:
    """(operator, or operator and reason; count)."""
    for name, count in report.get("dead_letters", {}).get("count", ()):
        yield name if isinstance(name, str) else ": ".join(map(str, name)), count


def _operators(instances: Instances, field: str) -> Iterator[Sample]:
    for where, figures in instances:
        for operator in figures.report.get("operators", ()):
            labels = {"operator": operator["name"], "step": operator["step"]}
            yield _labels(where, figures) | labels, _value(field, operator)


def _outputs(instances: Instances) -> Iterator[tuple[dict[str, str], Mapping[str, Any]]]:
    for where, figures in instances:
        for output in figures.report.get("outputs", ()):
            yield _labels(where, figures) | {"output": output["name"]}, output


def _letters(instances: Instances) -> Iterator[Sample]:
    for where, figures in instances:
        for name, count in letter_counts(figures.report):
            yield _labels(where, figures) | {"operator": name}, count


def _latencies(instances: Instances) -> Iterator[str]:
    name, type_, help_ = _LATENCY
    found = ((labels, output["latency_us"]) for labels, output in _outputs(instances) if "latency_us" in output)
    lines = [line for each in found for line in _histogram(name, *each)]
    if lines:
        yield f"# HELP {name} {help_}.\n# TYPE {name} {type_}\n"
        yield from lines


def _histogram(name: str, labels: dict[str, str], latency: Mapping[str, Any]) -> Iterator[str]:
    """Cumulative, as Prometheus wants it."""
    counts = list(accumulate(latency["counts"]))
    for bound, count in zip([*(f"{bound / 1e6:g}" for bound in LATENCY_BOUNDS_US), "+Inf"], counts, strict=True):
        yield f"{name}_bucket{{{_text(labels | {'le': bound})}}} {count}\n"
    yield f"{name}_sum{{{_text(labels)}}} {latency['sum'] / 1e6}\n{name}_count{{{_text(labels)}}} {counts[-1]}\n"


def _labels(where: ReportedInstance, figures: InstanceReport) -> dict[str, str]:
    return {"query": where.query, "subquery": where.subquery, "instance": str(where.instance), "im": figures.im}


def _value(field: str, figures: Mapping[str, Any]) -> float | None:
    value = figures.get(field)
    if isinstance(value, bool):
        return int(value)
    return value / 1e9 if value is not None and field.endswith("_ns") else value


def _lag_s(report: Mapping[str, Any], now: float) -> float | None:
    watermark_us = report.get("watermark")
    return None if watermark_us is None else now - watermark_us / 1e6


def _text(labels: Mapping[str, str]) -> str:
    escapes = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
    return ",".join(f'{name}="{value.translate(escapes)}"' for name, value in labels.items())
