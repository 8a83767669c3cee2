"""Operators at work, one file each, and what all of them promise."""
