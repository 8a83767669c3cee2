"""A configuration file of the original HiBench: what of it counts, and what is said of the rest."""

import pytest

from hibench import settings
from hibench.options import Pace
from tests.hibench.test_options import asked_of
from tests.support.hibench_command import hibench

CONFIG = """
# the original's
hibench.streambench.testCase              fixwindow
hibench.streambench.fixWindowDuration     4000
hibench.streambench.fixWindowSlideStep=2000
hibench.streambench.datagen.intervalSpan  20
hibench.streambench.datagen.recordsPerInterval 10
hibench.streambench.datagen.totalRecords  -1
hibench.streambench.datagen.totalRounds   -1
hibench.streambench.datagen.producerNumber
hibench.streambench.zkHost
hibench.streambench.kafka.brokerList      a:9092,b:9092
hibench.streambench.storm.ackon           true
hibench.streambench.spark.batchInterval   100
"""


def test_a_configuration_file_stands_behind_what_was_typed(capsys, monkeypatch, tmp_path):
    file = tmp_path / "hibench.conf"
    file.write_text(CONFIG)
    (asked,) = asked_of(capsys, monkeypatch, "run", "--config", str(file), "--mode", "faithful", "--slide", "1s")
    assert (asked.workload.name, asked.window_ms, asked.slide_ms) == ("fixed-window", 4_000, 1_000)
    assert asked.pace == Pace(500, burst=10, reports=True)
    (paper,) = asked_of(capsys, monkeypatch, "run", "fixed-window", "--config", str(file))
    assert (paper.pace, paper.slide_ms) == (None, 2_000)


def test_what_a_configuration_file_says_is_told(tmp_path):
    file = tmp_path / "hibench.conf"
    file.write_text(CONFIG)
    found = settings.read_settings(file, faithful=True)
    assert "hibench.streambench.fixWindowDuration 4000 (--window 4000ms)" in found.applied
    assert "the keys of the sender together (--rate 500 --burst 10)" in found.applied
    told = {line.partition(": ")[0].removeprefix("hibench.streambench."): line for line in found.ignored}
    assert "no Kafka" in told["kafka.brokerList"]
    assert "not run here" in told["storm.ackon"]
    assert "--events" in told["datagen.totalRecords"]
    assert {"zkHost", "spark.batchInterval", "datagen.totalRounds", "datagen.producerNumber"} <= told.keys()
    assert "--mode faithful" in "".join(settings.read_settings(file, faithful=False).ignored)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "hibench.streambench.fixWindowDurations 10",
            "line 2: unknown key 'hibench.streambench.fixWindowDurations'; "
            "the nearest that is known is 'hibench.streambench.fixWindowDuration'",
        ),
        (
            "hibench.streambench.fixWindowDuration ten",
            "line 2: hibench.streambench.fixWindowDuration: expected a whole number of at least 1, got 'ten'",
        ),
        ("hibench.streambench.testCase grep", "line 2: hibench.streambench.testCase: expected one of identity"),
        ("hibench.engines.spark.master yarn-client", "expected local[N] or spark://host:port"),
        ("no-key-at-all", "unknown key 'no-key-at-all'"),
    ],
)
def test_a_wrong_line_is_named(capsys, tmp_path, line, message):
    file = tmp_path / "hibench.conf"
    file.write_text(f"# a comment\n{line}\n")
    code, text = hibench(capsys, "run", "identity", "--config", str(file))
    assert code == 2
    assert message in text
    assert "hibench.conf" in text
