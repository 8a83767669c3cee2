"""The table of bars: what the engine is measured by, in alternating pairs. `benchmarks/README.md` says how to read it."""
