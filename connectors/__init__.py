"""Ways in and out: what brings rows to streams and takes answers away, in processes of its own (docs/connectors.md)."""
