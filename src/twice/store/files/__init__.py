"""CSV, JSON and Parquet files that another system lands: read, never written."""
