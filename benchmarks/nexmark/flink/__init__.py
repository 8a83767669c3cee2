"""Nexmark's queries in Flink's SQL, and the program that runs them."""
