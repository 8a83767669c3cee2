"""What the user asks for, as frozen values: types, expressions, windows, functions, operators, queries, topology."""
