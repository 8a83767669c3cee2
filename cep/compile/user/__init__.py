"""Users' functions: found by name, called with rows or batches, their state kept."""
