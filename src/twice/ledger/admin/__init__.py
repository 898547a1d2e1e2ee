"""Prune, back up, check and move a ledger."""
