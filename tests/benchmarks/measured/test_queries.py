"""The queries of the commands, in this process and on few rows: they ask what plain Python computes.

Tests `bids.py`, `delivery.py`, `identity.py`, `pattern_cluster.py`, `running_count.py`, `skew.py`, `window.py`.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.bids import CHANNEL_ID, FOLDER
from benchmarks.measured import delivery, identity, pattern_cluster, running_count, skew, window
from benchmarks.measured.bids import QUESTIONS
from driver import Query, stream
from numa_cep import testing

Rows = list[dict[str, Any]]
HERE = Path("/here")


def bids() -> Rows:
    """Three a second for two minutes and a half, few of everything, so that all of it meets."""
    choose = random.Random(7)
    urls = ["https://a/abc/x?channel_id=12", "https://a/abcd/x?channel_id=12", "https://a/xyz/?y=1", "http://b/q_r/?a=b&channel_id=7&c"]
    return [
        {
            "ms": 1_000 * (i // 3),
            "auction": choose.randrange(4),
            "bidder": f"u{choose.randrange(5)}",
            "price": i * 7919 % 1009,
            "channel": f"c{choose.randrange(3)}",
            "url": choose.choice(urls),
        }
        for i in range(450)
    ]


BIDS = bids()
UPDATES = [{"ms": 7_000 * i, "auction": i % 4, "reserve": i} for i in range(22)]
READ = {"bids": ("ms", "auction", "bidder", "price", "channel", "url"), "updates": ("ms", "auction", "reserve")}


def answers(question: str) -> Rows:
    query = QUESTIONS[question](HERE / "bids.csv", HERE / "updates.csv").output("answers")
    given = {"bids": BIDS, "updates": UPDATES}
    declared = {each.name: each.schema.names for each in query.build().streams}
    rows = {name: pa.Table.from_pylist([{k: row[k] for k in names} for row in given[name]]) for name, names in declared.items()}
    for name, table in rows.items():
        assert tuple(declared[name]) == READ[name][: len(declared[name])]  # the first fields of a line
        rows[name] = table.set_column(0, "ms", table["ms"].cast(pa.timestamp("ms")))
    found = testing.answers(query, rows)["answers"]
    return [{name: ms(value) if name in ("ms", "t") else value for name, value in row.items()} for row in found]


def ms(value: Any) -> int:
    return int(value.timestamp() * 1000)


def by(rows: Rows, *names: str) -> dict[tuple[Any, ...], Rows]:
    """Of each minute, where `minute` is a name."""
    found: dict[tuple[Any, ...], Rows] = defaultdict(list)
    for row in rows:
        found[tuple(row["ms"] // 60_000 if name == "minute" else row[name] for name in names)].append(row)
    return found


def equal(found: Rows, wanted: Rows) -> bool:
    return sorted(map(str, found)) == sorted(map(str, wanted)) and len(found) > 5


def test_updates_near_a_bid() -> None:
    fields = ("ms", "auction", "bidder", "price")
    near = [(bid, up) for bid in BIDS for up in UPDATES if bid["auction"] == up["auction"] and abs(up["ms"] - bid["ms"]) <= 10_000]
    assert equal(answers("interval-join"), [{**{k: bid[k] for k in fields}, "reserve": up["reserve"]} for bid, up in near])


def test_the_ten_highest_of_an_auction_in_a_minute() -> None:
    best = [sorted(group, key=lambda row: -row["price"])[:10] for group in by(BIDS, "minute", "auction").values()]
    wanted = [row["price"] for group in best for row in group]
    found = answers("top-n")
    assert sorted(row["price"] for row in found) == sorted(wanted)
    assert {row["rank"] for row in found} == set(range(1, 11))


def test_the_last_of_a_bidder_in_a_minute() -> None:
    wanted = [group[-1] for group in by(BIDS, "minute", "bidder").values()]
    assert equal(answers("keep-last"), [{k: row[k] for k in ("ms", "auction", "bidder", "price")} for row in wanted])


def test_how_many_are_different_in_a_minute() -> None:
    wanted = [
        {"channel": channel, "bids": len(group), "bidders": len(by(group, "bidder")), "auctions": len(by(group, "auction"))}
        for (_, channel), group in by(BIDS, "minute", "channel").items()
    ]
    assert equal(answers("distinct"), wanted)


@pytest.mark.parametrize("question", pattern_cluster.QUESTIONS)
def test_matches_of_a_pattern_are_counted_and_summed_up(question: str, tmp_path: Path) -> None:
    """Of keys that have a row every ten milliseconds; where few kinds may be a variable, the rows are of two of them more."""
    kinds = 5 if question.startswith("rare") else 3
    pattern_cluster.write_rows(tmp_path, 400, kinds, 1)
    with pa.ipc.open_file(tmp_path / "rows-0.arrow") as file:
        table = file.read_all()
    keys, times = pa.array(np.arange(400) % 4), pa.array(10_000 * np.arange(400), pa.timestamp("us"))
    table = table.set_column(0, "t", times).set_column(1, "k", keys)
    found = testing.answers(pattern_cluster.query(question, tmp_path, None, 1), {"rows": table})["answers"]
    ends = [pair for key in range(4) for pair in matches_of(question, [row for row in table.to_pylist() if row["k"] == key])]
    counted = sum(row["matches"] for row in found), sum(row["sum"] for row in found)
    assert counted == (len(ends), sum(first + last for first, last in ends))
    assert len(ends) > 3


def test_rows_of_a_pattern_are_partitioned_by_their_keys(tmp_path: Path) -> None:
    pattern_cluster.write_rows(tmp_path, 400, 3, 2)
    keys = []
    for part in range(2):
        with pa.ipc.open_file(tmp_path / f"rows-{part}.arrow") as file:
            keys.append(file.read_all()["k"].to_pylist())
    assert sum(map(len, keys)) == 400 and not {*keys[0]} & {*keys[1]}


def matches_of(question: str, rows: Rows) -> list[tuple[int, int]]:
    """Values of the first and the last row of each; a tenth of a second has three rows of a key."""
    found, begin = list[tuple[int, int]](), 0
    for i, row in enumerate(rows):
        if row["e"] != 0 or i < begin:
            continue
        behind = [(j, rows[j]) for j in range(i + 1, min(i + 3, len(rows)))]
        if question == "apart":
            found += [(row["v"], other["v"]) for _, other in behind if other["e"] == 1 and other["v"] > 2 * row["v"]][:1]
        elif [other["e"] for _, other in behind] == [1, 2]:
            found.append((row["v"], behind[1][1]["v"]))
            begin = i + 3
    return found


def test_what_stands_in_addresses() -> None:
    short = [(row, re.search(CHANNEL_ID, row["url"])) for row in BIDS if re.search(FOLDER, row["url"])]
    wanted = [{"auction": row["auction"], "price": row["price"], "id": found[2]} for row, found in short if found]
    assert equal(answers("regex"), wanted)
    assert {row["id"] for row in wanted} == {"7"}  # where it stands at the beginning or behind an &


def test_every_hundred_of_an_auction() -> None:
    wanted = [
        {"auction": auction, "bids": 100, "highest": max(row["price"] for row in group[at : at + 100])}
        for (auction,), group in by(BIDS, "auction").items()
        for at in range(0, len(group) // 100 * 100, 100)
    ]
    found = answers("sequential")
    assert sorted(map(str, found)) == sorted(map(str, wanted)) and len(found) >= 3


VISITS = [(0, "10.0.0.1"), (29_999, "10.0.0.2"), (30_000, "10.0.0.1"), (31_000, "10.0.0.1")]


def visits() -> pa.Table:
    return pa.table({"ts": pa.array([t for t, _ in VISITS], pa.timestamp("ms")), "ip": [ip for _, ip in VISITS]})


def test_the_fixed_window() -> None:
    found = testing.answers(window.query(window.visits(HERE / "visits.csv")), {"visits": visits()})["answers"]
    shown = sorted((row["ip"], ms(row["start"]), ms(row["end"]), row["visits"]) for row in found)
    assert shown == [("10.0.0.1", 0, 0, 1), ("10.0.0.1", 30_000, 31_000, 2), ("10.0.0.2", 29_999, 29_999, 1)]


def test_running_counts_and_their_sum() -> None:
    found = testing.answers(running_count.query(HERE / "visits.csv"), {"visits": visits()})["answers"]
    assert sorted(row["n"] for row in found) == [1, 1, 2, 3]
    total = running_count.Total()
    for at in (0, 2):
        total(pa.RecordBatch.from_pylist(found[at : at + 2]))
    assert total.sum == 7


def test_lines_come_as_they_are_and_their_bytes_are_counted() -> None:
    lines = ["a,b", "", "größer", "x" * 100]
    query = identity.query(HERE / "x.csv", None)
    assert [row["line"] for row in testing.answers(query, {"lines": [{"line": line} for line in lines]})["answers"]] == lines
    (written,) = identity.query(HERE / "x.csv", HERE / "out").build().outputs
    assert written.files is not None
    delivered = identity.Delivered()
    table = pa.record_batch({"line": pa.array(["not this", *lines])})
    for batch in (table.slice(1, 3), table.slice(4)):
        delivered(batch)
    size = sum(len(line.encode()) + 1 for line in lines)
    assert delivered.figures(2.0) == {"bytes_per_s": size / 2, "batch_bytes_mean": size / 2}


def test_events_pass_two_subqueries() -> None:
    built = delivery.query().build()
    assert (built.options.split, built.options.parallelism) == ("per-operator", 1)
    found = testing.answers(delivery.query(), {"events": [{"created": 5}, {"created": 3}]})["answers"]
    assert [row["created"] for row in found] == [5, 3]


@pytest.mark.parametrize("shape", ["thesis", "zipf"])
def test_keys_that_are_not_alike(shape: str, as_python: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skew, "KEYS", 5_000)
    buckets = skew.buckets_of_keys()
    assert buckets.shape == (skew.KEYS,) and 0 <= buckets.min() < buckets.max() < skew.BUCKETS
    likely = skew.shares(shape, 1.25, buckets)
    assert likely.sum() == pytest.approx(1)
    if shape == "zipf":
        assert likely[[0, 1, 99]] / likely[0] == pytest.approx(np.array([1, 2, 100]) ** -1.25)
    else:
        quarters = np.bincount(buckets * 4 // skew.BUCKETS, likely)
        assert quarters == pytest.approx(np.array(skew.SHARES)) and likely.max() < 3 / skew.KEYS


def test_a_row_costs_the_same_whatever_its_key() -> None:
    """The steps begin with the row: the state of a key is half of what it was, and what comes of the row."""
    rows = [{"k": k, "x": x} for k, x in ((1, 0.5), (2, 0.25), (1, 0.5), (1, 0.75))]
    state: dict[int, float] = {}
    wanted = []
    for row in rows:
        work = row["x"]
        for _ in range(skew.WORK):
            work = abs(work * 0.75 + row["x"]) ** 0.5
        state[int(row["k"])] = state.get(int(row["k"]), 0.0) * 0.5 + work
        wanted.append((row["k"], state[int(row["k"])]))
    query: Query = skew.query(2, "auto")
    found = testing.answers(query, {"skew.in": rows}, streams=[stream("skew.in", k="int64", x="float64")])["skew.out"]
    for key in (1, 2):
        assert [row["h"] for row in found if row["k"] == key] == pytest.approx([h for k, h in wanted if k == key])
    assert (query.build().options.rebalance, query.build().options.buckets) == ("auto", skew.BUCKETS)
