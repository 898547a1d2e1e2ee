"""Tables of a database: their columns, what a claim and a version are noted in, conditions and checks."""
