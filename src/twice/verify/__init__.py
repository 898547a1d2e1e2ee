"""Run a pipeline in a sandbox, twice, shuffled, killed and at once, and report which promises hold, with evidence."""
