"""The search on systems of known capacity, and the verdict over one probe. No clock: a probe of the double is arithmetic."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hibench.errors import OptionError
from hibench.searching.search import Found, Limits, Tried, bracket, found, next_rate, search_rates
from hibench.searching.simulated import Simulated

LIMITS = st.builds(
    Limits,
    first=st.integers(1, 10_000),
    most=st.integers(10_000, 10_000_000),
    precision=st.floats(0.01, 1.0),
    attempts=st.integers(1, 3),
    probes=st.just(200),
)


def within(capacity):
    """A probe of a system that sustains every rate up to `capacity`."""
    return lambda rate: "" if rate <= capacity else "too much"


@given(LIMITS, st.integers(1, 20_000_000))
def test_it_finds_the_capacity_within_its_precision(limits, capacity):
    result, tried = search_rates(within(capacity), limits)
    assert result.rate <= capacity
    if result.failed is None:
        assert result.rate == limits.most
    else:
        assert capacity < result.failed
        assert result.failed - result.rate <= max(1, limits.precision * result.rate)
    assert next_rate(tried, limits) is None


@given(LIMITS, st.integers(1, 20_000_000))
def test_it_never_leaps_beyond_twice_what_is_sustained(limits, capacity):
    _, tried = search_rates(within(capacity), limits)
    for number, each in enumerate(tried[1:], start=1):
        sustained = max((before.rate for before in tried[:number] if before.sustained), default=0)
        assert each.rate <= max(2 * sustained, limits.first)


@given(LIMITS, st.integers(1, 20_000_000), st.randoms(use_true_random=False))
def test_hiccups_that_do_not_last_change_nothing(limits, capacity, random):
    """Any try may fail, but never as many in a row as a failure takes."""
    limits, in_a_row = replace(limits, probes=1000), {}

    def probe(rate):
        in_a_row[rate] = (
            in_a_row.get(rate, 0) + 1 if in_a_row.get(rate, 0) < limits.attempts - 1 and random.random() < 0.5 else limits.attempts
        )
        return "" if rate <= capacity and in_a_row[rate] == limits.attempts else "hiccup"

    assert search_rates(probe, limits)[0].rate == search_rates(within(capacity), limits)[0].rate


@given(LIMITS, st.lists(st.booleans(), max_size=60), st.integers(1, 30))
def test_whatever_happens_it_ends_and_says_why(limits, outcomes, probes):
    limits, answers = replace(limits, probes=probes), iter(outcomes)
    result, tried = search_rates(lambda rate: "" if next(answers, True) else "chance", limits)
    assert len(tried) <= probes
    assert result.why
    assert result.rate == max((each.rate for each in tried if each.sustained), default=0)
    assert all(1 <= each.rate <= limits.most for each in tried)


def test_the_steps_of_a_search():
    """Doubling, a failure that is tried again, then bisection; rates with few digits."""
    result, tried = search_rates(within(590_000), Limits(first=100_000, most=10_000_000))
    assert [each.rate for each in tried] == [*(100_000, 200_000, 400_000, 800_000, 800_000), *(600_000, 600_000, 500_000, 550_000, 575_000)]
    assert result.failed == 600_000
    assert result.why == "at 600,000/s: too much"


def test_it_starts_lower_when_the_first_rate_is_too_high():
    result, tried = search_rates(within(3_000), Limits(first=100_000, attempts=1))
    assert [each.rate for each in tried][:6] == [100_000, 50_000, 25_000, 12_500, 6_250, 3_125]
    assert 2_850 <= result.rate <= 3_000


def test_nothing_is_sustained():
    assert search_rates(within(0), Limits(first=4, attempts=1))[0] == Found(0, 1, "at 1/s: too much")


def test_the_most_is_a_reason_too():
    assert search_rates(within(10**9), Limits(first=30, most=100))[0] == Found(100, None, "100/s was the most to be tried (--most)")


def test_a_small_budget_still_says_what_it_knows():
    tried = [Tried(100), Tried(200), Tried(400, "too much")]
    result = found(tried, Limits(first=100, most=1000, probes=3))
    assert result == Found(200, None, "the search ended after 3 probes (--probes); at 400/s, tried once: too much")


@pytest.mark.parametrize("options", [{"first": 0}, {"most": 0}, {"first": 10, "most": 5}, {"precision": 0}, {"attempts": 0}, {"probes": 0}])
def test_limits_that_make_no_sense_are_refused(options):
    with pytest.raises(OptionError, match=r"--(first|most|precision|attempts|probes): expected"):
        Limits(**options)


def test_a_rate_that_failed_below_one_that_was_sustained_ends_nothing():
    """The machine was busy with something else."""
    tried = [Tried(1000, "too much"), Tried(1000, "too much"), Tried(2000), Tried(4000, "too much")]
    assert bracket(tried, Limits(first=1000, most=8000, attempts=2)) == (2000, None)
    assert bracket(tried, Limits(first=1000, most=8000, attempts=1)) == (2000, 4000)


class TestSimulatedSystem:
    """The double, the verdict and the search together."""

    @given(st.integers(20_000, 5_000_000), st.sampled_from([0.0, 1.0]), st.floats(1, 50))
    def test_the_search_finds_what_it_can_do(self, capacity, window_s, delay_ms):
        system = Simulated(capacity, delay_ms, window_s)
        limits = Limits(first=10_000, attempts=1)
        result, _ = search_rates(lambda rate: system.probe(rate, 2, 10, 1000).why_not, limits)
        assert 0.93 * capacity <= result.rate <= 1.03 * capacity
        assert "the backlog grows" in result.why or "latency p99" in result.why

    def test_a_stall_in_one_probe_is_tried_again(self):
        """At 40,000/s it stands still for 1.5 s: the answers of that time are late, and the next try shows that it can."""
        system = Simulated(100_000, stalls=[None, None, (6.0, 1.5)])
        result, tried = search_rates(lambda rate: system.probe(rate, 1, 10, 1000).why_not, Limits(first=10_000, precision=0.1))
        assert [each.rate for each in tried[:4]] == [10_000, 20_000, 40_000, 40_000]
        assert "latency p99" in tried[2].why_not
        assert 90_000 <= result.rate <= 103_000

    def test_a_limit_on_latency_alone(self):
        """It keeps up, but every answer takes 30 ms."""
        verdict = Simulated(100_000, delay_ms=30).probe(50_000, 1, 5, limit_ms=20)
        assert verdict.why_not == "latency p99 35 ms is over 20 ms", "5 ms of it is the group of records that it came with"
        assert verdict.rise == pytest.approx(0, abs=1e-6)
