"""Declared applications: a file says which streams and queries there are to be, and the cluster is made so. docs/applications.md."""
