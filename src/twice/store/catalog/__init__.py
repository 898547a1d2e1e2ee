"""Tables of a catalog that Spark already knows: read, never written."""
