"""REST: what a cluster did, and what a query would answer."""
