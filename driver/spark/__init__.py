"""The second engine: a Query as a Structured Streaming DataFrame of Spark. docs/spark.md says what carries over."""
