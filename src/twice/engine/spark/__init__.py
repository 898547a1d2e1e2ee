"""The Spark of a run: session, jars, job groups, metrics, interrupts."""
