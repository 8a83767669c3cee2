"""Kernels of what functions remember: exact sums, lists, registers, squares."""
