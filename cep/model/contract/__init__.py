"""What every description of its kind answers, and what these answers are made of."""
