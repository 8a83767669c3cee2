"""The rows of patterns: against C, against FlinkCEP, and against themselves."""

from __future__ import annotations

from benchmarks.pairs import Bar
from benchmarks.row import CPU, PERCENTILES, SHORT, Command, Row, module, program
from benchmarks.sides import STANDING


def _pattern(question: str, bar: float, what: str) -> Row:
    return Row(
        name=f"pattern-{question}",
        what=what,
        reference=program("pattern", question, "4000000"),
        ours=module("pattern", question, "--records", "4000000"),
        bars=(Bar(CPU, ">=", bar, "CPU second of the operator, batches to batches of matches; C has a ring of all starts for each key"),),
        equal="sum",
        turns=SHORT,
        beside={"ours, each way of each start by itself": module("pattern", question, "--records", "400000", "--ways")},
    )


def _pattern_skewed(question: str) -> Row:
    return Row(
        name=f"pattern-{question}-skewed",
        what=f"pattern-{question} where the n-th key has about 1/n of the rows: measured, no bar",
        reference=program("pattern", question, "4000000", "skewed"),
        ours=module("pattern", question, "--records", "1000000" if question == "apart" else "4000000", "--skewed"),
        bars=(Bar(CPU, ">=", 0.0, "CPU second of the operator, against C"),),
    )


def _pattern_whole(question: str, bar: float) -> Row:
    return Row(
        name=f"pattern-{question}-whole",
        what=f"pattern-{question}, Arrow file to answers, one instance manager on one core, against FlinkCEP from rows in memory",
        reference=module("flink_cep", question, "--records", "500000", "--work", "{out}"),
        ours=module("pattern_cluster", question, "--records", "4000000", STANDING),
        bars=(Bar(CPU, ">=", bar, "CPU second of all processes; FlinkCEP's third job in one process, which is warm then"),),
        notes="FlinkCEP has half a million rows, of which answers and sum are those that the C program has.",
    )


def _pattern_cluster(name: str, what: str, reference: Command, ours: Command, figure: str, bar: float) -> Row:
    """`reference` on one core where the figure is of wall time."""
    return Row(
        name=name,
        what=what,
        reference=reference,
        ours=ours,
        bars=(Bar(figure, ">=", bar, "second of wall time" if figure == "records_per_s" else "CPU second of all processes"),),
        equal="sum",
        cores="0-1",
        reference_cores="0" if figure == "records_per_s" else "",
        turns=PERCENTILES,
    )


def _pattern_all() -> Row:
    return Row(
        name="pattern-all",
        what="all matches of an a, any b behind it and any c behind that, none of which comes: within 10,000 rows, against within 100",
        reference=module("pattern", "all", "--records", "2000000", "--within", "100"),
        ours=module("pattern", "all", "--records", "2000000", "--within", "10000"),
        bars=(Bar(CPU, ">=", 0.77, "CPU second of the operator: a row takes as long however many are within"),),
        turns=SHORT,
        beside={"750 matches of a row in the middle": module("pattern", "told", "--records", "20000", "--within", "10000")},
    )


PATTERNS: tuple[Row, ...] = (
    _pattern("together", 0.5, "an a, then a b, then a c, of one key, within 0.1 s: starts that await the same go on together"),
    _pattern("apart", 0.2, "an a, then a b of more than twice its value, within 0.1 s: each way of each start goes on by itself"),
    _pattern_all(),
    _pattern_skewed("together"),
    _pattern_skewed("apart"),
    Row(
        name="pattern-absent",
        what="a million open absences of 10,000 keys come out when their time is over",
        ours=module("pattern", "absent", "--records", "1000000"),
        bars=(Bar("fired_per_cpu_s", ">=", 5e6, "CPU second of the operator, batches of matches made"),),
        beside={"of a million keys": module("pattern", "absent", "--records", "1000000", "--keys", "1000000")},
    ),
    _pattern_whole("together", 50),
    _pattern_whole("apart", 20),
    _pattern_cluster(
        "pattern-two-cores",
        "pattern-together on two cores and instance managers, each with files that have keys of their own, against one of each",
        module("pattern_cluster", "together", "--records", "8000000", STANDING),
        module("pattern_cluster", "together", "--records", "8000000", "--instances", "2", "--partitioned", STANDING),
        "records_per_s",
        1.8,
    ),
    _pattern_cluster(
        "pattern-rare",
        "a hundredth of the rows may be a variable, two instance managers: left out where rows are read, against where that is not known",
        module("pattern_cluster", "rare-unknown", "--records", "16000000", "--instances", "2", STANDING),
        module("pattern_cluster", "rare", "--records", "16000000", "--instances", "2", STANDING),
        CPU,
        3.0,
    ),
)
