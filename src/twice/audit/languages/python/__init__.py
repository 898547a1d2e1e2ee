"""Python: an interpreter that follows values instead of computing them."""
