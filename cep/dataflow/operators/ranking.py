"""Rows of a window put in order, by group: what Sort and TopN do with them, whenever it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cep.compile.aggregate.results import describe_group
from cep.dataflow.outputs.output import concatenated
from cep.dataflow.state.merging import in_stream_order
from cep.elements import Batch
from cep.kernels.columns import compact
from cep.kernels.order_words import order_words
from cep.model.schema import Schema

#: `cep.kernels.best_rows` goes through the rows of a group one by one.
BEST_MAX = 64


@dataclass(frozen=True)
class RankedRows:
    """`places`, int64[m], are those of `rows` that are answers: group by group, in their order. `rank`, int64[m], from 1."""

    rows: Batch
    places: np.ndarray
    rank: np.ndarray


@dataclass(frozen=True)
class Ranking:
    """`order`: (column, descending). `most`: how many of each group are answers, None: all. `ties`: see `cep.dataflow.state.hold`.
    `last`: ranks count from the end."""

    schema: Schema
    by: tuple[str, ...]
    order: tuple[tuple[str, bool], ...]
    most: int | None
    ties: bool
    last: bool = False

    @property
    def by_words(self) -> bool:
        """Can it be told row by row which are answers: do words of their own decide, and few rows of each group?"""
        texts = any(self.schema[name].type.is_bytes for name, _ in self._deciding)
        return self.most is not None and self.most <= BEST_MAX and not self.ties and not texts

    @property
    def _deciding(self) -> list[tuple[str, bool]]:
        """What the rows of a group may differ in."""
        return [(name, descending) for name, descending in self.order if name not in self.by]

    def place_words(self, rows: Batch) -> np.ndarray:
        """int64[n, w], where `by_words`: of two rows of a group that with the lesser words, the first that differ, has the lesser rank."""
        assert rows.origin is not None, "rows that are taken in order must carry their origin"
        words: list[np.ndarray] = []
        for name, descending in self._deciding:
            found = order_words(rows.columns[name], descending)
            if self.schema[name].nullable:  # as many words whether this batch has a NULL or none
                words.append(found[0] if len(found) == 2 else np.full(len(rows), ~1 if descending else 1))
            words.append(found[-1])
        places = np.column_stack((*words, rows.time, rows.origin))
        return ~places if self.last else places

    def of(self, batches: list[Batch], window: str | None = None) -> RankedRows:
        """Of the rows of a window; or of several, whose numbers are the column `window`: one window behind the other."""
        rows = in_stream_order(concatenated(batches), self.schema, self.ties)
        windows = [] if window is None else order_words(rows.columns[window], descending=self.last)  # they are turned round below
        groups = [*windows, *(word for name in self.by for word in order_words(rows.columns[name]))]
        words = [word for name, descending in self.order for word in order_words(rows.columns[name], descending)]
        places = np.lexsort((*reversed(words), *reversed(groups)))
        places = places[::-1] if self.last else places
        rank = _ranks([word[places] for word in groups], len(rows))
        if self.most is None:
            return RankedRows(rows, places, rank)
        chosen = rank <= self.most
        return RankedRows(rows, places[chosen], rank[chosen])

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
        return [f"{describe_group(columns, by, int(ranked.places[at]))} ({ranked.rank[at]} rows)" for at in largest]


def _ranks(groups: list[np.ndarray], n: int) -> np.ndarray:
    """The rank, from 1, of each of `n` rows in its group; the rows are in order, and those of a group lie together."""
    begins = np.zeros(n, bool)
    begins[:1] = True
    for words in groups:
        begins[1:] |= words[1:] != words[:-1]
    starts = np.flatnonzero(begins)
    return np.arange(1, n + 1) - np.repeat(starts, np.diff(np.append(starts, n)))
