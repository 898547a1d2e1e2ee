"""docs/api.md says what the docstrings say, about every exported name; and every example of a docstring runs."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

import twice
from tests import api_docs

SOURCE = Path(twice.__file__).parent
BLOCKS = re.findall(r"^```pycon\n(.*?)^```", api_docs.page(), re.MULTILINE | re.DOTALL)
MODULES = sorted(
    ".".join(file.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")
    for file in SOURCE.rglob("*.py")
    if re.search(r"^ *>>> ", file.read_text(encoding="utf-8"), re.MULTILINE) and "templates" not in file.parts
)


def test_the_page_is_current():
    assert api_docs.PAGE.read_text(encoding="utf-8") == api_docs.page(), "run `make docs-api`"


def test_every_exported_name_has_its_place_once():
    assert api_docs.listed() == sorted(twice.__all__)


def test_the_first_example_of_the_page_is_the_session_that_is_run_with_spark():
    assert [line for line in BLOCKS[0].splitlines() if "twice.run(" in line]
    assert len(BLOCKS) > 8


@pytest.mark.parametrize("block", BLOCKS[1:], ids=range(1, len(BLOCKS)))
def test_the_examples_of_the_page_run(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {name: getattr(twice, name) for name in twice.__all__}
    doctest.DebugRunner().run(doctest.DocTestParser().get_doctest(block, names, "docs/api.md", None, None))


@pytest.mark.parametrize("name", [name for name in MODULES if name != "twice"])
def test_the_examples_of_a_module_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = doctest.testmod(importlib.import_module(name), raise_on_error=True)
    assert done.attempted > 0
