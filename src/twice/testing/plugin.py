"""The pytest plugin: fixtures, and `@pytest.mark.twice(…)`, which makes one test of each date and check.

pytest loads this module in every run of every project that has `twice` installed: it imports nothing but pytest until
one of its fixtures or its marker is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from twice.config import Config
    from twice.testing.marks import Trials
    from twice.verify.sandbox import Sandbox

_MARKER = (
    "twice(pipeline, dates, checks=None, steps=None): check the promises of a pipeline, one test for each date and "
    "check; without checks, all that `twice verify --list` names"
)
# The fixture by which a test of the marker gets its date and check.
_CHECK = "_twice_check"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the plugin's options."""
    group = parser.getgroup("twice", "twice: pipelines that are safe to run twice")
    group.addoption("--twice-quick", action="store_true", help="of the marker twice, run only the quick checks")
    parser.addini("twice_config", "the twice.toml of the tests, relative to the rootdir; searched for there by default")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line("markers", _MARKER)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test of each date and check of a marked function."""
    mark = metafunc.definition.get_closest_marker("twice")
    if mark is None:
        return
    from twice.testing.marks import asked

    quick = bool(metafunc.config.getoption("twice_quick"))
    if "twice_sandbox" in metafunc.fixturenames:
        raise pytest.Collector.CollectError(
            f"{metafunc.definition.name} is marked with twice and asks for twice_sandbox: its checks have a sandbox of "
            "their own, and one process has one at a time"
        )
    tests = asked(mark, metafunc.definition.name, quick=quick)
    metafunc.fixturenames.append(_CHECK)
    metafunc.parametrize(_CHECK, tests, indirect=True, ids=[test.id for test in tests])


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let a marked test ask for its check, as if its function had named it."""
    if isinstance(item, pytest.Function) and _CHECK in _parameters(item) and _CHECK not in item.fixturenames:
        item.fixturenames.append(_CHECK)


def _parameters(item: pytest.Function) -> Mapping[str, object]:
    return item.callspec.params if hasattr(item, "callspec") else {}


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Run the check of a marked test; its own code runs after a check that passed."""
    __tracebackhide__ = True
    check = pyfuncitem.funcargs.get(_CHECK)
    if callable(check):
        check()


@pytest.fixture(scope="session")
def twice_project(pytestconfig: pytest.Config) -> Config:
    """The configuration of the project: its twice.toml, or defaults."""
    from twice import config as configuration

    named = str(pytestconfig.getini("twice_config") or "")
    root = pytestconfig.rootpath
    return configuration.load(root / named) if named else configuration.load(start=root)


@pytest.fixture(scope="session")
def twice_spark(twice_project: Config) -> Iterator[SparkSession]:
    """A local Spark with the project's configuration on small settings; one that already runs is used as it is."""
    from twice.testing.sessions import shared

    with shared(twice_project) as spark:
        yield spark


@pytest.fixture
def twice_sandbox(twice_spark: SparkSession, twice_project: Config) -> Iterator[Sandbox]:
    """A sandbox of the test's own: tables and ledgers beside production, removed at the end."""
    from twice.verify.sandbox import Sandbox

    with Sandbox.open(twice_project, twice_spark) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def twice_inputs() -> dict[str, Any] | None:
    """What the pipelines of a module's marked tests read; None: production, as twice.toml defines it.

    Override it, in the module or in conftest.py, with rows by table: DataFrames or literals.
    """
    return None


@pytest.fixture(scope="module")
def _twice_trials(
    twice_spark: SparkSession, twice_project: Config, twice_inputs: dict[str, Any] | None
) -> Iterator[Trials]:
    """The copies of inputs and clean runs that the checks of a module share."""
    from twice.testing.marks import Trials

    trials = Trials(twice_spark, twice_project, twice_inputs)
    yield trials
    trials.close()


@pytest.fixture
def _twice_check(request: pytest.FixtureRequest, _twice_trials: Trials) -> Callable[[], None]:
    """The check of a marked test, still to be run."""
    return lambda: _twice_trials.judge(request.param)
