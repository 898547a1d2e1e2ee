"""A failing case is saved as a test that fails until the cause is fixed."""

from __future__ import annotations

import subprocess
import sys
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from pyspark.sql import types as T

from tests.verify.modules import COLUMNS, DAY, FAULTY, Modules, loaded
from twice import testing
from twice.errors import UsageError
from twice.verify.checks import chosen
from twice.verify.literals import NoLiteral, Writer, ddl, write_copies
from twice.verify.preparing import Inputs
from twice.verify.sandbox import Sandbox
from twice.verify.saving import save_case
from twice.verify.stand_ins import StandIns
from twice.verify.trial import Trial

pytestmark = pytest.mark.spark
MENDED = FAULTY.replace("next(calls)", "0")


@pytest.fixture
def modules(lab, lakehouse, monkeypatch):
    monkeypatch.chdir(lakehouse)  # where the twice.toml of this Spark is
    return Modules(lab, monkeypatch)


def saved(modules, body=FAULTY):
    with Sandbox.open(modules.lab.config, modules.lab.spark) as sandbox:
        trial = modules.trial(sandbox, modules.write(body, count=18))
        (finding,) = modules.made(trial).findings
        return save_case(trial, chosen(["run-twice"], quick=False)[0], finding, modules.lab.folder / "tests")


@pytest.mark.full
@pytest.mark.slow(reason="makes the check four times: it is found, saved, failed and passed")
def test_s23_a_saved_case_fails_until_the_fault_is_mended(modules):
    there = modules.lab.folder / "tests" / "test_verify_sales_run_twice.py"
    there.parent.mkdir()
    there.write_text("# a case of another day\n")
    found = saved(modules)
    assert found.file == there.with_stem("test_verify_sales_run_twice_2")
    assert there.read_text() == "# a case of another day\n"
    assert found.text.startswith("18 of 18 input rows")
    text = found.file.read_text()
    assert "example.com" not in text
    assert "# Values of email are personal: these are stand-ins, equal where the values were." in text
    assert text.count("'personal-001'") == 1
    assert f"from {modules.name} import sales as pipeline" in text
    with pytest.raises(AssertionError, match=r"per_customer .*: its rows differ after the second run") as failure:
        loaded(found.file)["test_run_twice"]()
    assert "run: 91.7% agree; value (1)" in str(failure.value)

    modules.write(MENDED)
    loaded(found.file)["test_run_twice"]()


def test_what_cannot_be_saved_says_why(modules):
    pipeline = modules.write(FAULTY)
    step = pipeline.steps["per_customer"]
    trial = Trial(None, pipeline, (step,), None, None, Inputs())
    check = chosen(["run-twice"], quick=False)[0]
    refused = trial.finding(check, step, "a run was refused", cause="", fix="")
    assert save_case(trial, check, refused, modules.lab.folder).text == "its case is not one of input rows"
    differs = trial.finding(check, step, "rows differ", cause="", fix="", inputs={"lake.raw.orders": "0-as-is"})
    assert save_case(trial, check, differs, modules.lab.folder).text == (
        "a test cannot import a pipeline without a module"
    )


@pytest.mark.full
def test_a_case_that_needs_a_personal_value_is_not_saved(modules):
    needs_the_mail = FAULTY.replace('F.col("customer") == "c7"', 'F.col("email") == "user7@example.com"')
    found = saved(modules, needs_the_mail)
    assert found.file is None
    assert found.text == "the check does not fail on the rows as literals with stand-ins for personal values"
    assert not (modules.lab.folder / "tests").exists()


SCHEMA = T.StructType(
    [
        T.StructField('say "it\'s" `so`', T.StringType()),
        T.StructField("whole", T.LongType()),
        T.StructField("price", T.DecimalType(10, 2)),
        T.StructField("share", T.DoubleType()),
        T.StructField("day", T.DateType()),
        T.StructField("moment", T.TimestampType()),
        T.StructField("wall", T.TimestampNTZType()),
        T.StructField("took", T.DayTimeIntervalType()),
        T.StructField("raw", T.BinaryType()),
        T.StructField("open", T.BooleanType()),
        T.StructField("tags", T.MapType(T.StringType(), T.ArrayType(T.IntegerType()))),
        T.StructField("nested row", T.StructType([T.StructField("a b", T.StructType().add("c", T.DateType()))])),
    ]
)
ROWS = [
    (
        "it's \"quoted\"\n\\ and '''more''' \u20ac",
        2**60,
        Decimal("1.20"),
        float("-inf"),
        date(1, 1, 1),
        datetime(2026, 10, 25, 1, 30, 0, 5, tzinfo=timezone.utc),
        datetime(2026, 3, 29, 2, 30),
        timedelta(days=-3, microseconds=7),
        b"\x00'\xff",
        True,
        {"it's": [1, None]},
        ((date(2026, 4, 25),),),
    ),
    (None,) * 12,
]


def test_any_value_survives_as_a_literal(lab):
    before = lab.spark.createDataFrame(ROWS, SCHEMA).collect()
    writer = Writer()
    source = [writer.literal(tuple(row), SCHEMA) for row in before]
    names = {"date": date, "datetime": datetime, "timedelta": timedelta, "timezone": timezone, "Decimal": Decimal}
    assert writer.uses == set(names)
    rows = [eval(text, dict(names)) for text in source]  # noqa: S307 - what we wrote
    inputs = write_copies(lab.spark, lab.folder / "copies", {"lake.a.b": (ddl(SCHEMA), rows)})
    after = lab.spark.read.parquet(inputs.folders["lake.a.b"])
    assert after.schema.simpleString() == SCHEMA.simpleString()
    assert sorted(map(repr, after.collect())) == sorted(map(repr, before))
    assert inputs.rows == {"lake.a.b": 2}


def test_a_type_without_a_literal_is_said():
    with pytest.raises(NoLiteral, match="variant"):
        Writer().literal(object(), T.VariantType())


def test_stand_ins_are_equal_where_values_are_and_keep_their_order():
    schema = T.StructType(
        [
            T.StructField("Mail", T.StringType()),
            T.StructField("salary", T.DecimalType(3, 3)),
            T.StructField("born", T.DateType()),
            T.StructField("friends", T.ArrayType(T.StringType())),
            T.StructField("other", T.StringType()),
        ]
    )
    rows = [
        ("zoe@x", Decimal("0.9"), date(1980, 1, 1), ["amy@x", None], "zoe@x"),
        ("amy@x", Decimal("0.1"), date(1970, 1, 1), [], "x"),
        (None, None, None, None, None),
    ]
    stand_ins = StandIns(frozenset(["mail", "salary", "born", "friends"]))
    stand_ins.learn(rows, schema)
    assert [stand_ins.row(row, schema) for row in rows] == [
        ("personal-002", Decimal("0.002"), date(2000, 1, 3), ["personal-001", None], "zoe@x"),
        ("personal-001", Decimal("0.001"), date(2000, 1, 2), [], "x"),
        (None, None, None, None, None),
    ]


def test_checks_on_rows_of_a_test(modules):
    pipeline = modules.write(MENDED)
    rows = [(1, "c7", "a@x", Decimal(1), date(2026, 4, 25), datetime(2026, 4, 25, 10, tzinfo=timezone.utc))]
    inputs = {modules.lab.name("orders"): (COLUMNS, rows)}
    report = testing.check(pipeline, DAY, "run-twice", inputs=inputs, config=modules.lab.config)
    assert [(each.check, each.status) for each in report.outcomes] == [("run-twice", "passed")]
    assert not modules.lab.exists("sales")
    with pytest.raises(UsageError, match="inputs lack"):
        testing.check(pipeline, DAY, "run-twice", inputs={}, config=modules.lab.config)
    with pytest.raises(UsageError, match=r"no step reads lake\.x\.y"):
        testing.check(pipeline, DAY, "run-twice", inputs={"lake.x.y": ("a int", [])}, config=modules.lab.config)


@pytest.mark.full
@pytest.mark.slow(reason="pytest starts a Spark of its own, as a user's does")
def test_pytest_runs_a_saved_case_in_a_process_of_its_own(modules):
    found = saved(modules)
    folder = modules.lab.folder
    (folder / "twice.toml").write_text(
        '[stores.lake]\ntype = "iceberg"\nwarehouse = "own/warehouse"\ncatalog = "sqlite:///own.db"\n'
        '[profiles.default.spark]\n"spark.master" = "local[2]"\n'
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(found.file)]
    failing = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert failing.returncode == 1, failing.stdout
    assert "its rows differ after the second run" in failing.stdout
    modules.write(MENDED)
    mended = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert mended.returncode == 0, mended.stdout
