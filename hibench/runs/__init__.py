"""A run: its answers, what is expected, its figures, its record."""
