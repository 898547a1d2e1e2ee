"""Reprocess a range of partitions: planned, chunked, throttled, paused, killed and resumed."""
