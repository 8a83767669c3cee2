"""Every record as it came, dealt out anew: any instance that reads hands its records to all that write, in turn."""

from __future__ import annotations

from hibench.workloads.identity import COLUMNS, RECORD, copied, records
from hibench.workloads.workload import CREATION, Workload

REPARTITION = Workload(
    name="repartition",
    balancer="round-robin",
    line="every record is read, dealt out in turn to all instances, and written",
    behind="write",
    query=lambda visits, terms: copied("repartition", "round-robin", visits),
    shape=lambda terms: RECORD,
    expected=records,
    columns=COLUMNS,
    created=CREATION,
    in_files=True,
    events=4_000_000,
)
