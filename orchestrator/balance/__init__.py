"""What should move, by the figures of the metric server."""
