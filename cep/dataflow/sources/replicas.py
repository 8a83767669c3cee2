"""What of a publisher's batch goes to which replica of a query.

A publisher judges for itself which of its rows are late, since a reader that gets a part of them cannot: rows on time travel with
the stamp before the batch and late ones, apart, with the stamp after it, and so each reader judges them as one that had them all.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cep.dataflow.sources.lateness import Range, in_range, judge
from cep.elements import Batch
from cep.kernels.columns import with_wider_numbers
from cep.kernels.tables.keys import encode_keys
from cep.kernels.tables.partition import bucket_targets
from cep.plan.route import Route


def replica_of(route: Route, batch: Batch) -> np.ndarray:
    """int32[n]."""
    keys = encode_keys(with_wider_numbers(batch.columns, route.fields), route.fields)
    replicas = np.empty(len(batch), np.int32)
    bucket_targets(keys.w0, keys.w1, np.arange(route.buckets, dtype=np.int32) % np.int32(route.replicas), replicas)
    return replicas


def shares(
    route: Route, batch: Batch, before: int, after: int, disorder: int, times: Range, record: int
) -> Iterator[tuple[int, Batch, int]]:
    """(replica, its rows, their stamp) of a batch of one partition, whose greatest event time was `before` and is `after` it.

    The rows carry as their origin, int64[n, 1], the number of each in its partition, of which the first has `record`.
    """
    numbers = np.arange(record, record + len(batch), dtype=np.int64).reshape(-1, 1)
    numbered = Batch(batch.columns, batch.time, numbers, batch.created)
    known = np.flatnonzero(in_range(batch.time, times))
    judged = judge(np.ascontiguousarray(batch.time[known]), before, disorder)
    late = np.zeros(len(batch), bool)
    if judged.kept is not None:
        late[np.delete(known, judged.kept)] = True
    replicas = replica_of(route, batch)
    for replica in range(route.replicas):
        for rows, stamp in ((~late, before), (late, after)):
            mine = np.flatnonzero(rows & (replicas == replica))
            if len(mine):
                yield replica, numbered.take(mine), stamp
