"""The workloads, each in a file of its own."""

from hibench.workloads.broadcast import BROADCAST
from hibench.workloads.fixed_window import FIXED_WINDOW
from hibench.workloads.identity import IDENTITY
from hibench.workloads.repartition import REPARTITION
from hibench.workloads.wordcount import WORDCOUNT

WORKLOADS = {workload.name: workload for workload in (IDENTITY, REPARTITION, WORDCOUNT, FIXED_WINDOW, BROADCAST)}
