"""Iceberg: a branch both holds the staged rows and is the fence; publish is metadata only."""
