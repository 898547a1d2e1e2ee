"""The output formats of an audit."""
