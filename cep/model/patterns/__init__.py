"""What a pattern is made of, and what follows from it."""
