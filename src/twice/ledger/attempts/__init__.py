"""Attempts: what was started, and how it ended."""
