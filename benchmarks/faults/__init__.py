"""Clusters under faults, for as long as one likes."""
