"""Bugs, each as one change of one line of the engine, that the properties have to find (`tests/test_planted_bugs.py`)."""

from __future__ import annotations

from typing import NamedTuple


class Bug(NamedTuple):
    """In `file`, `right` stands once; `wrong` in its place is the bug."""

    name: str
    file: str
    right: str
    wrong: str


_FLOW, _COMPILE, _KERNELS, _PLAN = "cep/dataflow", "cep/compile", "cep/kernels", "cep/plan"

BUGS = (
    # windows
    Bug(
        "a TIME window ends a µs late",
        f"{_COMPILE}/window_panes.py",
        "numbers[runs] = time[i] // pane",
        "numbers[runs] = (time[i] - 1) // pane",
    ),
    Bug(
        "panes before the epoch are numbered toward zero",
        f"{_COMPILE}/window_panes.py",
        "numbers[runs] = time[i] // pane",
        "numbers[runs] = int(time[i] / pane)",
    ),
    Bug(
        "a pane is merged twice into a sliding window",
        f"{_COMPILE}/window_firing.py",
        "first if self._taken is None else max(first, self._taken), end)",
        "first, end)",
    ),
    Bug(
        "the last pane of a sliding window is left out",
        f"{_COMPILE}/window_firing.py",
        "        self._taken = end\n",
        "        self._taken = end + 1\n",
    ),
    Bug("a session ends at its gap", f"{_KERNELS}/assigners.py", "elif time[i] - last > gap:", "elif time[i] - last >= gap:"),
    Bug(
        "a session closes when the watermark is at its end",
        f"{_KERNELS}/assigners.py",
        "        if deadline < watermark:\n",
        "        if deadline <= watermark + gap:\n",
    ),
    Bug(
        "a transaction leaves its last row out",
        f"{_KERNELS}/assigners.py",
        "groups[at + SLOT], groups[at + FIRST], groups[at + COUNT] = slot, time[i], 0\n        groups[at + LAST]",
        "groups[at + SLOT], groups[at + FIRST], groups[at + COUNT] = slot, time[i], 0\n            continue\n        groups[at + LAST]",
    ),
    Bug(
        "ttl counts from the first row",
        f"{_COMPILE}/accumulator_source.py",
        "                groups[group + LAST] = time[i]\n                groups[group + COUNT] += 1\n",
        "                groups[group + COUNT] += 1\n",
    ),
    Bug(
        "periodic answers ignore ttl",
        f"{_COMPILE}/window_running.py",
        "fresh |= least - self.groups.matrix[numbers, _LAST] > self.ttl",
        "fresh |= least - self.groups.matrix[numbers, _LAST] > 2 * self.ttl",
    ),
    # functions
    Bug("a null is counted", f"{_COMPILE}/aggregate_states.py", "'1' if self.column is None else arguments.valid(self.column)", "'1'"),
    Bug(
        "a sum loses its carry",
        f"{_COMPILE}/aggregate_words.py",
        "words[at + 1] += high + (1 if sum_low < np.uint64(low) else 0)",
        "words[at + 1] += high",
    ),
    Bug(
        "-0.0 is less than 0.0 in MIN and MAX",
        f"{_COMPILE}/aggregate_words.py",
        "return ordered(0 if bits & _MAGNITUDE == 0 else bits)",
        "return ordered(bits)",
    ),
    Bug(
        "a tie of FIRST is resolved by arrival",
        f"{_COMPILE}/aggregate_words.py",
        "    if origin0 != words[at + 1]:\n        return _compare(origin0, words[at + 1])\n    return _compare(origin1, words[at + 2])",
        "    return 0",
    ),
    Bug(
        "AVG divides by all rows",
        f"{_COMPILE}/aggregate_spec.py",
        "values = Count(column if column.nullable else None)",
        "values = Count(None)",
    ),
    # order
    Bug("rows that tie stay as they came", f"{_FLOW}/merging.py", "    if ties:\n        _untie(", "    if False:\n        _untie("),
    Bug(
        "a held run is let out a µs early",
        f"{_FLOW}/hold.py",
        "if run.time.item(-1) < watermark",
        "if run.time.item(-1) <= watermark",
    ),
    Bug(
        "a row of a held run is let out a µs early",
        f"{_FLOW}/hold.py",
        "run.time.searchsorted(watermark)",
        'run.time.searchsorted(watermark, "right")',
    ),
    Bug(
        "held runs that are gathered stay as they came",
        f"{_FLOW}/hold.py",
        "self._append(in_stream_order(concat(runs[:few]), self.schema, self.ties))",
        "self._append(concat(runs[:few]))",
    ),
    # joins
    Bug("NULL joins NULL", f"{_COMPILE}/joined.py", "np.bitwise_or.reduce(null) if null else NO_NULLS", "NO_NULLS if null else NO_NULLS"),
    Bug(
        "an interval join leaves out its upper bound",
        f"{_FLOW}/interval_join.py",
        "return time + self.join.lower, time + self.join.upper",
        "return time + self.join.lower, time + self.join.upper - 1",
    ),
    Bug(
        "a matched row comes out as unmatched too",
        f"{_FLOW}/interval_join.py",
        "yield run.batch, rows[run.matched[rows] == 0]",
        "yield run.batch, rows",
    ),
    Bug(
        "an unmatched row is forgotten with its run",
        f"{_FLOW}/interval_join.py",
        "np.searchsorted(self.batch.time, before))",
        "np.searchsorted(self.batch.time, before + 1))",
    ),
    Bug(
        "a window join takes the rows behind its end",
        f"{_FLOW}/window_join.py",
        "bisect_left(self._numbers, k - self.reach) : bisect_left(self._numbers, k)]",
        "bisect_left(self._numbers, k - self.reach) : bisect_left(self._numbers, k + 1)]",
    ),
    Bug(
        "an as-of join takes the first partner of a time",
        f"{_FLOW}/as_of_join.py",
        "ranges.order[ranges.stop[rows] - 1]",
        "ranges.order[ranges.first[rows]]",
    ),
    # state by key
    Bug(
        "a duplicate renews its ttl",
        f"{_FLOW}/deduplicate.py",
        "        if first[i]:\n            last",
        "        if True:\n            last",
    ),
    Bug(
        "state is changed before an update fails",
        f"{_COMPILE}/stateful.py",
        "self.writer.there |= dict(zip((field.name for field in self.state), new, strict=True))\n        self.loop.add(Assign(self.operator.name, tuple(fields)), last=False)\n        self._write(new)",
        "self.writer.there |= dict(zip((field.name for field in self.state), new, strict=True))\n        self._write(new)\n        self.loop.add(Assign(self.operator.name, tuple(fields)), last=False)",
    ),
    Bug("a TopN cuts off its last", f"{_FLOW}/ranking.py", "chosen = rank <= self.most", "chosen = rank < self.most"),
    Bug(
        "groups of a sort are told apart by their first column",
        f"{_FLOW}/ranking.py",
        "    for words in groups:\n",
        "    for words in groups[:1]:\n",
    ),
    # the way
    Bug(
        "a bucket is owned by its neighbour's instance too",
        f"{_FLOW}/balancer.py",
        "rows = order[bounds[target] : bounds[target + 1]]",
        "rows = order[bounds[target] : bounds[target + 1] + (target == 0)]",
    ),
    Bug(
        "numbers are routed by their own types",
        f"{_FLOW}/balancer.py",
        "return encode_keys(widened(batch.columns, self.fields), self.fields)",
        "return encode_keys(batch.columns, tuple(replace(f, type=batch.columns[f.name].type) for f in self.fields))",
    ),
    Bug(
        "a watermark overtakes what it lets out",
        f"{_FLOW}/nodes.py",
        "        yield from self.emit_all(node, passed)\n        yield from self._promise(node, combined)\n",
        "        yield from self._promise(node, combined)\n        yield from self.emit_all(node, passed)\n",
    ),
    Bug(
        "a watermark is lost at an input that ends",
        f"{_FLOW}/channel.py",
        "combined = min(self.times.values(), default=self.combined)",
        "combined = max(self.times.values(), default=self.combined)",
    ),
    Bug(
        "lines are taken whole whatever separators they have",
        f"{_KERNELS}/text.py",
        "(match_block(data, block, separator) | match_block(data, block, RETURN) | high_block(data, block))",
        "(match_block(data, block, RETURN) | high_block(data, block))",
    ),
    Bug(
        "late is judged with the row itself",
        f"{_KERNELS}/text.py",
        '        mask[i] = is_late(time[i], max_time, disorder)\n        max_time = max(max_time, time[i])\n    return max_time\n\n\n@kernel("int64(const int64[:], int64, int64, uint8[:], const int64[:], const int64[:])")',
        '        max_time = max(max_time, time[i])\n        mask[i] = is_late(time[i], max_time - 1, disorder)\n    return max_time\n\n\n@kernel("int64(const int64[:], int64, int64, uint8[:], const int64[:], const int64[:])")',
    ),
    Bug(
        "a partial result belongs to the next pane",
        f"{_COMPILE}/aggregate_entries.py",
        "np.full(len(groups), pane_end - 1, np.int64), None",
        "np.full(len(groups), pane_end, np.int64), None",
    ),
    Bug(
        "a partial result has less than all of a long key",
        f"{_COMPILE}/aggregate_entries.py",
        "prefixes + _LENGTH_BYTES",
        "prefixes",
    ),
    Bug(
        "partial results are dealt by half their key",
        f"{_KERNELS}/partition.py",
        "hash64(np.uint64(rows[i, 0]), np.uint64(rows[i, 1]))",
        "hash64(np.uint64(rows[i, 0]), np.uint64(0))",
    ),
    Bug(
        "what is held is not in a snapshot",
        f"{_FLOW}/hold.py",
        "return self.format.to_arrow(concat(self._runs)) if self._runs else",
        "return self.format.to_arrow(concat(self._runs[:1])) if self._runs else",
    ),
    Bug(
        "a restored row is taken by several instances",
        f"{_FLOW}/checkpoint.py",
        "mine: np.ndarray = owners.of(port, columns, table) == index",
        "mine: np.ndarray = owners.of(port, columns, table) >= index",
    ),
    Bug(
        "all elements of a list have one origin",
        f"{_FLOW}/flat_map.py",
        "np.column_stack((mapped.origin[rows], ordinals))",
        "np.column_stack((mapped.origin[rows], 0 * ordinals))",
    ),
    Bug(
        "Delay shifts the watermark twice",
        f"{_FLOW}/delay.py",
        "min(watermark + self.by, EVENT_TIME_MAX)",
        "min(watermark + 2 * self.by, EVENT_TIME_MAX)",
    ),
    # silence
    Bug(
        "one that awakes is still taken for idle",
        f"{_FLOW}/source.py",
        "    def _rouse(self, publisher: Publisher) -> None:\n        publisher.idle = False\n",
        "    def _rouse(self, publisher: Publisher) -> None:\n",
    ),
    Bug(
        "one that awakes starts where it fell asleep",
        f"{_FLOW}/source.py",
        "        self._rouse(self.publishers[name])\n        return self.watermark\n",
        "        self._rouse(self.publishers[name])\n        return self.publishers[name].watermark\n",
    ),
    Bug(
        "an idle channel is passed over, not asked",
        f"{_FLOW}/channel.py",
        "combined = min(self.times.values(), default=self.combined)",
        "combined = min((t for c, t in self.times.items() if c not in self.idle), default=self.combined)",
    ),
    # the short way
    Bug("late rows take the short way", f"{_KERNELS}/passing.py", " and not is_late(time, stamp, form[DISORDER])", ""),
    Bug("no credit is due on the short way", f"{_KERNELS}/passing.py", "<= state[OWED])", "<= 1 << 40)"),
    Bug(
        "a message is lost on the short way, and nobody notices",
        f"{_KERNELS}/passing.py",
        "state[NEXT] == _word(staging, at + 8 * SEQUENCE)",
        "state[NEXT] <= _word(staging, at + 8 * SEQUENCE)",
    ),
    Bug(
        "a message is answered from counters that stand elsewhere",
        "instance_manager/network.py",
        "            self.passed_by[header.channel].leave()\n",
        "            pass\n",
    ),
)
