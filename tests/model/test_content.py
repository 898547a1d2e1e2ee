"""What was read, as the ledger keeps it, and when it counts as another."""

from __future__ import annotations

import pytest

from twice.model.content import INCOMPARABLE, Content

NOTHING, SOME, NO_ROWS = Content.files(""), Content.digest("3-f-e-a1"), Content.digest("0-0-0-a1")


@pytest.mark.parametrize(
    "content", [NOTHING, SOME, Content("seen", "7:ab"), Content("run", "a/b"), Content("unknown", "r")]
)
def test_the_ledger_gives_back_what_it_was_given(content):
    assert Content.read(content.text) == content


def test_how_many_rows_there_were():
    assert [each.rows for each in (NOTHING, SOME, NO_ROWS, Content.files("ab"), Content("version", "7"))] == [
        0, 3, 0, None, None,
    ]  # fmt: skip
    assert [each.is_empty for each in (NOTHING, SOME, NO_ROWS, Content.files("ab"))] == [True, False, True, False]


def test_rows_of_another_digest_are_another_content_and_none_are_like_no_files():
    assert not SOME.differs_from(3, "3-f-e-a1")
    assert SOME.differs_from(3, "3-f-f-a1")
    assert SOME.differs_from(0, "0-0-0-a1")
    assert not NO_ROWS.differs_from(0, "0-0-0-b2")
    assert NOTHING.differs_from(1, "1-a-b-a1")
    assert not NOTHING.differs_from(0, "0-0-0-a1")
    # Of files that twice did not write nothing is known but the files.
    assert not Content.files("ab").differs_from(1, "1-a-b-a1")


def test_other_files_are_another_content_and_none_are_like_no_rows():
    assert not Content.files("ab").has_other_files("ab")
    assert Content.files("ab").has_other_files("cd")
    assert Content.files("ab").has_other_files("")
    assert SOME.has_other_files("")
    assert not NO_ROWS.has_other_files("")
    assert not NOTHING.has_other_files("")


def test_what_no_source_can_compare_never_counts_as_moved():
    one, other = Content.files(f"{INCOMPARABLE}1"), Content.files(f"{INCOMPARABLE}2")
    assert not one.is_known
    assert one.may_be(other)
    assert not one.may_be(Content.files("ab"))
    assert not SOME.may_be(Content.digest("3-f-f-a1"))
    assert SOME.may_be(SOME)
