"""The code of a step, read as text: what it refers to in its own project, and what of it no rerun can repeat."""
