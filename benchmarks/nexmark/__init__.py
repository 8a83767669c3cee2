"""Nexmark: its events, its queries with our builder and in SQL, and how they are measured."""
