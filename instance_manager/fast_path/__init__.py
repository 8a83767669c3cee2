"""The fast path of small messages through instances that only pass tuples on."""
