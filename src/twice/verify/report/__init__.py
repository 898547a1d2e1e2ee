"""What a verification found: for a terminal, as JUnit XML, and as one HTML page."""
