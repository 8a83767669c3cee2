"""Rows in the forms that people and small clients have them in: JSON, files, lines of a terminal."""
