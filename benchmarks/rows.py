"""The table: what is measured, on which file, against what, and which bar it is to reach. To add a row, add it to TABLE.

A command is run in a process of its own, `taskset` to the row's cores, and prints one line of JSON last; one with `--standing` is started
once and prints a line for every line that it reads. In commands stand

    {csv} {times} {addresses}   files of the row's dataset (`benchmarks/data.py`)
    {bids} {updates}            files of the dataset "bids" (`benchmarks/bids.py`)
    {records} {groups} {both}   how many records it has, groups in a window at most, and bids and updates together
    {programs}                  where `references/NAME.c` is compiled to `NAME`
    {out}                       an empty folder for answers
    {python}                    this Python
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from benchmarks.bids import CHANNEL_ID, FOLDER
from benchmarks.pairs import Bar
from benchmarks.pattern_rows import PATTERNS
from benchmarks.row import CPU, LINES, PERCENTILES, SHORT, Command, Row, module, program
from benchmarks.sides import STANDING


def limit(question: str, *arguments: str) -> Command:
    """A question to the program that has several."""
    return program("limit", question, *arguments)


_FILE = ("--csv", "{csv}", "--records", "{records}", "--out", "{out}")
_COLUMNS = ("--times", "{times}", "--addresses", "{addresses}", "--records", "{records}", "--out", "{out}")
_WINDOW = limit("winS-text", "{csv}", "{out}/answers.csv", "{groups}")


def _nearly_unique(data: str, groups: str) -> Row:
    return Row(
        name=data,
        what=f"fixed window, text file to answers written, {groups} nearly unique keys a window, one core",
        data=data,
        reference=_WINDOW,
        ours=module("window", *_FILE, "--groups", "{groups}"),
        bars=(Bar(CPU, ">=", 0.6, "CPU second of all processes, against C on the same file"),),
        equal=LINES,
        notes="bytes_per_group: the instance manager's memory at its peak, less that before, over the groups of a window. "
        "C has 24 B a group and 8 to 16 B of slots.",
    )


def _two_cores(name: str, bar: float, how: str, *options: str) -> Row:
    return Row(
        name=name,
        what=f"fixed window on two cores, {how}, against ours on one",
        data="zipf",
        reference=module("window", *_FILE, STANDING),
        reference_cores="0",
        ours=module("window", *_FILE, STANDING, "--instances", "2", *options),
        turns=SHORT,
        bars=(Bar("records_per_s", ">=", bar, "second of wall time, against our one-core figure"),),
        equal=LINES,
        cores="0-1",
    )


def _latency(rate: int, *bars: Bar) -> Row:
    return Row(
        name=f"latency-{rate // 1000}k",
        what=f"identity in two subqueries in two processes, open loop at {rate:,}/s, from scheduled creation to delivery",
        reference=module("relay", "--rate", str(rate)),
        ours=module("delivery", "--rate", str(rate)),
        bars=bars,
        cores="0-1",
        turns=PERCENTILES,
        notes="Reference: two bare ZeroMQ relays in two processes. p95 and p99.9 stand among the figures of the runs.",
    )


def _latency_beside(rate: int, *bars: Bar) -> Row:
    row = _latency(rate, *bars)
    assert row.reference is not None
    return replace(
        row,
        name=f"{row.name}-beside",
        what=f"{row.what}, beside a process that computes without pause on one of the two cores",
        reference=(*row.reference, "--beside"),
        ours=(*row.ours, "--beside"),
    )


def _literal(text: str) -> str:
    """As it stands in a command."""
    return text.replace("{", "{{").replace("}", "}}")


def _operator(name: str, what: str, reference: str, *arguments: str, files: str = "{bids}", records: str = "{records}") -> Row:
    """One kind of operator over bids."""
    ours = ("--bids", "{bids}", "--updates", "{updates}", "--records", records, "--out", "{out}", STANDING)
    return Row(
        name=name,
        what=f"{what}, text file to answers written, one instance manager on one core",
        data="bids",
        reference=program(reference, *files.split(), "{out}/answers.csv", *arguments),
        ours=module("bids", name, *ours),
        turns=PERCENTILES,
        bars=(Bar(CPU, ">=", 0.4, f"CPU second of all processes, against {reference}"),),
        equal=LINES,
    )


def _skew(shape: str, s: str, instances: int) -> Row:
    shares = "the thesis's shares (51.3, 19.7, 6.6, 22.4 %)" if shape == "thesis" else f"zipf {s} over 100 k keys"
    options = ("--shape", shape, "--s", s, "--instances", str(instances))
    return Row(
        name=f"skew-{shape}{'' if shape == 'thesis' else f'-{s}'}-{instances}",
        what=f"keyed CPU-heavy StatefulMap behind route-key, {shares}, {instances} instances, buckets moved live",
        ours=module("skew", *options),
        bars=(Bar("max_over_mean/bound", "<=", 1.1, "busiest instance's CPU over the mean, over the bound max(1, n * p1)"),),
        cores="0-1",
        beside={"buckets as they were dealt": module("skew", *options, "--rebalance", "off")},
        notes="rows_per_s of both is throughput, live and static.",
    )


_RECOVER = ("--recover", "on-commit")
_KEPT_SHARE = 0.97
"""Of what a query does without checkpoints: what it does with one a second."""


def _checkpoint(what: str, row: Row, figure: str, sign: str = ">=", recover: Sequence[str] = _RECOVER) -> Row:
    """`row` with checkpoints, against the same without. What takes a second or two is made longer: its first and its last checkpoint, which
    it has however long it is, would be most of what is measured. Each run has processes of its own: where memory lies makes two that do the
    same differ by up to 5 % for as long as they live, which is more than what is looked for."""
    value = _KEPT_SHARE if sign == ">=" else round(1 / _KEPT_SHARE, 3)
    own = tuple(word for word in row.ours if word != STANDING)
    return replace(
        row,
        name=f"checkpoint-{what}",
        what=f"{row.what}, with a checkpoint a second against without",
        reference=own,
        ours=(*own, *recover),
        reference_cores=row.cores,
        bars=(Bar(figure, sign, value, "against the same without checkpoints"),),
        beside={},
        notes="",
        data=f"{row.data}-long" if row.data else row.data,
        turns=1 if row.data else row.turns,
    )


_BASE = Row(
    "window", "fixed window, text file to answers written", module("window", *_FILE, STANDING), (), "zipf", equal=LINES, turns=SHORT
)
#: A tuple each 5 s: two cores that run the clients too cannot take 5,000 small messages a second, whether queries recover or not.
_MANY = Row("many", "5,000 small continuous queries, a tuple each 5 s", module("many", "--every", "5"), (), cores="0-1")
CHECKPOINTS: tuple[Row, ...] = (
    _checkpoint("window", _BASE, CPU),
    replace(_checkpoint("sequential", _operator("sequential", "bids in hundreds of each auction", ""), CPU), data="bids-longer"),
    _checkpoint("join", _operator("interval-join", "each bid with the updates of its auction", "", records="{both}"), CPU),
    _checkpoint("fast-path", _latency(10_000), "tuples_per_instance_cpu_s"),
    # On commit each answer would wait for its query's commit, and of 5,000 queries each has one in some minutes.
    _checkpoint("many", _MANY, "cores.instance managers", "<=", ("--recover", "at-once")),
)

TABLE: tuple[Row, ...] = (
    Row(
        name="window",
        what="fixed window, text file to answers written, string key, one instance manager on one core",
        data="zipf",
        reference=_WINDOW,
        ours=module("window", *_FILE, STANDING),
        turns=SHORT,
        bars=(Bar(CPU, ">=", 0.8, "CPU second of all processes, against C winS-text"),),
        equal=LINES,
    ),
    _two_cores("window-two-cores", 1.6, "the planner's own choice"),
    _two_cores("window-exchanged", 1.0, "all rows exchanged (pre-aggregation off)", "--pre-aggregation", "off"),
    Row(
        name="window-published",
        what="fixed window over Arrow batches that another process publishes, string key, receiving included",
        data="zipf",
        ours=module("published", *_COLUMNS),
        bars=(Bar("records_per_instance_cpu_s", ">=", 25e6, "CPU second of the window's instance manager"),),
        beside={"C winS-bin, from raw columns": limit("winS-bin", "{times}", "{addresses}", "{out}/answers.csv", "{groups}")},
        cores="0-1",
    ),
    _nearly_unique("unique-1m", "1 M"),
    _nearly_unique("unique-10m", "10 M"),
    Row(
        name="identity",
        what="identity, text file to text file, one core",
        data="zipf",
        reference=limit("id-text", "{csv}", "{out}/copy.csv"),
        ours=module("identity", *_FILE),
        bars=(Bar(CPU, ">=", 0.8, "CPU second of all processes, against C id-text to the same folder"),),
        equal=LINES,
    ),
    Row(
        name="identity-subscribed",
        what="identity, text file to a subscriber in batches of 1 MB",
        data="zipf",
        ours=module("identity", *_FILE, "--subscribe"),
        bars=(Bar("bytes_per_s", ">=", 1e9, "second of wall time; bytes of the lines, delivered"),),
        cores="0-1",
    ),
    Row(
        name="running-count",
        what="running count per key, an answer for each tuple, delivered to a subscriber that adds them up",
        data="zipf",
        reference=limit("wc-text", "{csv}", "{out}/counts.i64", "100000"),
        ours=module("running_count", *_FILE),
        bars=(Bar(CPU, ">=", 0.5, "CPU second of all processes, against C wc-text"),),
        equal="sum",
    ),
    Row(
        name="maps",
        what="50 maps x * 0.5 + 1.0 over doubles, as one chain of the engine, against one C loop",
        reference=limit("maps", "10000000"),
        ours=module("maps", "--maps", "multiply-add", "--records", "10000000"),
        bars=(Bar(CPU, ">=", 0.9, "CPU second of the loop alone, rows in memory on both sides"),),
        equal="sum",
        beside={
            "C, the same by hand in blocks of registers": limit("maps-blocked", "10000000"),
            "ours, not fused (a subquery for each map, split policy per-operator), through the cluster": module(
                "maps_cluster", "--split", "per-operator"
            ),
            "ours, fused, through the cluster": module("maps_cluster", "--split", "stateful"),
            "Spark, 50 selects": module("maps_spark"),
        },
        notes="Arcon thesis §3.1 (Flink 1.9, JVM, x + 1): no fusion 105 s, operator chaining 22 s, folded to one instruction 1.2 s. "
        "Its 18.3x compares folding with operator chaining inside Flink, not one engine with another; so ours is named for the same steps. "
        "Ours leaves a batch in the cache where C writes all of it to memory.",
    ),
    Row(
        name="adds",
        what="50 maps x + 1 over int64, which a compiler folds into one, against one C loop that adds 50",
        reference=limit("adds", "10000000"),
        ours=module("maps", "--maps", "add", "--records", "10000000"),
        bars=(Bar(CPU, ">=", 0.9, "CPU second of the loop alone, rows in memory on both sides"),),
        equal="sum",
    ),
    Row(
        name="trailing",
        what="count, sum, least and greatest of the ten minutes up to each row, of 10,000 keys, a million rows in all windows",
        reference=limit("trailing", "8000000"),
        ours=module("trailing", "--records", "8000000"),
        bars=(Bar(CPU, ">=", 0.4, "CPU second of the loop alone, rows in memory on both sides; both two stacks in a ring for each key"),),
        equal="sum",
        turns=SHORT,
    ),
    *PATTERNS,
    _operator(
        "interval-join",
        "each bid with the updates of its auction at most ten seconds before or after it",
        "interval_join",
        files="{bids} {updates}",
        records="{both}",
    ),
    _operator("top-n", "the ten highest bids of each auction and minute", "top_n"),
    _operator("keep-last", "the last bid of each bidder and minute, a text key", "keep_last"),
    _operator("distinct", "bids, distinct bidders and distinct auctions of each channel and minute", "distinct"),
    _operator("regex", "two regular expressions over each url, a filter and an extract", "regex", _literal(FOLDER), _literal(CHANNEL_ID)),
    _latency(10_000, Bar("p50_ms", "<=", 1.5, "against the bare relay"), Bar("p99_ms", "<=", 2.0, "against the bare relay")),
    _latency_beside(10_000, Bar("p99_ms", "<=", 3.0, "against the bare relay under the same")),
    _latency(100_000, Bar("p50_ms", "<=", 2.0, "against the bare relay")),
    Row(
        name="compile",
        what="make the fixed window ready to run in a fresh process: nothing cached, and from the cache",
        ours=module("compile"),
        bars=(Bar("cold_s", "<=", 1.5, "seconds of wall time"), Bar("cached_ms", "<=", 50.0, "ms of wall time")),
    ),
    Row(
        name="deploy-cached",
        what="deploy the fixed window, kernels cached, until it is ready",
        ours=module("deploying"),
        bars=(Bar("deploy_s", "<=", 0.2, "seconds of wall time, of deploy()"),),
        cores="0-1",
    ),
    *(_skew(shape, s, instances) for shape, s in (("thesis", "1.0"), ("zipf", "1.0"), ("zipf", "1.5")) for instances in (4, 8)),
    Row(
        name="many",
        what="5,000 small continuous queries from 50 structures, 1 tuple/s each, two instance managers",
        ours=module("many"),
        bars=(
            Bar("cores.instance managers", "<=", 1.0, "cores of all instance managers"),
            Bar("latency_ms.p99", "<=", 20.0, "ms, from the moment at which a tuple was due to delivery"),
            Bar("deployed_per_s", ">=", 100.0, "queries a second, deployed in bulk"),
        ),
        cores="0-1",
        notes="Memory a query and what idle queries cost stand among the figures of the run.",
    ),
    *CHECKPOINTS,
)


def chosen(names: Iterable[str], table: tuple[Row, ...] = TABLE) -> list[Row]:
    """The rows of these names in the table's order; none named: all; `checkpoint` is all of its rows. Raises ValueError for a name that is
    not there."""
    families = {"checkpoint": [row.name for row in table if row.name.startswith("checkpoint-")]}
    wanted = {row for name in names for row in families.get(name, [name])}
    unknown = sorted(wanted - {row.name for row in table})
    if unknown:
        raise ValueError(f"no row {', '.join(map(repr, unknown))}; there are {', '.join(row.name for row in table)}")
    return [row for row in table if not wanted or row.name in wanted]
