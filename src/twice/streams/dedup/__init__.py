"""How repeats are kept out of a table, one module per level."""
