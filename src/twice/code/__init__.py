"""The code of a step, read as text: what it refers to in its own project, and which results no rerun can repeat."""
