"""Fifty selects x * 0.5 + 1.0 by Spark, one after the other, over numbers that it makes itself; the second of two runs.

`python -m benchmarks.measured.maps_spark [--records N]`
"""

from __future__ import annotations

import argparse
import time

from benchmarks.measured.maps import MAPS
from benchmarks.metering import say
from hibench.engines.spark import local_spark


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=10_000_000)
    asked = parser.parse_args()
    with local_spark(1) as spark:
        numbers = spark.session.range(asked.records).selectExpr("cast(id as double) as x")
        for _ in range(MAPS):
            numbers = numbers.selectExpr("x * 0.5 + 1.0 as x")
        for _ in range(2):
            start = time.perf_counter()
            numbers.write.format("noop").mode("overwrite").save()
            wall_s = time.perf_counter() - start
    say(records=asked.records, wall_s=wall_s, records_per_s=asked.records / wall_s)


if __name__ == "__main__":
    main()
