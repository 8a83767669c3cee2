"""What is measured, one row of the table each."""
