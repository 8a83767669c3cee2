"""So that queries can go on elsewhere: pieces of checkpoints, and what is kept until a commit covers it."""
