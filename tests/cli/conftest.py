"""A project in a folder of its own, and the command line called in this process."""

from __future__ import annotations

import itertools
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli.story import Story
from twice import config as configuration
from twice.cli.app import run_command
from twice.loading import find_pipeline

_numbers = itertools.count(1)

MODULE = """
from twice import Day, Merge, Overwrite, Pipeline, Table

shop = Pipeline("shop", grain=Day)
raw = Table("lake.raw.orders", partition=Day("d"), key=["id"], write=Overwrite(), dimensions=["tenant"])
facts = Table("lake.core.facts", partition=Day("d"), key=["id"], write=Overwrite(), dimensions=["tenant"])
people = Table("lake.core.people", key=["id"], write=Merge(version="v"))

@shop.extract(writes=raw)
def orders(window):
    yield {"id": 1}

@shop.step(reads={"raw": raw, "people": people.latest()}, writes=facts)
def build(raw, people):
    return raw

@shop.step(reads={"raw": raw}, writes=people)
def merge(raw):
    return raw

not_a_pipeline = 7
"""


@dataclass
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Project:
    """A folder with a twice.toml and one module of pipelines."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.capsys = capsys
        # Python imports a module once per process, so each test has its own.
        self.module = f"jobs_of_test_{next(_numbers)}"
        self.code(MODULE)
        self.toml()

    def code(self, text: str, name: str | None = None) -> None:
        (self.folder / f"{name or self.module}.py").write_text(text)

    def toml(self, extra: str = "", pipelines: str = "") -> None:
        text = f'{extra}\n[pipelines]\nshop = "{self.module}:shop"\n{pipelines}\n'
        (self.folder / "twice.toml").write_text(text)

    @property
    def ledger(self) -> Path:
        return self.folder / ".twice" / "ledger.db"

    def story(self) -> Story:
        """Return the history of the project's own pipeline, to be told."""
        return Story(f"sqlite:///{self.ledger}", find_pipeline(configuration.load(), "shop"))

    def call(self, *arguments: str) -> Answer:
        self.capsys.readouterr()
        code = run_command(arguments)
        said = self.capsys.readouterr()
        return Answer(code, said.out, said.err)


@pytest.fixture
def project(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delenv("TWICE_PROFILE", raising=False)
    return Project(tmp_path, capsys)


@pytest.fixture
def story(tmp_path):
    return Story(f"sqlite:///{tmp_path}/ledger.db")
