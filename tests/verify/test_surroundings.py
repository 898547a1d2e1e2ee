"""An environment that answers otherwise does so for the project's own code, and only for a time."""

from __future__ import annotations

import os
import shutil
from os import environ
from pathlib import Path

from twice.verify.surroundings import other_answers


def test_the_project_gets_other_answers_and_libraries_do_not(monkeypatch):
    monkeypatch.setenv("SHOP_REGION", "eu")
    monkeypatch.setenv("COLUMNS", "66")
    asked: set[str] = set()
    with other_answers(asked):
        inside = environ["SHOP_REGION"], os.getenv("SHOP_LIMIT"), "SHOP_FLAG" in os.environ
        expanded, home, path = os.path.expandvars("$SHOP_REGION"), str(Path.home()), os.environ["PATH"]
        # A module that is not of the project asks for itself.
        columns = shutil.get_terminal_size()
    # Also what is not set has an answer; what the other process has of its own, and what programs need, is as it is.
    assert inside == ("another SHOP_REGION", "another SHOP_LIMIT", True)
    assert (expanded, home, path) == ("another SHOP_REGION", str(Path.home()), os.environ["PATH"])
    assert columns.columns == 66
    assert asked == {"SHOP_REGION", "SHOP_LIMIT", "SHOP_FLAG"}
    # Afterwards it is the environment again.
    assert (environ["SHOP_REGION"], os.getenv("SHOP_LIMIT"), "SHOP_FLAG" in os.environ) == ("eu", None, False)
    assert not hasattr(os.environ, "asked")
