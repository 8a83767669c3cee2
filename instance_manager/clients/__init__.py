"""Clients of the instances here: publishers and subscribers, what they say, and what becomes of those that are silent or move."""
