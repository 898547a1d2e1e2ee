"""What is done to tables beside a run: undo, rebuild, swap a shadow in, maintain, accept."""
