"""From frozen descriptions to machine code: text records, stateless chains, aggregates."""
