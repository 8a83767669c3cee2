"""The formats that are shipped, by name."""
