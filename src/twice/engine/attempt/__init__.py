"""One step in one scope, tried once: `verbs` is where to start reading."""
