"""Several partitions in one job: which steps allow it, and the check that it makes no difference."""
