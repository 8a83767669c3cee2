"""What a cluster is told, by flags, environment variables and a file: one table, and all that is made of it."""
