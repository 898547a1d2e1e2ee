"""What a step's code asks of the clock, of chance and of its process is found by reading it."""

from __future__ import annotations

import importlib
import itertools
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from twice.code.repeatability import Reading, read_code

_numbers = itertools.count(1)


class Modules:
    """Modules in a folder of their own, imported under names that no other test uses."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = f"project{next(_numbers)}"

    def read(self, step: str, /, *, environment: bool = False, **others: str) -> Reading:
        """Write the modules, import `step` and read its function of that name; NAME stands for the project."""
        package = self.folder / self.name
        package.mkdir()
        for file, text in {"__init__": "", "step": step, **others}.items():
            (package / f"{file}.py").write_text(textwrap.dedent(text).replace("NAME", self.name))
        importlib.invalidate_caches()
        module: Any = importlib.import_module(f"{self.name}.step")
        return read_code(module.step, environment=environment)

    def found(self, step: str, /, **others: Any) -> list[str]:
        """Return file, line, text and reason of each place."""
        places = self.read(step, **others).found
        return [f"{Path(each.file).name}:{each.line}: {each.text} {each.why}" for each in places]


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Modules:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return Modules(tmp_path)


@pytest.mark.parametrize(
    ("imports", "asked", "why"),
    [
        ("from datetime import datetime, timezone", "datetime.now(timezone.utc)", "reads the clock"),
        ("import datetime as dt", "dt.date.today()", "reads the clock"),
        ("import time", "time.time()", "reads the clock"),
        ("from time import time_ns", "time_ns()", "reads the clock"),
        ("import uuid", "uuid.uuid4()", "is random"),
        ("from uuid import uuid4 as fresh", "fresh()", "is random"),
        ("import random", "random.random()", "is random"),
        ("from random import choice", "choice([1, 2])", "is random"),
        ("import random", "random.Random()", "is random"),
        ("import secrets", "secrets.token_hex(8)", "is random"),
        ("import os", "os.environ", "depends on the process that runs it"),
        ("import os", "os.environ.get('STAGE')", "depends on the process that runs it"),
        ("from os import environ", "environ", "depends on the process that runs it"),
        ("import os", "os.getenv('STAGE')", "depends on the process that runs it"),
        ("import socket", "socket.gethostname()", "depends on the process that runs it"),
    ],
)
def test_what_a_step_must_not_ask_is_found_on_its_line(modules, imports, asked, why):
    step = f"{imports}\n\ndef step(rows):\n    value = {asked}\n    return rows, value\n"
    assert modules.found(step) == [f"step.py:4: {asked} {why}"]


@pytest.mark.parametrize(
    "body",
    [
        "return random.Random(7).random(), uuid.uuid5(uuid.NAMESPACE_URL, 'a')",
        "started = time.monotonic()\n    time.sleep(0)\n    return time.perf_counter() - started",
        "return datetime.fromtimestamp(0), time.localtime(0), datetime(2026, 4, 25).date()",
        "return STAGE",
        "return window.now(), rows.random(), rows.today",
        "datetime = rows\n    return datetime.now()",
        "return isinstance(rows, random.Random)",
    ],
)
def test_what_a_rerun_repeats_is_left_alone(modules, body):
    step = (
        "import os, random, time, uuid\nfrom datetime import datetime\n\n"
        f"STAGE = os.environ.get('STAGE', 'dev')\n\ndef step(rows, window=None):\n    {body}\n"
    )
    assert modules.found(step) == []


def test_what_the_step_calls_in_its_project_is_read_too(modules):
    step = """
        import functools
        from . import tools
        from NAME.keys import key
        from NAME.client import Client

        CLIENT = Client("a")
        def udf(function):                       # as Spark's: what it wraps is in .func
            def call(*arguments):
                return function(*arguments)
            call.func = function
            return call

        stamped = udf(lambda value: tools.stamp(value))

        @functools.cache
        def step(rows):
            def inner():
                return key(rows)
            return inner(), stamped(rows), CLIENT.fetch(), functools.partial(tools.half, 2)
    """
    found = modules.found(
        step,
        tools="""
            import time
            def stamp(value):
                return time.time()
            def half(n):
                return time.ctime()
            def unused():
                return time.time_ns()
        """,
        keys="""
            def key(rows):
                from uuid import uuid4
                return uuid4()
        """,
        client="""
            from datetime import datetime
            class Client:
                def __init__(self, name):
                    self.name = name
                def fetch(self):
                    return self._page()
                def _page(self):
                    return datetime.utcnow()
                def age(self):
                    return datetime.now()
        """,
    )
    assert found == [
        "client.py:9: datetime.utcnow() reads the clock",
        "keys.py:4: uuid4() is random",
        "tools.py:4: time.time() reads the clock",
        "tools.py:6: time.ctime() reads the clock",
    ]


def test_a_constant_that_asked_the_clock_at_import_is_found_where_it_asked(modules):
    step = """
        from datetime import date
        from NAME import settings
        from NAME.settings import RUN
        TODAY = date.today()
        UNUSED = date.today()
        def step(rows):
            return rows, TODAY, RUN, settings.STARTED, settings.STAGE
    """
    settings = """
        import os, time, uuid
        RUN = str(uuid.uuid4())
        STARTED = time.time()
        STAGE = os.environ.get("STAGE")
    """
    assert modules.found(step, settings=settings) == [
        "settings.py:3: uuid.uuid4() is random",
        "settings.py:4: time.time() reads the clock",
        "step.py:5: date.today() reads the clock",
    ]


def test_defaults_of_arguments_and_fields_are_found(modules):
    step = """
        from dataclasses import dataclass, field
        from datetime import datetime
        @dataclass
        class Row:
            at: datetime = field(default_factory=datetime.now)
        def step(rows, at=datetime.now()):
            return Row(), at
    """
    assert modules.found(step) == [
        "step.py:6: datetime.now reads the clock",
        "step.py:7: datetime.now() reads the clock",
    ]


def test_an_extract_may_look_at_the_environment_and_not_at_the_clock(modules):
    step = """
        import os, time
        def step(window):
            yield os.environ["API_KEY"], time.time()
    """
    assert modules.found(step, environment=True) == ["step.py:4: time.time() reads the clock"]


def test_an_instance_that_was_made_at_import_may_have_looked_at_the_environment(modules):
    step = """
        import os
        class Source:
            def __init__(self):
                self.stage = os.environ.get("STAGE")
            def fetch(self):
                return self.stage
        SOURCE = Source()
        def step(rows):
            return SOURCE.fetch()
    """
    assert modules.found(step) == []
    made_inside = step.replace("SOURCE.fetch()", "Source().fetch()")
    assert Modules(modules.folder).found(made_inside) == [
        "step.py:5: os.environ.get('STAGE') depends on the process that runs it"
    ]


def test_a_constant_that_is_made_from_itself_is_read_once(modules):
    step = """
        LIMITS = [1]
        LIMITS = LIMITS + [2]
        def step(window):
            return LIMITS
    """
    assert modules.found(step, environment=True) == []


def test_code_without_source_is_named(modules):
    step = """
        exec("def made(rows):\\n    return rows")
        def step(rows):
            from NAME.later import clean
            return clean(made(rows))
    """
    reading = modules.read(step, later="def clean(rows):\n    return rows\n")
    assert reading.found == ()
    assert reading.unread == (
        f"{modules.name}.later.clean, which is imported when the step runs",
        f"{modules.name}.step.made",
    )
