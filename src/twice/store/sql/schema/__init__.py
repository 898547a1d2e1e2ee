"""Tables of a database: their columns, the bookkeeping tables of claims and versions, conditions and checks."""
