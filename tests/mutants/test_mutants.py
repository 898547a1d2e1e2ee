"""Mutants of the shop are found by the check that is about them; `make mutants` shows them all."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys

import pytest

from tests.mutants import healthy
from tests.mutants.catalogue import CONTRACT, MUTANTS, REFUSED
from tests.mutants.shop import PIPELINE, Shop
from twice import Day, Hour, InsertOnly, Merge, Month, Overwrite, QuarterHour, Week, Whole
from twice.verify.checks import ALL


def test_the_catalogue_is_well_formed():
    assert len(MUTANTS) >= 25
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert {mutant.caught for mutant in MUTANTS} <= {REFUSED, CONTRACT, *(check.name for check in ALL)}
    for mutant in MUTANTS:
        ast.parse(mutant.edit(PIPELINE.read_text()))


def test_the_documentation_lists_every_mutant_and_who_finds_it():
    text = (PIPELINE.parents[2] / "docs" / "verify.md").read_text()
    found = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", text.partition("## What it finds")[2], re.MULTILINE))
    for mutant in MUTANTS:
        by = mutant.caught if mutant.caught in (REFUSED, CONTRACT) else f"`{mutant.caught}`"
        assert found[mutant.name] == by


def test_the_healthy_pipelines_cover_every_grain_pattern_and_kind_of_store():
    steps = [step for pipeline in healthy.PIPELINES.values() for step in pipeline.steps.values()]
    assert {pipeline.grain for pipeline in healthy.PIPELINES.values()} == {QuarterHour, Hour, Day, Week, Month}
    assert {type(step.writes.write) for step in steps} == {Overwrite, Merge, InsertOnly, Whole}
    assert {step.writes.id.store for step in steps} == {"lake", "warehouse", "files", "server", "serving"}


# Workers that run beside each other share them.
PARTS = 4
# A few that need few runs; `make mutants` and the full lane take them all.
FEW = ("append instead of overwrite", "a dropped gate", "the number of the call", "a gate without bounds")


@pytest.fixture(scope="module")
def shop(spark, tmp_path_factory):
    with Shop.open(tmp_path_factory.mktemp("shop"), spark=spark) as found:
        yield found


@pytest.mark.spark
@pytest.mark.parametrize("name", FEW)
def test_a_mutant_is_found_by_the_check_that_is_about_it(shop, name):
    mutant = next(each for each in MUTANTS if each.name == name)
    found = shop.catch(mutant)
    assert (found.by, found.right) == (mutant.caught, True), found.said


@pytest.mark.full
@pytest.mark.spark
@pytest.mark.slow("a part of 43 mutants and six healthy pipelines, in a Spark of its own")
@pytest.mark.parametrize("part", range(1, PARTS + 1))
def test_every_mutant_is_found_and_no_healthy_pipeline_is_suspected(part):
    command = [sys.executable, "-m", "tests.mutants", "--part", f"{part}/{PARTS}"]
    said = subprocess.run(command, capture_output=True, text=True, check=False, cwd=PIPELINE.parents[2])
    found = json.loads(said.stdout.splitlines()[-1])
    assert found["mutants"] == len(MUTANTS[part - 1 :: PARTS])
    assert (found["caught"], found["false_alarms"]) == (found["mutants"], 0), said.stdout
