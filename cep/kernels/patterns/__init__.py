"""The loops of patterns that know no condition."""
