"""Gates: said in words, and refused where they could never pass or never fail."""

from __future__ import annotations

import pytest

from twice import gates
from twice.errors import DefinitionError


def positive(rows):
    return True


@pytest.mark.parametrize(
    ("gate", "text"),
    [
        (gates.not_null("a"), "a is not null"),
        (gates.unique("a", "b"), "a, b unique"),
        (gates.accepted("status", ["new", "paid"]), "status is one of 'new', 'paid'"),
        (gates.accepted("n", (1,)), "n is one of 1"),
        (gates.range("x", min=0), "x at least 0"),
        (gates.range("x", max=9.5), "x at most 9.5"),
        (gates.range("x", min=0, max=0), "x between 0 and 0"),
        (gates.row_count(min=1), "row count at least 1"),
        (gates.row_count(min=0, max=5), "row count between 0 and 5"),
        (gates.row_count_change(0.3), "row count within ±30% of the usual"),
        (gates.sql("select *\n  from staged"), "no rows from: select * from staged"),
        (gates.check(positive), "check positive"),
    ],
)
def test_a_gate_in_words(gate, text):
    assert gate.text == text


def test_equal_gates_are_equal():
    assert gates.accepted("a", ["x"]) == gates.accepted("a", ("x",))
    assert hash(gates.row_count(min=1)) == hash(gates.row_count(min=1))


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: gates.not_null(""), "gates.not_null: a column name is empty"),
        (lambda: gates.not_null(["a", "b"]), "write one gate for each column"),
        (lambda: gates.not_null(5), "gates.not_null: a column name must be a text, not 5"),
        (gates.unique, 'needs at least one column: gates.unique("order_id")'),
        (lambda: gates.unique(["a", "b"]), 'not a list: write gates.unique("a", "b")'),
        (lambda: gates.accepted("a", []), "gates.accepted('a', …) needs a list of values"),
        (lambda: gates.accepted("a", "new"), "needs a list of values"),
        (lambda: gates.accepted("a", 5), "needs a list of values"),
        (lambda: gates.accepted("a", ["x", None]), "leave None out of the values"),
        (lambda: gates.range("a"), "gates.range('a') needs min=, max= or both"),
        (lambda: gates.range("a", min=2, max=1), "min=2 is above max=1, so nothing could pass"),
        (lambda: gates.range("a", min=2, max="x"), "min=2 and max='x' cannot be compared"),
        (gates.row_count, "gates.row_count() needs min=, max= or both"),
        (lambda: gates.row_count(min=-1), "must be a number of rows, 0 or more, got -1"),
        (lambda: gates.row_count(max="9"), "0 or more, got '9'"),
        (lambda: gates.row_count(min=True), "0 or more, got True"),
        (lambda: gates.row_count(min=5, max=1), "min=5 is above max=1"),
        (lambda: gates.row_count_change(0), "needs a ratio above 0 and up to 10, such as 0.3 for ±30 %"),
        (lambda: gates.row_count_change(30), "such as 0.3 for ±30 %"),
        (lambda: gates.row_count_change(float("nan")), "needs a ratio"),
        (lambda: gates.row_count_change("30%"), "gates.row_count_change('30%') needs a ratio"),
        (lambda: gates.row_count_change(0.3, history=2), "give 3 partitions or more"),
        (lambda: gates.sql("  "), "gates.sql needs a query"),
        (lambda: gates.sql(None), "gates.sql needs a query"),
        (lambda: gates.check("not a function"), "needs a function of the staged DataFrame"),
    ],
)
def test_a_gate_that_makes_no_sense_is_refused(build, sentence):
    with pytest.raises(DefinitionError) as caught:
        build()
    assert sentence in caught.value.message
