"""Queries on a few rows are interpreted; once, generated code computes them, too."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from twice import Day
from twice.verify.checks import chosen
from twice.verify.few_rows import FEW, INTERPRETED, settings_for
from twice.verify.running import Request, make_all

NAMES = ("spark.sql.codegen.wholeStage", "spark.sql.adaptive.enabled")


def test_many_rows_are_computed_as_the_project_says():
    assert settings_for(FEW) == INTERPRETED
    assert settings_for(FEW + 1) == {}


@pytest.mark.spark
def test_a_verification_of_a_few_rows_interprets_and_compares_with_generated_code(world):
    seen = []

    def watching(orders):
        seen.append(tuple(orders.sparkSession.conf.get(name) for name in NAMES))
        return orders.groupBy("d", "customer").agg(F.count("*").alias("orders"))

    trial = world.trial(world.pipeline(watching, world.table()))
    before = [world.lab.spark.newSession().conf.get(name) for name in NAMES]
    report = make_all(
        chosen(["deterministic"], quick=False), trial, Request(Day.unit("2026-04-25", trial.pipeline.zone))
    )
    assert [outcome.status for outcome in report.outcomes] == ["passed"]
    assert set(seen) == {("false", "false"), ("true", "true")}
    assert [world.lab.spark.newSession().conf.get(name) for name in NAMES] == before
