"""What users import in their own tests."""

from twice.testing.steps import run

__all__ = ["run"]
