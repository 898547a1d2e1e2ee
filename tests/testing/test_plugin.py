"""The pytest plugin: what it costs where it is not used, and what its marker and fixtures do."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from twice.testing import marks  # noqa: F401 - imported by this process, before a run inside it forgets it again

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
JOBS = """
from pyspark.sql import functions as F
from twice import Day, Overwrite, Pipeline, Table

raw = Table("lake.raw.orders", partition=Day("d"), key=["id"], write=Overwrite(), schema="id BIGINT, n INT, d DATE")
numbered = Table("lake.mart.numbered", partition=Day("d"), key=["d"], write=Overwrite())
sums = Table("lake.mart.sums", partition=Day("d"), key=["d"], write=Overwrite())
shop = Pipeline("shop", grain=Day)
calls = iter(range(100))
fetched = []

@shop.extract(writes=raw)
def orders(window):
    fetched.append(window)
    for number in (1, 2, 3):
        yield {"id": number, "n": number, "d": window.start.date()}

@shop.step(reads={"orders": raw}, writes=sums)
def add_up(orders):
    return orders.groupBy("d").agg(F.sum("n").alias("n"))

faulty = Pipeline("faulty", grain=Day)
other = Table("lake.raw.others", partition=Day("d"), key=["id"], write=Overwrite(), schema="id BIGINT, n INT, d DATE")

@faulty.extract(writes=other)
def others(window):
    yield {"id": 1, "n": 1, "d": window.start.date()}

@faulty.step(reads={"others": other}, writes=numbered)
def number(others):
    return others.groupBy("d").agg((F.sum("n") + next(calls)).alias("n"))
"""


def test_a_project_that_does_not_use_it_imports_nothing_of_it(pytester, monkeypatch):
    """Installed, the package is found by its entry point; here only that part of its metadata is."""
    entries = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    metadata = pytester.mkdir("installed") / "twice_entry-0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: twice-entry\nVersion: 0\n")
    lines = [f"{name} = {module}" for name, module in entries.items()]
    (metadata / "entry_points.txt").write_text("\n".join(["[pytest11]", *lines, ""]))
    monkeypatch.setenv("PYTHONPATH", str(metadata.parent), prepend=os.pathsep)
    pytester.makepyfile(
        """
        import sys

        def test_nothing_is_loaded():
            loaded = {name.partition(".")[0] for name in sys.modules}
            assert "twice.testing.plugin" in sys.modules
            assert not loaded & {"pyspark", "py4j", "pandas", "sqlalchemy", "alembic", "sqlglot"}, loaded
            assert {name for name in sys.modules if name.startswith("twice.")} & {
                "twice.engine", "twice.verify", "twice.testing.marks", "twice.testing.sessions"
            } == set()
        """
    )
    done = pytester.runpytest_subprocess("--strict-markers")
    done.assert_outcomes(passed=1)


def test_the_marker_the_options_and_the_fixtures_describe_themselves(inner):
    shown = inner("--markers").stdout.str()
    assert "@pytest.mark.twice(pipeline, dates, checks=None, steps=None): check the promises of a pipeline" in shown
    options = inner("--help").stdout.str()
    assert "--twice-quick" in options
    assert "twice_config" in options
    fixtures = inner("--fixtures").stdout.str()
    for name in ("twice_spark", "twice_sandbox", "twice_project", "twice_inputs"):
        assert name in fixtures


def test_a_marker_that_cannot_be_read_is_refused_in_one_sentence(pytester, inner):
    refused = {
        "shop": "it names a pipeline and dates: write @pytest.mark.twice(pipeline, dates=",
        "dates=['2026-04-25']": "it names a pipeline and dates: write @pytest.mark.twice(pipeline, dates=",
        "shop, dates='2026-04-25'": "dates='2026-04-25' must be a list",
        "shop, dates=[]": "there are no dates",
        "shop, dates=['2026-04-25'], check=['x']": "check is not one of checks, dates, steps",
        "shop, dates=['2026-04-25'], checks=['run-twise']": "there is no check 'run-twise'. Did you mean run-twice?",
    }
    for number, marker in enumerate(refused):
        code = f"import pytest\nshop = object()\n@pytest.mark.twice({marker})\ndef test_shop_{number}(): pass\n"
        (pytester.path / f"test_{number}.py").write_text(code)
    done = inner()
    done.assert_outcomes(errors=len(refused))
    text = done.stdout.str()
    for number, said in enumerate(refused.values()):
        assert f"the marker twice of test_shop_{number} cannot be read: {said}" in text
    assert "Traceback" not in text
    assert "marks.py" not in text


def test_a_marked_function_is_one_test_for_each_date_and_check(pytester, inner):
    pytester.makepyfile(
        """
        import datetime
        import pytest

        @pytest.mark.twice("shop", dates=["2026-04-25", datetime.date(2026, 4, 26)], checks=["separable", "run-twice"])
        def test_shop(): pass

        @pytest.mark.parametrize("other", [1, 2])
        @pytest.mark.twice("shop", dates=["2026-04-25"], checks=["run-twice"])
        def test_with(other): pass
        """
    )
    named = inner("--collect-only", "-q").stdout.str()
    assert [line.partition("::")[2] for line in named.splitlines() if "::" in line] == [
        "test_shop[2026-04-25-separable]",
        "test_shop[2026-04-25-run-twice]",
        "test_shop[2026-04-26-separable]",
        "test_shop[2026-04-26-run-twice]",
        "test_with[2026-04-25-run-twice-1]",
        "test_with[2026-04-25-run-twice-2]",
    ]
    quick = inner("--collect-only", "-q", "--twice-quick", "-k", "test_shop").stdout.str()
    assert [line.partition("[")[2] for line in quick.splitlines() if "::" in line] == [
        "2026-04-25-run-twice]",
        "2026-04-26-run-twice]",
    ]


def test_a_marked_test_cannot_have_a_second_sandbox(pytester, inner):
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.twice("shop", dates=["2026-04-25"])
        def test_shop(twice_sandbox): pass
        """
    )
    done = inner()
    done.assert_outcomes(errors=1)
    assert "test_shop is marked with twice and asks for twice_sandbox" in done.stdout.str()


@pytest.mark.spark
@pytest.mark.slow(reason="three checks on two pipelines")
@pytest.mark.full
def test_checks_share_one_copy_of_the_inputs_and_report_in_words(pytester, inner, spark):
    pytester.makepyfile(jobs=JOBS)
    (pytester.path / "twice.toml").write_text('[pipelines]\nshop = "jobs:shop"\nfaulty = "jobs:faulty"\n')
    pytester.syspathinsert()
    pytester.makepyfile(
        test_marked="""
        import jobs
        import pytest

        @pytest.mark.twice(jobs.shop, dates=["2026-04-25"], checks=["run-twice", "empty"])
        def test_shop(twice_spark):
            # The extract was asked for the unit and the unit before, once for both checks.
            assert len(jobs.fetched) == 2

        @pytest.mark.twice("faulty", dates=["2026-04-25"], checks=["run-twice"], steps=["number"])
        def test_numbered(): raise AssertionError("its own code runs only after a check that passed")
        """,
        test_given="""
        import jobs
        import pytest

        @pytest.fixture(scope="module")
        def twice_inputs():
            return {"others": [(1, 10, "2026-04-24"), (2, 20, "2026-04-25")]}

        @pytest.mark.twice(jobs.number, dates=["2026-04-28"], checks=["run-twice", "deterministic"])
        def test_no_rows(): pass
        """,
    )
    done = inner("-v")
    text = done.stdout.str()
    done.assert_outcomes(passed=2, failed=2, skipped=1)
    assert "test_shop[2026-04-25-run-twice] PASSED" in text
    assert "number (lake.mart.numbered): its rows differ after the second run" in text
    assert "likely cause: " in text
    assert "repeat: twice verify faulty --for 2026-04-25 --step number --check run-twice --seed 1" in text
    assert "its own code runs" not in text
    assert "no input of faulty has rows for 2026-04-28" in text
    assert "deterministic was not run: no input of faulty has rows for 2026-04-28" in text
    assert "Traceback" not in text
    assert "marks.py:" not in text.partition("short test summary")[0]


@pytest.mark.spark
@pytest.mark.full
def test_the_tests_of_the_documentation_pass(pytester, inner, spark):
    page = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    pytester.makepyfile(test_page="\n".join(blocks))
    inner().assert_outcomes(passed=4)


@pytest.mark.spark
def test_the_fixtures_are_of_the_project(pytester, inner, spark):
    (pytester.path / "conf").mkdir()
    (pytester.path / "conf" / "twice.toml").write_text('[stores.warehouse]\ntype = "parquet"\npath = "tables"\n')
    pytester.makeini("[pytest]\ntwice_config = conf/twice.toml\n")
    pytester.makepyfile(
        """
        def test_them(twice_sandbox, twice_spark, twice_project):
            assert list(twice_project.stores) == ["warehouse"]
            assert twice_sandbox.config == twice_project
            assert twice_spark.range(3).count() == 3
            assert twice_sandbox.folder.is_dir()
        """
    )
    inner().assert_outcomes(passed=1)
    assert not (pytester.path / "conf" / "tables").exists()
