"""Fetch the jars of the tests' Spark once: `python -m tests.support.jars`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.support.project import toml
from twice import config as configuration
from twice.engine import doctor


def main() -> None:
    """Fetch what is missing; does nothing when all is there."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "twice.toml"
        file.write_text(toml(folder))
        doctor.fetch(configuration.load(file))


if __name__ == "__main__":
    main()
