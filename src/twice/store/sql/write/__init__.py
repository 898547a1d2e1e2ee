"""Writes to a database: rows staged beside a table, and published in one transaction."""
