"""Joins at work: over windows, intervals, and as of a time."""
