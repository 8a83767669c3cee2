"""Connectors by REST: for users, and for the processes that run them."""
