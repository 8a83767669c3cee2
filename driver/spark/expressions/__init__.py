"""Expressions of the model as Columns of Spark: a file for the values of each type, and what is refused."""
