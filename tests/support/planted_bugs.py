"""Bugs, each as one change of one line of the engine, that the properties have to find (`tests/properties/test_planted_bugs.py`)."""

from __future__ import annotations

from typing import NamedTuple


class Bug(NamedTuple):
    """In `file`, `right` stands once; `wrong` in its place is the bug. `tests`: one of these finds it, by path below `tests`; of none, a
    property does."""

    name: str
    file: str
    right: str
    wrong: str
    tests: tuple[str, ...] = ()


_FLOW, _COMPILE, _KERNELS, _PLAN = "cep/dataflow", "cep/compile", "cep/kernels", "cep/plan"

BUGS = (
    # windows
    Bug(
        "a TIME window ends a µs late",
        f"{_COMPILE}/windows/panes.py",
        "numbers[runs] = (time[i] - offset) // pane",
        "numbers[runs] = (time[i] - offset - 1) // pane",
    ),
    Bug(
        "panes before the epoch are numbered toward zero",
        f"{_COMPILE}/windows/panes.py",
        "numbers[runs] = (time[i] - offset) // pane",
        "numbers[runs] = int((time[i] - offset) / pane)",
    ),
    Bug(
        "an answer of a TIME window comes out as if it had no offset",
        f"{_COMPILE}/windows/panes.py",
        "return number * self.pane + self.offset",
        "return number * self.pane",
    ),
    Bug(
        "a window join forgets the offset of its windows",
        f"{_FLOW}/joins/window_join.py",
        "rows = ThinBatch.of(batch, (batch.time - self.offset) // self.advance)",
        "rows = ThinBatch.of(batch, batch.time // self.advance)",
    ),
    Bug(
        "a TopN's windows end without their offset",
        f"{_FLOW}/state/window_numbers.py",
        "return k * self.window.advance + self.window.offset",
        "return k * self.window.advance",
    ),
    Bug(
        "a pane is merged twice into a sliding window",
        f"{_COMPILE}/windows/firing.py",
        "first if self._taken is None else max(first, self._taken), end)",
        "first, end)",
    ),
    Bug(
        "the last pane of a sliding window is left out",
        f"{_COMPILE}/windows/firing.py",
        "        self._taken = end\n",
        "        self._taken = end + 1\n",
    ),
    Bug(
        "a cumulating window begins anew with each answer",
        f"{_COMPILE}/windows/firing.py",
        "if number == self._begin(number) + self.steps:",
        "if number:",
    ),
    Bug(
        "a cumulating window begins with its first row",
        f"{_COMPILE}/windows/firing.py",
        "yield self.panes.start(self._begin(number)), self.panes.start(number), self.panes.tables[first]",
        "yield self.panes.start(first), self.panes.start(number), self.panes.tables[first]",
    ),
    # thin panes, and many windows in one go
    Bug(
        "a row of a thin pane is in one window less",
        f"{_COMPILE}/windows/thin.py",
        "counts = np.maximum(greatest - least + 1, 0)",
        "counts = np.maximum(greatest - least, least == greatest)",
    ),
    Bug(
        "the last thin pane goes with those before it",
        f"{_COMPILE}/windows/thin.py",
        "piece.between(end, int(piece.panes[-1]) + 1)",
        "piece.between(end, int(piece.panes[-1]))",
    ),
    Bug(
        "groups of two thin panes are one",
        f"{_KERNELS}/tables/pane_groups.py",
        "if panes[first] == panes[i] and w0[first] == w0[i]:",
        "if panes[first] // 2 == panes[i] // 2 and w0[first] == w0[i]:",
    ),
    Bug(
        "the first pane of a cumulating window is forgotten between two of its answers",
        f"{_COMPILE}/windows/firing.py",
        "(piece := each.between(begin, end - 1))",
        "(piece := each.between(begin + 1, end - 1))",
    ),
    Bug(
        "thin panes that get tables stay thin as well",
        f"{_COMPILE}/windows/panes.py",
        "                    yield\n        self.thin.free_before(end)\n",
        "                    yield\n",
    ),
    Bug(
        "long keys of a piece are looked for in the one before it",
        f"{_KERNELS}/tables/keys.py",
        "        size += len(body)\n    return Keys(np.concatenate(",
        "        size += 0\n    return Keys(np.concatenate(",
    ),
    Bug(
        "rows of neighbouring windows meet in a window join",
        f"{_FLOW}/joins/window_join.py",
        "np.concatenate([left.panes, right.panes]))",
        "np.concatenate([left.panes, right.panes]) // 2)",
    ),
    Bug(
        "answers of many windows of a Sort are at the ends of these",
        f"{_FLOW}/operators/sort.py",
        "time=starts + self.window.size - 1)",
        "time=starts + self.window.size)",
    ),
    Bug("a session ends at its gap", f"{_KERNELS}/windows/assigners.py", "elif time[i] - last > gap:", "elif time[i] - last >= gap:"),
    Bug(
        "a session closes when the watermark is at its end",
        f"{_KERNELS}/windows/assigners.py",
        "        if deadline < watermark:\n",
        "        if deadline <= watermark + gap:\n",
    ),
    Bug(
        "a transaction leaves its last row out",
        f"{_KERNELS}/windows/assigners.py",
        "groups[at + SLOT], groups[at + FIRST], groups[at + COUNT] = slot, time[i], 0\n        groups[at + LAST]",
        "groups[at + SLOT], groups[at + FIRST], groups[at + COUNT] = slot, time[i], 0\n            continue\n        groups[at + LAST]",
    ),
    Bug(
        "a group begins anew with a tuple just ttl after its last one",
        f"{_COMPILE}/aggregate/answering.py",
        "time[i] - ttl > entries",
        "time[i] - ttl >= entries",
    ),
    Bug(
        "periodic answers ignore ttl",
        f"{_COMPILE}/windows/running.py",
        "fresh |= least - self.groups.matrix[numbers, _LAST] > self.ttl",
        "fresh |= least - self.groups.matrix[numbers, _LAST] > 2 * self.ttl",
    ),
    # functions
    Bug("a null is counted", f"{_COMPILE}/aggregate/states.py", "'1' if self.column is None else arguments.valid(self.column)", "'1'"),
    Bug(
        "a sum loses its carry",
        f"{_COMPILE}/aggregate/words.py",
        "words[at + 1] += high + (1 if sum_low < np.uint64(low) else 0)",
        "words[at + 1] += high",
    ),
    Bug(
        "-0.0 is less than 0.0 in MIN and MAX",
        f"{_COMPILE}/aggregate/words.py",
        "return ordered(0 if bits & _MAGNITUDE == 0 else bits)",
        "return ordered(bits)",
    ),
    Bug(
        "a tie of FIRST is resolved by arrival",
        f"{_COMPILE}/aggregate/records.py",
        "for k, word in enumerate(words)]\n        if self.by",
        "for k, word in enumerate(words[: self._place + 1])]\n        if self.by",
    ),
    Bug(
        "the texts of a row are those of the last that came",
        f"{_COMPILE}/aggregate/records.py",
        '*(f"    {line}" for line in (*put, *put_texts))]',
        '*(f"    {line}" for line in put), *put_texts]',
    ),
    Bug(
        "of a row of several columns the last stays that of another when two are merged",
        f"{_COMPILE}/aggregate/records.py",
        'f"for k in range({self._plain}):"',
        'f"for k in range({self._plain - 1}):"',
    ),
    Bug(
        "values of a row are looked for as if none could be NULL",
        f"{_COMPILE}/aggregate/records.py",
        "sum(1 + self._may_lack(each) for each in before)",
        "len(before)",
    ),
    Bug(
        "AVG divides by all rows",
        f"{_COMPILE}/aggregate/spec.py",
        "values = Count(column if column.nullable else None)",
        "values = Count(None)",
    ),
    # order
    Bug("the last of a window is the first", f"{_FLOW}/operators/ranking.py", "places[::-1] if self.last else places", "places"),
    Bug("rows that tie stay as they came", f"{_FLOW}/state/merging.py", "    if ties:\n        _untie(", "    if False:\n        _untie("),
    Bug(
        "a held run is let out a µs early",
        f"{_FLOW}/state/hold.py",
        "if run.time.item(-1) < watermark",
        "if run.time.item(-1) <= watermark",
    ),
    Bug(
        "a row of a held run is let out a µs early",
        f"{_FLOW}/state/hold.py",
        "run.time.searchsorted(watermark)",
        'run.time.searchsorted(watermark, "right")',
    ),
    Bug(
        "held runs that are gathered stay as they came",
        f"{_FLOW}/state/hold.py",
        "self._append(in_stream_order(concatenated(runs[:few]), self.schema, self.ties))",
        "self._append(concatenated(runs[:few]))",
    ),
    # joins
    Bug(
        "NULL joins NULL", f"{_COMPILE}/join_rows.py", "np.bitwise_or.reduce(null) if null else NO_NULLS", "NO_NULLS if null else NO_NULLS"
    ),
    Bug(
        "an interval join leaves out its upper bound",
        f"{_FLOW}/joins/interval_join.py",
        "return time + self.lower, time + self.upper",
        "return time + self.lower, time + self.upper - 1",
    ),
    Bug("a row of a join has another one's tuple", f"{_KERNELS}/composed.py", "self.chosen[self.index]", "self.chosen[self.index[::-1]]"),
    Bug("a join without a bound forgets", f"{_FLOW}/joins/interval_join.py", "_FAR = 1 << 62", "_FAR = 8"),
    Bug(
        "what met none in a join without a bound comes out at its own time",
        f"{_FLOW}/joins/interval_join.py",
        "np.full(len(time), EVENT_TIME_MAX)",
        "time",
    ),
    Bug(
        "a matched row comes out as unmatched too",
        f"{_FLOW}/joins/interval_join.py",
        "yield block.held, rows[block.held.matched[rows] == 0]",
        "yield block.held, rows",
    ),
    Bug(
        "an unmatched row is forgotten with its block",
        f"{_FLOW}/joins/interval_join.py",
        "np.flatnonzero((time >= since) & (time < before))",
        "np.flatnonzero((time > since) & (time < before))",
    ),
    Bug(
        "rows of a key are found in the order in which they came",
        "cep/kernels/time_index.py",
        "while older > 0 and when[start + older - 1] > time[i]:",
        "while older > 0 and when[start + older - 1] > time[i] + 9:",
    ),
    Bug(
        "a row that is over is held on",
        f"{_FLOW}/joins/interval_join.py",
        "np.flatnonzero(time[start:stop] >= since) for",
        "np.arange(stop - start) for",
    ),
    Bug(
        "a window join takes the rows behind its end",
        f"{_FLOW}/joins/window_join.py",
        "bisect_left(self._numbers, k - self.reach) : bisect_left(self._numbers, end - 1)]",
        "bisect_left(self._numbers, k - self.reach) : bisect_left(self._numbers, end)]",
    ),
    Bug(
        "an as-of join takes the first partner of a time",
        f"{_FLOW}/joins/as_of_join.py",
        "ranges.order[ranges.stop[rows] - 1]",
        "ranges.order[ranges.first[rows]]",
    ),
    # state by key
    Bug(
        "a duplicate renews its ttl",
        f"{_FLOW}/operators/deduplicate.py",
        "        if first[i]:\n            last",
        "        if True:\n            last",
    ),
    Bug(
        "state is changed before an update fails",
        f"{_COMPILE}/stateful.py",
        "self.writer.there |= dict(zip((field.name for field in self.state), new, strict=True))\n        self.loop.add(Assign(self.operator.name, tuple(fields)), last=False)\n        self._write(new)",
        "self.writer.there |= dict(zip((field.name for field in self.state), new, strict=True))\n        self._write(new)\n        self.loop.add(Assign(self.operator.name, tuple(fields)), last=False)",
    ),
    Bug("a TopN cuts off its last", f"{_FLOW}/operators/ranking.py", "chosen = rank <= self.most", "chosen = rank < self.most"),
    Bug(
        "groups of a sort are told apart by their first column",
        f"{_FLOW}/operators/ranking.py",
        "    for words in groups:\n",
        "    for words in groups[:1]:\n",
    ),
    # trailing windows
    Bug(
        "a trailing window leaves out its first instant",
        f"{_COMPILE}/windows/trailing_source.py",
        "entries[_entry(groups, at, first + old) + 1] < time - span",
        "entries[_entry(groups, at, first + old) + 1] <= time - span",
    ),
    Bug(
        "tuples of one time see only those before them",
        f"{_COMPILE}/windows/trailing_source.py",
        "while span >= 0 and run < stop and time[run] == time[answered]:",
        "while False and run < stop and time[run] == time[answered]:",
    ),
    Bug(
        "a trailing window of rows has one more",
        f"{_COMPILE}/windows/trailing_source.py",
        "return max(0, count + 1 - most)",
        "return max(0, count - most)",
    ),
    Bug(
        "a flip leaves the oldest row as it is",
        f"{_COMPILE}/windows/trailing_source.py",
        "while groups[group + DONE] > groups[group + FIRST]:",
        "while groups[group + DONE] > groups[group + FIRST] + 1:",
    ),
    Bug(
        "a restored trailing window has an empty back",
        f"{_COMPILE}/windows/trailing.py",
        "back = np.flatnonzero(number >= flip)",
        "back = np.flatnonzero(number > flip)",
    ),
    Bug(
        "a trailing window forgets a group a tuple early",
        f"{_COMPILE}/windows/trailing_source.py",
        "if ttl >= 0 and time - entries[_entry(groups, at, first + count - 1) + 1] > ttl:",
        "if ttl >= 0 and time - entries[_entry(groups, at, first + count - 1) + 1] >= ttl:",
    ),
    Bug(
        "a lag counts the tuple itself",
        f"{_FLOW}/state/lags.py",
        "(count - back[j]) % size] if count >= back[j]",
        "(count - back[j] + (back[j] > 1)) % size] if count >= back[j]",
    ),
    Bug(
        "restored lags are out of their order",
        f"{_FLOW}/state/lags.py",
        "np.maximum.at(self._counts, groups, place + 1)",
        "np.maximum.at(self._counts, groups, place)",
    ),
    Bug(
        "a group that comes back had its last row in 1970, if that was before",
        f"{_FLOW}/state/lags.py",
        "np.full(size, MIN_TIME)",
        "np.full(size, 0)",
    ),
    Bug(
        "lags that are left after others are numbered as if those were there",
        f"{_FLOW}/state/lags.py",
        "numbers[own] = self._rows + np.cumsum(named[own]) - 1",
        "numbers[own] = begin + np.cumsum(named[own]) - 1",
    ),
    Bug(
        "a table is read again one refresh late",
        f"{_FLOW}/operators/table_versions.py",
        "period = now // self.refresh + 1",
        "period = now // self.refresh + 2",
    ),
    Bug(
        "what cannot be read to its end is in use",
        f"{_FLOW}/operators/table_versions.py",
        "            self.problem = str(error)",
        "            self.problem, self.version = str(error), number",
    ),
    Bug(
        "a tuple of the time at which a version ends still meets it",
        f"{_FLOW}/operators/versioned_lookup.py",
        "early = batch.time < until",
        "early = batch.time <= until",
    ),
    Bug(
        "a version is freed before the watermark has passed its end",
        f"{_FLOW}/operators/versioned_lookup.py",
        "self.versions[0].until <= watermark",
        "self.versions[0].until <= watermark + 1",
    ),
    # the way
    Bug(
        "a bucket is owned by its neighbour's instance too",
        f"{_FLOW}/outputs/balancer.py",
        "rows = order[bounds[target] : bounds[target + 1]]",
        "rows = order[bounds[target] : bounds[target + 1] + (target == 0)]",
    ),
    Bug(
        "numbers are routed by their own types",
        f"{_FLOW}/outputs/balancer.py",
        "return encode_keys(with_wider_numbers(batch.columns, self.fields), self.fields)",
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
        f"{_KERNELS}/lateness.py",
        '        mask[i] = is_late(time[i], max_time, disorder)\n        max_time = max(max_time, time[i])\n    return max_time\n\n\n@kernel("int64(const int64[:], int64, int64, uint8[:], const int64[:], const int64[:])")',
        '        max_time = max(max_time, time[i])\n        mask[i] = is_late(time[i], max_time - 1, disorder)\n    return max_time\n\n\n@kernel("int64(const int64[:], int64, int64, uint8[:], const int64[:], const int64[:])")',
    ),
    Bug(
        "a partial result belongs to the next pane",
        f"{_COMPILE}/aggregate/entries.py",
        "np.full(len(groups), pane_end - 1, np.int64), None",
        "np.full(len(groups), pane_end, np.int64), None",
    ),
    Bug(
        "a partial result has less than all of a long key",
        f"{_COMPILE}/aggregate/entries.py",
        "prefixes + _LENGTH_BYTES",
        "prefixes",
    ),
    Bug(
        "partial results are dealt by half their key",
        f"{_KERNELS}/tables/partition.py",
        "hash64(np.uint64(rows[i, 0]), np.uint64(rows[i, 1]))",
        "hash64(np.uint64(rows[i, 0]), np.uint64(0))",
    ),
    Bug(
        "what is held is not in a snapshot",
        f"{_FLOW}/state/hold.py",
        "return self.format.to_arrow(concatenated(self._runs)) if self._runs else",
        "return self.format.to_arrow(concatenated(self._runs[:1])) if self._runs else",
    ),
    Bug(
        "a restored row is taken by several instances",
        f"{_FLOW}/movement/owners.py",
        "mine: np.ndarray = owners.of(port, columns, table) == index",
        "mine: np.ndarray = owners.of(port, columns, table) >= index",
    ),
    Bug(
        "all elements of a list have one origin",
        f"{_FLOW}/operators/flat_map.py",
        "np.column_stack((mapped.origin[rows], ordinals))",
        "np.column_stack((mapped.origin[rows], 0 * ordinals))",
    ),
    Bug(
        "Delay shifts the watermark twice",
        f"{_FLOW}/operators/delay.py",
        "min(watermark + self.by, EVENT_TIME_MAX)",
        "min(watermark + 2 * self.by, EVENT_TIME_MAX)",
    ),
    # silence
    Bug(
        "one that awakes is still taken for idle",
        f"{_FLOW}/sources/publishers.py",
        "    def rouse(self, name: str, watermark: int) -> None:\n        self[name].idle = False\n",
        "    def rouse(self, name: str, watermark: int) -> None:\n",
    ),
    Bug(
        "one that awakes starts where it fell asleep",
        f"{_FLOW}/sources/published.py",
        "        self._rouse(name)\n        return self.watermark\n",
        "        self._rouse(name)\n        return self.publishers[name].taken_until\n",
    ),
    Bug(
        "an idle channel is passed over, not asked",
        f"{_FLOW}/channel.py",
        "combined = min(self.times.values(), default=self.combined)",
        "combined = min((t for c, t in self.times.items() if c not in self.idle), default=self.combined)",
    ),
    # the fast path
    Bug("late rows take the fast path", f"{_KERNELS}/relay.py", " and not is_late(time, stamp, form[DISORDER])", ""),
    Bug("rows behind what a restored reader has promised take the fast path", f"{_KERNELS}/relay.py", "good &= time >= floor", "pass"),
    Bug(
        "what leaves by the fast path at once is not kept",
        "instance_manager/recovery/told.py",
        "        self.client.spend(run.size)\n        self._keep(run)\n",
        "        self.client.spend(run.size)\n",
    ),
    Bug(
        "what leaves by the fast path is news to nobody",
        "instance_manager/fast_path/fast_path.py",
        "(not own.news or self._awaits_commit())",
        "self._awaits_commit()",
    ),
    Bug(
        "what a publisher has promised on the fast path is forgotten by its checkpoint",
        "instance_manager/fast_path/fast_path.py",
        "                entrance.publisher.taken_until = state[relay.PROMISED]\n",
        "                pass\n",
    ),
    Bug(
        "what is kept for a commit on the fast path has no bound",
        "instance_manager/fast_path/fast_path.py",
        "_bounded(KEPT_BYTES)",
        "_bounded(1 << 40)",
    ),
    Bug("no credit is due on the fast path", f"{_KERNELS}/relay.py", "<= state[OWED])", "<= 1 << 40)"),
    Bug(
        "a message is lost on the fast path, and it goes unnoticed",
        f"{_KERNELS}/relay.py",
        "state[NEXT] == _word(staging, at + 8 * SEQUENCE)",
        "state[NEXT] <= _word(staging, at + 8 * SEQUENCE)",
    ),
    Bug(
        "a message is answered from counters that stand elsewhere",
        "instance_manager/network.py",
        "            self.relays[header.channel].leave()\n",
        "            pass\n",
    ),
)
