"""`twice audit`: read existing jobs, and report what breaks when they run twice."""
