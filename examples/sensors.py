"""Readings that are more than three sigma off what the same sensor showed in its last ten minutes, with the place of the sensor.

python3 bootstrap.py python examples/sensors.py
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

from numa_cep import TRAILING, LocalCluster, Query, avg, col, count, event, lag, row, sql, stddev, stream

Row = dict[str, Any]


def query() -> Query:
    readings = stream("readings", sensor=str, value=float, at="timestamp[ms]", event_time="at", disorder="2s")
    # said once for each sensor, and again when something changes: nothing waits for the next time
    sensors = stream(
        "sensors", sensor=str, place=str, in_service=bool, since="timestamp[ms]", event_time="since", disorder="0s", idle_after="1s"
    )
    return (
        Query("sensors")
        .source(readings)
        .over("ten_minutes", TRAILING("10m"), by="sensor", n=count(), mean=avg("value"), sigma=stddev("value"))
        # the ten minutes that end with the reading before: a reading is not measured by itself
        .over("before", TRAILING(rows=2), by="sensor", ttl="10m", known=lag("n"), usual=lag("mean"), spread=lag("sigma"))
        .filter("off", (col("known") >= 30) & ((col("value") - col("usual")).abs() > 3 * col("spread")))
        .as_of_join("described", sensors, on="sensor", how="left", prefix="its_")
        .filter("in_service", col("its_in_service").fill_null(True))
        .map(
            "alarm",
            sensor=col("sensor"),
            place=col("its_place"),
            at=col("at"),
            value=col("value"),
            usual=col("usual"),
            spread=col("spread"),
        )
        .output("alarms")
    )


def as_pattern() -> Query:
    readings = stream("readings", sensor=str, value=float, at="timestamp[ms]", event_time="at", disorder="2s")
    sensors = stream(
        "sensors", sensor=str, place=str, in_service=bool, since="timestamp[ms]", event_time="since", disorder="0s", idle_after="1s"
    )
    before, off = row("before"), row("off")
    too_far = event("before", col("n") >= 30).next(event("off", (col("value") - before["mean"]).abs() > 3 * before["sigma"]))
    told = {"at": off["at"], "value": off["value"], "usual": before["mean"], "spread": before["sigma"]}
    return (
        Query("sensors")
        .source(readings)
        .over("ten_minutes", TRAILING("10m"), by="sensor", n=count(), mean=avg("value"), sigma=stddev("value"))
        .pattern("off", too_far, by="sensor", within="10m", after="to_next", measures=told)
        .as_of_join("described", sensors, on="sensor", how="left", prefix="its_")
        .filter("in_service", col("its_in_service").fill_null(True))
        .map("alarm", {name: col(name) for name in ("sensor", *told)}, place=col("its_place"))
        .output("alarms")
    )


#: The same as SQL: `cep sql -f` takes such a file.
SQL = """
CREATE STREAM readings (sensor VARCHAR NOT NULL, value DOUBLE NOT NULL, at TIMESTAMP(3),
    WATERMARK FOR at AS at - INTERVAL '2' SECOND);
CREATE STREAM sensors (sensor VARCHAR NOT NULL, place VARCHAR NOT NULL, in_service BOOLEAN NOT NULL, since TIMESTAMP(3),
    WATERMARK FOR since AS since)
    WITH (idle_after = '1s');
CREATE SINK alarms WITH (connector = 'stream');
INSERT INTO alarms
SELECT f.sensor, s.place, f.at, f.value, f.usual, f.spread FROM (
    SELECT sensor, value, at, count(*) OVER minutes AS n, avg(value) OVER minutes AS mean, stddev(value) OVER minutes AS sigma FROM readings
    WINDOW minutes AS (PARTITION BY sensor ORDER BY at RANGE BETWEEN INTERVAL '10' MINUTE PRECEDING AND CURRENT ROW)
) MATCH_RECOGNIZE (
    PARTITION BY sensor ORDER BY at MEASURES off.at AS at, off.value AS value, quiet.mean AS usual, quiet.sigma AS spread
    AFTER MATCH SKIP TO NEXT ROW PATTERN (quiet off) WITHIN INTERVAL '10' MINUTE
    DEFINE quiet AS n >= 30, off AS abs(value - quiet.mean) > 3 * quiet.sigma
) AS f ASOF LEFT JOIN sensors s ON f.sensor = s.sensor AND f.rowtime >= s.since
WHERE coalesce(s.in_service, TRUE);
"""


def as_sql() -> Query:
    return sql(SQL, name="sensors")


def made_up(seed: int = 1) -> dict[str, list[Row]]:
    """An hour of five sensors: two have a spike, the pump is switched over and then out of service, the valve is not described."""
    draw, start = random.Random(seed), datetime(2024, 5, 1, 9, tzinfo=UTC)
    usual = {"boiler": 61.0, "door": 18.0, "pump": 40.0, "tank": 12.0, "valve": 25.0}
    changes = {"boiler": (150, 151, 4.0), "pump": (120, 360, -3.0), "valve": (290, 291, -2.5)}  # from reading, to reading, by how much

    def value(sensor: str, number: int) -> float:
        begin, end, change = changes.get(sensor, (0, 0, 0.0))
        broken = 20.0 if (sensor, number) == ("pump", 300) else 0.0
        return round(usual[sensor] + draw.uniform(-0.5, 0.5) + change * (begin <= number < end) + broken, 2)

    readings = [
        {"sensor": sensor, "value": value(sensor, number), "at": start + timedelta(seconds=10 * number + place)}
        for number in range(360)
        for place, sensor in enumerate(usual)
    ]
    places = {"boiler": "cellar", "door": "hall", "pump": "cellar", "tank": "yard"}
    sensors = [{"sensor": sensor, "place": place, "in_service": True, "since": start} for sensor, place in places.items()]
    sensors.append({"sensor": "pump", "place": "workshop", "in_service": False, "since": start + timedelta(minutes=40)})
    return {"sensors": sensors, "readings": readings}


def report(alarms: list[Row]) -> str:
    found = sorted(alarms, key=lambda alarm: (alarm["at"], alarm["sensor"]))
    return "\n".join(
        f"{a['at']:%H:%M:%S}  {a['sensor']:<6} {a['value']:.2f}, usually {a['usual']:.2f} ± {a['spread']:.2f}  ({a['place'] or 'unknown'})"
        for a in found
    )


def main() -> None:
    sensors, readings = made_up().values()
    changed = sensors[-1]["since"]
    with LocalCluster() as cluster:
        alarms = cluster.deploy(query()).subscribe("alarms")
        with cluster.publisher("sensors") as described, cluster.publisher("readings") as out:
            described.send(sensors[:-1])
            out.send([row for row in readings if row["at"] < changed])
            described.send(sensors[-1])
            out.send([row for row in readings if row["at"] >= changed])
        print(report([alarm for batch in alarms for alarm in batch.to_pylist()]))


if __name__ == "__main__":
    main()
