"""Plain Parquet in Hive-style folders: partitions are swapped by renames that a log of its own decides."""
