"""The mutants of catalogue.yml: an edit of the shop's pipeline each, and who must find it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

CONTRACT = "contract"
REFUSED = "refused"
# What the mutants import beside what the shop does.
IMPORTS = """import os
import time
from datetime import datetime

import company
from pyspark.sql import Window as Rows
from twice import InsertOnly, hours
from twice.effects import Retry
"""


@dataclass(frozen=True)
class Mutant:
    """One edit of examples/shop/pipeline.py."""

    name: str
    caught: str
    old: str
    new: str
    steps: tuple[str, ...] = ("orders",)
    # How what is said begins: the class of the error with which a run refuses it, or a refusal within a check.
    error: str = ""
    # What the run is for, as `--set` gives it.
    dimensions: Mapping[str, str] = field(default_factory=dict)

    def edit(self, text: str) -> str:
        """Return the pipeline with the fault in it."""
        for old, new in (("import os\n", IMPORTS), (self.old, self.new)):
            assert text.count(old) == 1, f"{self.name}: its place occurs {text.count(old)} times"
            text = text.replace(old, new)
        return text


def _read() -> tuple[Mutant, ...]:
    found = yaml.safe_load(Path(__file__).with_suffix(".yml").read_text())
    return tuple(Mutant(**{**each, "steps": tuple(each.get("steps", ("orders",)))}) for each in found)


MUTANTS = _read()
