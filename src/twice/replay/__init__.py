"""Where a number came from: a recorded run is rebuilt from its pinned inputs and code, and compared with its record.

Nothing is claimed, staged, published or recorded: what is rebuilt is held by Spark until the process ends.
"""
