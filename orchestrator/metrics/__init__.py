"""The metric server, and what is asked of it."""
