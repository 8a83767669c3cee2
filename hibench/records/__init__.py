"""The records: made by Spark, cached, read."""
