"""Mutants of the shop: one fault each, and the check that must find it."""
