"""Instants as text: in ISO 8601, and in formats of the query's own."""
