"""Pipelines to read, run and break: `shop` is the safe reference, `unsafe` what it replaces."""
