"""Maps and Filters one behind the other: expressions as compiled loops, with Arrow between them."""
