"""SQL: a text becomes the query that the builder makes. Nothing of the engine knows SQL; `docs/features/sql.md` is the page.

Its name is longer than `sql`, which is the function's that programs call: a package of that name would hide it.
"""
