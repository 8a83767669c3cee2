"""What UPM-CEP's paper reports of this benchmark, to stand beside a run: its figures, on its machine.

Patiño-Martínez and Azqueta, "Data Streaming for Appliances", CLOSER 2019, section 5 and Figure 13: the Fixed Window query, its load
raised until no more is handled, with and without NUMA awareness. Only what its text says in numbers is here.
"""

from __future__ import annotations

from dataclasses import dataclass

WORKLOAD = "fixed-window"
SOURCE = "M. Patiño-Martínez and A. Azqueta, “Data Streaming for Appliances”, CLOSER 2019, section 5 and Figure 13"
MACHINE = "Bullion S16: Intel processors, 18 cores for each NUMA node, distances 10 (own), 15 and 40"
CORES_PER_NODE = 18


@dataclass(frozen=True)
class PaperThroughput:
    """Tuples a second on `nodes` NUMA nodes, and the gain by NUMA awareness, as the text has it."""

    nodes: int
    unaware: int
    aware: int
    gain_percent: int

    @property
    def cores(self) -> int:
        return self.nodes * CORES_PER_NODE


FIGURE_13 = (
    PaperThroughput(1, 570_000, 670_000, 18),
    PaperThroughput(4, 2_630_000, 3_150_000, 19),
    PaperThroughput(8, 4_900_000, 6_170_000, 26),
)
