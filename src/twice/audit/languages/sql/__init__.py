"""SQL of every dialect that sqlglot reads, and a reading by tokens for the rest."""
