"""Aggregates as machine code: what a function remembers of a group, tables of groups, answers."""
