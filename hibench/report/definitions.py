"""What the words of a report mean."""

from __future__ import annotations

from hibench.report.terminal import IN_FILES, LAST_ONLY, SPARK_REPORT_DEFINITION

DEFINITIONS = (
    (
        "throughput",
        "Records ÷ seconds. The clock of a run starts when its query is started over records that lie ready (read once; kernels "
        "compiled, sources held; Spark: the query compiled) and stops when the last answer has reached the client, or its file: "
        "identity, repartition and wordcount, which answer every record, write text files on both engines. At a given rate it is "
        "bounded by that rate.",
    ),
    (
        "throughput per node",
        "Throughput ÷ NUMA nodes that the run used: those that its instance managers are bound to; all nodes of the machine where nothing "
        "is bound.",
    ),
    (
        "latency",
        "Mode paper: from the scheduled creation of a record to the delivery of its answer at the client; of windows, of the record that "
        "lets the window close (the first with event time ≥ its end + disorder), for every answer. Records are sent on schedule whatever "
        "the engine does. Mode faithful, as HiBench has it: from the creation of a record to the report of the last operator, once for "
        "every record; of a window from the creation of the earliest record of its key, so up to the length of the window of it is "
        "waiting. Spark reads its clock once for a micro-batch, at its beginning, so its report is the answer's arrival at the client. "
        "Less than 0, if clocks disagree, is 0.",
    ),
    ("latency on Spark", SPARK_REPORT_DEFINITION),
    (
        "percentiles",
        "Exact, over all answers, weighted by the number of answers that a sample stands for; linear between two answers. p99: 99 of 100 "
        "answers were no later.",
    ),
    ("CPU seconds", "User and system time of all processes of the engine and of the client, within the run's clock."),
    (
        "CPU by step",
        "CPU time of an instance manager's engine thread, charged to the step it worked for; the sum over the steps is that of the engine "
        "threads, not of their processes.",
    ),
    (
        "anonymous memory",
        "Memory that a process made itself (RssAnon): heap, stacks, arrays. Pages of files, libraries and the page cache are left out. Its "
        "peak is that of the sum over all processes.",
    ),
    ("pages", "Where the kernel has put a process's memory: pages at each NUMA node, at the end of the run."),
    (
        "completeness",
        "Of a window: the records that its answers count ÷ the records that belong to it; and its answers ÷ the answers expected. A window "
        "is complete where both are whole.",
    ),
    (
        "answers equal",
        "The run gave the same rows, as often, as a reference computed from the records apart from both engines; times of emission are "
        "outside. Of running counts Spark gives the last of each key in a micro-batch, so of its answers the last of each key is compared. "
        "Of a run whose answers differ, nothing measured counts.",
    ),
    ("answers in files", IN_FILES),
    ("running counts", LAST_ONLY),
)
