"""Queries as users write them."""
