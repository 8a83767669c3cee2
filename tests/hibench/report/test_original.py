"""HiBench's own reports: as it writes and reads them."""

from dataclasses import replace

from hibench.report.original import CSV_HEADER, append_csv, append_report, benchmark_type
from tests.hibench.report.test_page import SPARK, run
from tests.support.run_records import RESULT


def test_the_csv_is_the_originals(tmp_path):
    file = tmp_path / "latency.csv"
    append_csv(file, [run(), SPARK])
    append_csv(file, [run(), replace(run(), latency=None)])
    header, *rows = file.read_text().splitlines()
    assert header == (
        "time,count,throughput(msgs/s),max_latency(ms),mean_latency(ms),min_latency(ms),stddev_latency(ms),p50_latency(ms),"
        "p75_latency(ms),p95_latency(ms),p98_latency(ms),p99_latency(ms),p999_latency(ms)"
    )
    assert header == CSV_HEADER
    assert len(rows) == 3
    assert rows[0] == "Sun Nov 22 01:12:03 UTC 2026,80,26,40.000,20.500,1.000,11.612,20.000,30.000,38.000,39.200,39.600,39.960"


def test_hibench_report_has_the_originals_columns_and_real_figures(tmp_path):
    file = tmp_path / "hibench.report"
    append_report(file, [run()])
    append_report(file, [SPARK])
    header, comment, row, *_ = file.read_text().splitlines()
    assert header == "Type         Date       Time     Input_data_size      Duration(s)          Throughput(bytes/s)  Throughput/node     "
    assert "divided by 2 NUMA nodes" in comment
    assert comment.startswith("# ")
    assert row.split() == ["CepFixWindow", "2026-11-22", "01:12:03", "600000", "3.000", "200000", "100000"]
    read = [line.split() for line in file.read_text().splitlines()[1:] if line.strip() and not line.startswith("#")]
    assert [(words[0], int(words[3]), float(words[4]), int(words[5])) for words in read] == [  # as the original's plotting reads it
        ("CepFixWindow", 600_000, 3.0, 200_000),
        ("SparkStructuredStreamingFixWindow", 600_000, 3.0, 200_000),
    ]


def test_types_of_runs_are_called_as_hibench_does():
    assert benchmark_type(run(workload="wordcount", result=replace(RESULT, numa="off"))) == "CepUnboundWordCount"
    assert benchmark_type(run(workload="identity")) == "CepIdentity"
