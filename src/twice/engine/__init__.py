"""Runs: claim, recover, stage, gate, publish, record."""
