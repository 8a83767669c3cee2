"""What a seed asks of a cluster: a random query with its input, a way to run it, and what is moved meanwhile.

Four seeds in a row share a query, so that what was compiled for one serves the others.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from hypothesis import strategies as st

from cep.dataflow.sources.source import READ_BYTES
from cep.model.expr import lit
from cep.model.operators import Filter
from cep.model.query import Options, Query
from cep.plan.checkpoints import reads_clock
from simulation import groups, picks
from simulation.apart import apart, may_be_apart
from simulation.chain import chain_query, chain_rows
from simulation.groups import groups_query, groups_rows
from simulation.growth import Growth, as_known, drawn_growth
from simulation.picks import picks_query, picks_rows
from tests.reference import Answer, Partition, blocks
from tests.strategies import contents_of, executions, file_queries, inputs_of, published_queries
from tests.strategies.seeded import OPERATORS_MAX, drawn
from tests.support.deployed import named, partition_number
from tests.support.kinds import KINDS
from tests.support.moving import moves_of
from tests.support.running import expected_of

SEEDS_OF_A_QUERY = 4
QUERY = "q"
#: What the inbound channels of an instance manager may hold together: room for everything, for some, for a batch at a time.
BUDGETS_BYTES = (64 << 20, 1 << 12, 64, 1)
MOVES = (0, 2, 5, 12)
RECOVERING = 2  # of three queries, these over files
PUBLISHED_FROM = 50  # from this query on, one more of three recovers, over published streams
#: From this query on patterns are among the operators that are drawn: what the seeds before mean, which tests name, stays as it is.
PATTERNS_FROM = 250
#: From this query on, half of the seeds of those that recover tell their answers at once; and some of their instances move, or leave hosts.
AT_ONCE_FROM = 250
MOVES_WHILE_RECOVERING = (0, 0, 1, 3)
#: From this query on, two of nine recover and are scaled and upgraded while they run: those that would have been moved.
CHANGED_FROM = 1000
CHANGES = (2, 4, 8, 12)
#: From this query on, one of nine recovers and has many groups (`simulation.groups`).
GROUPS_FROM = 2000
#: From this query on, one of nine recovers and only picks columns, on the fast path (`simulation.picks`).
PICKS_FROM = 200_000
#: From this query on, every other query over files has replicas, each of which reads files with keys of its own.
APART_FROM = 420_000
DRAWS_MAX = 20
TAIL = "tail-"
INTERVALS_US = (10_000, 50_000, 200_000, 1_000_000)
HOSTS = (1, 1, 2, 3)
EVACUATIONS = (0, 0, 1, 2)


@dataclass(frozen=True)
class DrawnWorkload:
    """`inputs`: by stream, its partitions; each is published by a publisher of its own (`publisher_name`). `growths`: what
    these declare."""

    query: Query
    inputs: Mapping[str, tuple[Partition, ...]]
    growths: Mapping[str, tuple[Growth, ...]]
    batch_rows: tuple[int, ...]
    orchestrators: int
    instance_managers: int
    budget_bytes: int
    moves: int
    hosts: int
    #: How many of these are left while it runs.
    evacuations: int = 0
    #: What its files hold, by path: it reads these.
    files: Mapping[str, bytes] = field(default_factory=dict)
    read_bytes: int = READ_BYTES
    #: Its readers save tokens, and others go on from them.
    resumes: bool = False
    #: So often a subquery is to have another number of instances, or the query to go on as another one with the same answers.
    changes: int = 0
    #: Its readers do something else for longer than a recovery takes, now and then.
    dawdles: bool = False
    #: Its rows come slowly, so that many checkpoints are taken meanwhile.
    slowly: bool = False
    #: Small messages take the fast path.
    picks: bool = False

    @property
    def recovers(self) -> bool:
        return self.query.options.recovers

    def telling(self, at_once: bool) -> DrawnWorkload:
        """The same, whose answers are told as they are made, if it recovers and that can be; or as a checkpoint covers them."""
        can = at_once and not any(map(reads_clock, self.query.operators))
        options = replace(self.query.options, recover="at-once" if can else "on-commit")
        return replace(self, query=replace(self.query, options=options)) if self.recovers else self

    @property
    def expected(self) -> Answer:
        """The reference's answer. A partition is numbered as its publisher's name says."""
        if self.files:
            return expected_of(self.query, {stream.name: blocks(self.query, stream, self.files) for stream in self.query.streams})
        parts = {name: [replace(part, index=partition_number(publisher_name(part))) for part in each] for name, each in self.inputs.items()}
        return expected_of(self.query, parts)


def publisher_name(partition: Partition) -> str:
    return f"p{partition.index}"


def workload(seed: int) -> DrawnWorkload:
    choose, work = random.Random(f"at once {seed}"), _drawn_workload(seed)
    if seed // SEEDS_OF_A_QUERY < AT_ONCE_FROM or not work.recovers:
        return work
    if is_changed(seed):
        return replace(work.telling(choose.random() < 0.3), changes=choose.choice(CHANGES))
    work = replace(work.telling(choose.random() < 0.5), moves=choose.choice(MOVES_WHILE_RECOVERING))
    hosts, dawdles = 1 if work.moves else choose.choice(HOSTS), choose.random() < 0.3
    return replace(work, hosts=hosts, dawdles=dawdles, evacuations=choose.choice(EVACUATIONS) if hosts > 1 else 0)


def _drawn_workload(seed: int) -> DrawnWorkload:
    if seed // SEEDS_OF_A_QUERY % 3 == RECOVERING:
        return _recovering(seed)
    number, choose = seed // SEEDS_OF_A_QUERY, random.Random(f"workload {seed}")
    query, moves = _drawn_query(number), choose.choice(MOVES)
    query = _cut(chain_query(number)) if is_changed(seed) else groups_query(number) if has_groups(seed) else query
    query = picks_query(number) if only_picks(seed) else query
    recovers = number >= PUBLISHED_FROM and number % 3 == 1 and not any(getattr(each, "refresh", None) for each in query.operators)
    moves = 0 if recovers else moves
    hosts = 1 if recovers else random.Random(f"hosts {seed}").choice(HOSTS)
    evacuations = random.Random(f"evacuations {seed}").choice(EVACUATIONS) if hosts > 1 else 0
    inputs, execution = drawn(st.tuples(inputs_of(query), executions()), f"{number}-{seed}")
    if is_changed(seed):
        inputs = {"s": chain_rows(choose)}
    if has_groups(seed):
        inputs = {"s": groups_rows(choose)}
    if only_picks(seed):
        inputs, execution = {"s": picks_rows(choose)}, replace(execution, batch_rows=picks.BATCH_ROWS)
    if (
        moves or evacuations or is_changed(seed) or has_groups(seed)
    ):  # small batches and several instances, for else hardly anything would move while it runs
        execution, _ = moves_of(choose, execution, 1)
    growing, streams = random.Random(f"growth {seed}"), {stream.name: stream for stream in query.streams}
    growths = {name: tuple(drawn_growth(growing, streams[name], len(part.rows)) for part in parts) for name, parts in inputs.items()}
    if only_picks(seed):
        growths = {name: tuple(Growth(streams[name], streams[name], 0) for _ in parts) for name, parts in inputs.items()}
    known = {
        name: tuple(as_known(growth, streams[name], part, execution.batch_rows) for growth, part in zip(growths[name], parts, strict=True))
        for name, parts in inputs.items()
    }
    asked = named(query, execution, QUERY)
    if recovers:
        intervals = groups.INTERVALS_US if has_groups(seed) else INTERVALS_US
        options = replace(asked.options, recover="on-commit", checkpoint=choose.choice(intervals), replicas=1)
        options = _changeable(options) if is_changed(seed) else options
        options = _picking(choose, options) if only_picks(seed) else options
        asked = replace(asked, options=options)
    return DrawnWorkload(
        asked,
        known,
        growths,
        execution.batch_rows,
        choose.randint(1, 2),
        choose.randint(1, 4),
        choose.choice(BUDGETS_BYTES[:2] if only_picks(seed) else BUDGETS_BYTES),
        moves,
        hosts,
        evacuations,
        resumes=recovers and _resumes(seed),
        slowly=has_groups(seed),
        picks=only_picks(seed),
    )


def _recovering(seed: int) -> DrawnWorkload:
    """A query over files that recovers, slow enough for something to happen to it."""
    number, choose = seed // SEEDS_OF_A_QUERY, random.Random(f"recovering {seed}")
    query = _drawn_query_apart(number) if reads_apart(seed) else _drawn_file_query(number)
    query = _cut(query) if is_changed(seed) else query
    contents, execution = drawn(st.tuples(contents_of(query), executions()), f"{number}-{seed}")
    sound = named(query, execution, QUERY, {stream.name: [] for stream in query.streams})
    options = replace(sound.options, recover="on-commit", checkpoint=choose.choice(INTERVALS_US))
    written = replace(sound, options=_changeable(options) if is_changed(seed) else options)
    orchestrators, managers = choose.randint(1, 2), choose.randint(2, 4)
    if reads_apart(seed):
        written, contents = apart(choose, written, contents, managers)
    budget_bytes, read_bytes = choose.choice(BUDGETS_BYTES), choose.choice((64, 200, 2 << 20))
    return DrawnWorkload(
        written,
        {},
        {},
        (1,),
        orchestrators,
        managers,
        budget_bytes,
        moves=0,
        hosts=1,
        files=contents,
        read_bytes=read_bytes,
        resumes=_resumes(seed),
    )


def is_changed(seed: int) -> bool:
    return seed // SEEDS_OF_A_QUERY >= CHANGED_FROM and seed // SEEDS_OF_A_QUERY % 9 in (2, 4)


def has_groups(seed: int) -> bool:
    return seed // SEEDS_OF_A_QUERY >= GROUPS_FROM and seed // SEEDS_OF_A_QUERY % 9 == 7


def only_picks(seed: int) -> bool:
    return seed // SEEDS_OF_A_QUERY >= PICKS_FROM and seed // SEEDS_OF_A_QUERY % 9 == 1


def reads_apart(seed: int) -> bool:
    """Of queries over files."""
    return seed // SEEDS_OF_A_QUERY >= APART_FROM and seed // SEEDS_OF_A_QUERY % 2 == 1 and not is_changed(seed)


def _picking(choose: random.Random, options: Options) -> Options:
    """One instance of each subquery, mostly; and one or two of these."""
    parallelism, split = 1 if choose.random() < 0.8 else options.parallelism, choose.choice(("stateful", "per-operator"))
    return replace(_changeable(options), split=split, parallelism=parallelism, checkpoint=choose.choice(picks.INTERVALS_US))


def _cut(query: Query) -> Query:
    """The same, with a filter before each output, in a subquery of its own: what has state is within, and can have another parallelism."""
    tails = tuple(Filter(f"{TAIL}{i}", output.input, lit(True)) for i, output in enumerate(query.outputs))
    outputs = tuple(replace(output, input=tail.name) for output, tail in zip(query.outputs, tails, strict=True))
    return replace(query, operators=(*query.operators, *tails), outputs=outputs)


def _changeable(options: Options) -> Options:
    return replace(options, split="per-operator", subqueries=(), balancers=(), pre_aggregation="off")


def _resumes(seed: int) -> bool:
    """Every other seed of a query that recovers."""
    return random.Random(f"resumes {seed}").random() < 0.5


@lru_cache(maxsize=2)
def _drawn_file_query(number: int) -> Query:
    return drawn(file_queries(OPERATORS_MAX, kinds=_kinds(number)), f"file {number}")


@lru_cache(maxsize=2)
def _drawn_query_apart(number: int) -> Query:
    """One that has a key, if one is found soon."""
    drawn_ = (drawn(file_queries(OPERATORS_MAX, kinds=_kinds(number)), f"apart {number} {i}") for i in range(DRAWS_MAX))
    return next(filter(may_be_apart, drawn_), None) or _drawn_file_query(number)


@lru_cache(maxsize=2)
def _drawn_query(number: int) -> Query:
    return drawn(published_queries(OPERATORS_MAX, _kinds(number)), str(number))


def _kinds(number: int) -> tuple[str, ...]:
    return tuple(kind for kind in KINDS if kind != "pattern" or number >= PATTERNS_FROM)


__all__ = ["QUERY", "TAIL", "DrawnWorkload", "has_groups", "is_changed", "only_picks", "publisher_name", "workload"]
