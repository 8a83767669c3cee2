"""Lateness against the rule, row by row.

Tests `lateness.py`, `cep/dataflow/sources/lateness.py`.
"""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cep.dataflow.sources.lateness import judge
from cep.elements import MIN_TIME
from cep.kernels.lateness import late, late_among

TIMES = st.one_of(st.integers(-100, 100), st.sampled_from([MIN_TIME + 1, 2**63 - 1]))


@settings(deadline=None)
@given(st.lists(st.tuples(TIMES, st.booleans()), max_size=30), st.sampled_from([MIN_TIME, -50, 50]), st.integers(0, 60))
def test_late_is_what_the_rule_says(rows: list[tuple[int, bool]], max_time: int, disorder: int) -> None:
    wanted, bad_rows, bad_times, greatest, good = [], [], [], max_time, 0
    for time, bad in rows:
        if bad:
            bad_rows.append(good)
            bad_times.append(time)
        else:
            wanted.append(int(time < max(greatest - disorder, MIN_TIME)))
            good += 1
        greatest = max(greatest, time)
    times = np.array([time for time, bad in rows if not bad], np.int64)
    mask = np.full(len(times), 9, np.uint8)
    after = late_among(times, max_time, disorder, mask, np.array(bad_rows, np.int64), np.array(bad_times, np.int64))
    assert (after, mask.tolist()) == (greatest, wanted)
    if not bad_rows:
        assert late(times, max_time, disorder, mask) == greatest
        assert mask.tolist() == wanted
        judged = judge(times, max_time, disorder)
        assert (judged.max_time, judged.late) == (greatest, sum(wanted))
        assert judged.rises == (len(times) > 0 and not any(wanted) and bool((np.diff(times.astype(object)) >= 0).all()))
        assert (judged.kept is None and not any(wanted)) or judged.kept.tolist() == [i for i, is_late in enumerate(wanted) if not is_late]
