"""What users import in their own tests."""

from twice.testing.checking import check
from twice.testing.steps import run

__all__ = ["check", "run"]
