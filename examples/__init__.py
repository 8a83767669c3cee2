"""Small applications, each a file that is read from top to bottom and run: `python examples/fraud.py`. Each has a page in docs/examples."""
