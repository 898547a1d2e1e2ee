"""Iceberg: a branch is both the stage and the fence; publish is metadata only."""
