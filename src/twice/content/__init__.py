"""What a table holds, as Spark expressions: surrogate keys, row hashes, content digests."""
