"""Mutants of the shop are found by the check that is about them; `make mutants` shows them all."""

from __future__ import annotations

import ast

import pytest

from tests.mutants.catalogue import CONTRACT, MUTANTS, REFUSED
from tests.mutants.shop import PIPELINE
from twice.verify.checks import ALL


def test_the_catalogue_is_well_formed():
    assert len(MUTANTS) >= 25
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert {mutant.caught for mutant in MUTANTS} <= {REFUSED, CONTRACT, *(check.name for check in ALL)}
    for mutant in MUTANTS:
        ast.parse(mutant.edit(PIPELINE.read_text()))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_an_edit_of_its_own(mutant):
    assert mutant.edit(PIPELINE.read_text()).count(mutant.new) >= 1
