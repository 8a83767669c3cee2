"""Patterns at work: the operator, what comes out of it, and its snapshots."""
