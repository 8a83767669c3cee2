"""What counts as worse: a difference beyond the noise of both groups."""

import pytest
from pyspark.sql import Row

from hibench.report.compare import NOISE_LEAST, NOISE_OF_ONE, _difference


def group(median, spread, runs=3, kind="latency"):
    return Row(figure="a", kind=kind, higher=False, median=median, spread=spread, runs=runs)


@pytest.mark.parametrize(
    ("first", "second", "noise"),
    [
        (group(100.0, 10.0), group(120.0, 30.0), 0.25),  # the greater of two spreads, whichever group has it
        (group(100.0, 30.0), group(120.0, 12.0), 0.3),
        (group(100.0, 0.0), group(120.0, 0.0), NOISE_LEAST),
        (group(100.0, 0.0, runs=1), group(120.0, 60.0), NOISE_OF_ONE["latency"]),
        (group(100.0, 50.0), group(120.0, 0.0, runs=1), NOISE_OF_ONE["latency"]),
        (group(0.0, 5.0), group(120.0, 12.0), 0.1),
        (group(100.0, 50.0, kind="completeness"), group(120.0, 0.0, kind="completeness"), 0.0),
    ],
)
def test_the_noise_is_that_of_the_noisier_group(first, second, noise):
    assert _difference([first, second], None).noise == pytest.approx(noise)
    assert _difference([first, second], 0.5).noise == (0.0 if first.kind == "completeness" else 0.5)


def test_worse_is_beyond_the_noise():
    first = group(100.0, 10.0)
    assert _difference([first, group(111.0, 10.0)], None).worse
    assert not _difference([first, group(109.0, 10.0)], None).worse
    assert not _difference([first, group(50.0, 1.0)], None).worse
