"""Where tuples leave a subquery: balancers, buffers, files."""
