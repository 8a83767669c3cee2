"""Rows of a window put in order, by group: what Sort and TopN do with them, whenever it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cep.compile.aggregate_results import describe
from cep.dataflow.merging import in_stream_order
from cep.dataflow.output import concat
from cep.elements import Batch
from cep.kernels.columns import compact
from cep.kernels.order_words import order_words
from cep.model.schema import Schema


@dataclass(frozen=True)
class Ranked:
    """`rows` are in stream order; `places`, int64[m], are those that are answers, in their order, and `rank`, int64[m], from 1."""

    rows: Batch
    places: np.ndarray
    rank: np.ndarray


@dataclass(frozen=True)
class Ranking:
    """`order`: (column, descending). `most`: how many of each group are answers, None: all. `ties`: see `cep.dataflow.hold`."""

    schema: Schema
    by: tuple[str, ...]
    order: tuple[tuple[str, bool], ...]
    most: int | None
    ties: bool

    def of(self, batches: list[Batch]) -> Ranked:
        rows = in_stream_order(concat(batches), self.schema, self.ties)
        groups = [word for name in self.by for word in order_words(rows.columns[name])]
        words = [word for name, descending in self.order for word in order_words(rows.columns[name], descending)]
        places = np.lexsort((*reversed(words), *reversed(groups)))
        rank = _ranks([word[places] for word in groups], len(rows))
        if self.most is None:
            return Ranked(rows, places, rank)
        chosen = rank <= self.most
        return Ranked(rows, places[chosen], rank[chosen])

    def answers(self, batches: list[Batch]) -> Batch:
        """The rows that are answers, in stream order. Those of two batches together are among those of each."""
        ranked = self.of(batches)
        left = ranked.rows.take(np.sort(ranked.places))
        return replace(left, columns={name: compact(column) for name, column in left.columns.items()})

    def largest_groups(self, batches: list[Batch], most: int) -> list[str]:
        """Those with most answers, for a person to read."""
        ranked = self.of(batches)
        last = np.flatnonzero(np.append(ranked.rank[1:] == 1, [True]))  # of each group
        largest: Sequence[int] = last[np.argsort(-ranked.rank[last], kind="stable")[:most]].tolist()
        columns, by = dict(ranked.rows.columns), tuple(self.schema[name] for name in self.by)
        return [f"{describe(columns, by, int(ranked.places[at]))} ({ranked.rank[at]} rows)" for at in largest]


def _ranks(groups: list[np.ndarray], n: int) -> np.ndarray:
    """Of `n` rows in order, whose groups lie together, each one's number in its group from 1."""
    begins = np.zeros(n, bool)
    begins[:1] = True
    for words in groups:
        begins[1:] |= words[1:] != words[:-1]
    starts = np.flatnonzero(begins)
    return np.arange(1, n + 1) - np.repeat(starts, np.diff(np.append(starts, n)))
