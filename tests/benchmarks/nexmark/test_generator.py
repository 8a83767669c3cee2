"""The generator's rules: kinds, times, ids, sizes, how often what is hot comes."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
import pytest

from benchmarks.nexmark.generator import AHEAD, BASE_MS, CHANNELS, FIRST_ID, HOT_CHANNELS, NUMBER, OPEN_AUCTIONS, DrawnEvents

EVENTS = DrawnEvents(100_000)
TABLES = EVENTS.tables()
PERSON, AUCTION, BID = TABLES["person"], TABLES["auction"], TABLES["bid"]


def numbers(table: str, column: str) -> np.ndarray:
    found: np.ndarray = TABLES[table][column].to_numpy()
    return found


def mean(condition: np.ndarray) -> float:
    return float(np.mean(condition))


def test_of_fifty_events_one_is_a_person_and_three_are_auctions() -> None:
    assert [len(each) for each in (PERSON, AUCTION, BID)] == [2_000, 6_000, 92_000]
    assert numbers("person", NUMBER)[:2].tolist() == [0, 50]
    assert numbers("auction", NUMBER)[:4].tolist() == [1, 2, 3, 51]
    assert numbers("bid", NUMBER)[[0, 45, 46]].tolist() == [4, 49, 54]


def test_persons_and_auctions_are_numbered() -> None:
    assert numbers("person", "id").tolist() == list(range(FIRST_ID, FIRST_ID + 2_000))
    assert numbers("auction", "id").tolist() == list(range(FIRST_ID, FIRST_ID + 6_000))


def test_events_are_evenly_apart() -> None:
    milliseconds = BID["dateTime"].cast("int64").to_numpy() - BASE_MS
    assert milliseconds.tolist() == (numbers("bid", NUMBER) // 10).tolist()


def test_equal_arguments_equal_events() -> None:
    assert DrawnEvents(2_000).tables() == DrawnEvents(2_000).tables()
    assert DrawnEvents(2_000).tables() != DrawnEvents(2_000, seed=8).tables()


def test_who_begins_later_finds_those_before() -> None:
    tables = DrawnEvents(1_000, first=50_000).tables()
    assert tables["person"]["id"][0].as_py() == FIRST_ID + 1_000
    assert tables["auction"]["id"][0].as_py() == FIRST_ID + 3_000
    assert tables["person"]["dateTime"].cast("int64")[0].as_py() == BASE_MS


def test_half_of_the_bids_are_for_the_hot_auction() -> None:
    last = numbers("bid", NUMBER) // 50 * 3 + 2
    distance = last - (numbers("bid", "auction") - FIRST_ID)
    hot = numbers("bid", "auction") - FIRST_ID == last // 100 * 100
    assert mean(hot) == pytest.approx(0.5, abs=0.02)
    assert distance[~hot].min() == -AHEAD and distance[~hot].max() == OPEN_AUCTIONS


def test_three_quarters_are_of_the_hot_bidder_and_the_hot_seller() -> None:
    bidder, person = numbers("bid", "bidder") - 2 * FIRST_ID, numbers("bid", NUMBER) // 50
    assert mean(bidder == person // 100 * 100 + 1) == pytest.approx(0.75, abs=0.02)
    seller, person = numbers("auction", "seller") - FIRST_ID, numbers("auction", NUMBER) // 50
    assert mean(seller == person // 100 * 100) == pytest.approx(0.75, abs=0.02)
    assert (seller <= person + AHEAD).all() and (seller >= person - 1_000).all()


def test_prices_are_spread_over_six_orders_of_magnitude() -> None:
    price = numbers("bid", "price")
    assert price.min() >= 100 and price.max() <= 10**8
    assert [mean(price < 10**power) for power in (3, 4, 6)] == pytest.approx([1 / 6, 2 / 6, 4 / 6], abs=0.01)


def test_an_auction_expires_after_it_began_and_within_the_bound() -> None:
    open_ms = AUCTION["expires"].cast("int64").to_numpy() - AUCTION["dateTime"].cast("int64").to_numpy()
    assert open_ms.min() >= 1 and 320 < open_ms.max() <= EVENTS.open_ms_max < 340
    assert open_ms.mean() == pytest.approx(166, rel=0.02)


def test_half_of_the_channels_are_hot_and_nine_of_ten_others_have_their_number_in_the_url() -> None:
    hot = np.isin(BID["channel"].to_numpy(), HOT_CHANNELS)
    assert mean(hot) == pytest.approx(0.5, abs=0.01)
    assert pc.count_distinct(BID["channel"]).as_py() > CHANNELS * 0.9
    named = pc.match_substring(BID["url"], "&channel_id=").to_numpy()
    assert not named[hot].any() and mean(named[~hot]) == pytest.approx(0.9, abs=0.01)
    of_one = BID.filter(pc.equal(BID["channel"], "channel-1"))["url"].unique().to_pylist()
    assert len(of_one) == 1 and of_one[0].endswith(("item.htm?query=1", f"&channel_id={1 << 31}"))


def test_events_have_their_bytes_on_average() -> None:
    def bytes_of(table: str, texts: tuple[str, ...], others: int) -> float:
        return others + sum(pc.mean(pc.binary_length(TABLES[table][text])).as_py() for text in texts)

    assert bytes_of("bid", ("extra",), 32) == pytest.approx(100, rel=0.02)
    assert bytes_of("auction", ("itemName", "description", "extra"), 48) == pytest.approx(500, rel=0.02)
    texts = ("name", "emailAddress", "creditCard", "city", "state", "extra")
    assert bytes_of("person", texts, 8) == pytest.approx(200, rel=0.02)
