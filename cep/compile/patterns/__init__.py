"""Patterns at work: conditions as machine code, and the ways through a pattern."""
