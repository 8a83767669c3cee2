"""What happens at a Barrier: buckets move, an instance moves, a checkpoint is written."""
