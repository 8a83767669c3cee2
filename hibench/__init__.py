"""HiBench's streaming workloads on our engine and on Spark: prepare, run, compare."""
