"""The search for the highest rate that is sustained."""
