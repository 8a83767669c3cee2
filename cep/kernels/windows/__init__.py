"""Kernels that assign rows to windows, as programs over slots."""
