"""The second engine: a Query as a Structured Streaming DataFrame of Spark. docs/SPARK.md says what carries over."""
