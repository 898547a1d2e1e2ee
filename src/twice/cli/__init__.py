"""The command line: parse, call, print."""

from twice.cli.app import main

__all__ = ["main"]
