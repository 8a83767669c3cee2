"""A whole cluster in one thread, under a schedule that a seed draws; see `docs/simulation.md`."""
