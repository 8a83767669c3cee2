"""What is measured of a machine with several NUMA nodes."""
