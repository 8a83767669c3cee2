"""Whether a rate was sustained, judged by the latencies of one probe."""

import numpy as np
import pyarrow as pa
import pytest

from hibench.searching.steady import Stretch, judged


class TestVerdict:
    STRETCH = Stretch(1_000_000, 4_000_000)

    @staticmethod
    def table(created_ms, latency_ms, answers=1):
        created = np.asarray(created_ms, np.int64) * 1000
        delivered = created + (np.asarray(latency_ms) * 1000).astype(np.int64)
        return pa.table({"created_us": created, "delivered_us": delivered, "answers": np.full(len(created), answers)})

    def test_a_backlog_that_grows(self):
        """
        ms of latency
        400 |                    x       created second by second; a fifth of the time is lost:
        200 |          x                 of 1,200/s only 1,000/s are worked off
            +---------------------- s
        """
        created = np.arange(0, 5000, 10)
        verdict = judged(self.table(created, created * 0.2), self.STRETCH, 1200, limit_ms=10_000)
        assert verdict.rise == pytest.approx(0.2)
        assert verdict.why_not == "the backlog grows: 1,000/s of 1,200/s were worked off"

    def test_the_last_third_is_held_against_the_first(self):
        """
        ms of latency
        305 |                    ______  it falls behind in the last third; what the second third was like is not asked
          5 |______________x____|
        """
        created = np.arange(0, 5000, 10)
        for middle in (5, 305, 9_000):
            late = np.where(created < 2000, 5, np.where(created < 3000, middle, 305))
            verdict = judged(self.table(created, late), self.STRETCH, 1000, limit_ms=10_000)
            assert verdict.rise == pytest.approx(0.15)

    def test_what_is_before_and_behind_the_stretch_does_not_count(self):
        created = np.arange(0, 5000, 10)
        slow = np.where((created < 1000) | (created >= 4000), 9_000, 5)
        verdict = judged(self.table(created, slow, answers=3), self.STRETCH, 100, limit_ms=100)
        assert (verdict.why_not, verdict.p50_ms, verdict.p99_ms) == ("", 5, 5)
        assert verdict.answers == 900

    def test_a_small_rise_is_noise(self):
        created = np.arange(0, 5000, 10)
        assert judged(self.table(created, 5 + created * 0.02), self.STRETCH, 100, limit_ms=1000).why_not == ""

    def test_answers_weigh(self):
        table = pa.concat_tables([self.table([2000], [500], answers=1), self.table([2001], [5], answers=99)])
        assert judged(table, self.STRETCH, 100, limit_ms=100).p99_ms == 5
        table = pa.concat_tables([self.table([2000], [500], answers=2), self.table([2001], [5], answers=98)])
        assert judged(table, self.STRETCH, 100, limit_ms=100).why_not == "latency p99 500 ms is over 100 ms"

    def test_no_answers_is_no_success(self):
        verdict = judged(self.table([10], [5]), self.STRETCH, 100, limit_ms=100)
        assert verdict.why_not == "nothing that was created in the steady stretch was answered"
