"""`twice audit`: read jobs that others wrote, and say what breaks when they run twice."""
