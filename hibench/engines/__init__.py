"""A workload on an engine: ours, or Spark."""
