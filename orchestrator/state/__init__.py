"""What should be true: the pure core of the orchestrator."""
