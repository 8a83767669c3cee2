"""Every record as it came, dealt out anew: any instance that reads hands its records to all that write, in turn."""

from __future__ import annotations

from dataclasses import replace

from hibench.workloads.identity import IDENTITY, copied

REPARTITION = replace(
    IDENTITY,
    name="repartition",
    balancer="round-robin",
    line="every record is read, dealt out in turn to all instances, and written",
    query=lambda visits, terms: copied("repartition", "round-robin", visits),
)
