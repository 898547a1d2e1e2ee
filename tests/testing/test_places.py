"""Where another process finds a pipeline: without that, checks that need one cannot be made."""

from __future__ import annotations

import pytest

from tests.mutants.healthy import hourly, monthly
from twice import Day, Pipeline
from twice.testing.trials import import_path, trial_of


def test_a_pipeline_is_found_in_the_module_that_has_it():
    assert import_path(hourly) == "tests.mutants.healthy:hourly"
    assert import_path(monthly) == "tests.mutants.healthy:monthly"  # of SQL alone: no function names its module
    assert import_path(Pipeline("local", grain=Day)) == ""


@pytest.mark.spark
def test_a_trial_on_rows_of_a_test_knows_it(spark):
    rows = spark.sql(
        "select 'a' as tenant, date'2026-04-01' as m, cast(1 as decimal(9,2)) as amount, "
        "timestamp'2026-04-02 10:00:00' as at"
    )
    with trial_of(monthly, "2026-04", {"events": rows}, spark) as trial:
        assert trial.place == "tests.mutants.healthy:monthly"
