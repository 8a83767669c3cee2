"""Rows on the command line: files that are published, streams that are looked at."""
