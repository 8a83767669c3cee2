"""REST: routes, models, documents, the gateway behind it."""
