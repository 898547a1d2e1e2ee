"""The forms in which an audit is told."""
