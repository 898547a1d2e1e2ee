"""Reads of a database: versions, fingerprints, and rows on their way into Spark."""
