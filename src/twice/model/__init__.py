"""Windows, grains, scopes, tables, steps and pipelines: pure Python, no Spark."""
