"""Kernels of keys and tables: two words a key, hashing, groups, partitioning."""
