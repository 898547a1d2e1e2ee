"""The shop's jobs as they are often written: plain PySpark scripts that break when they run twice."""
