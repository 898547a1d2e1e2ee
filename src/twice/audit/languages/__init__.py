"""Front ends: each turns one kind of file into the statement model."""
