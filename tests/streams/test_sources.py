"""Which source a checkpoint has read, in words."""

from __future__ import annotations

from twice.streams.sources import is_same, kept


def test_the_same_topics_of_another_cluster_are_another_source():
    assert is_same("kafka clicks of cluster A", "kafka clicks of cluster A")
    assert not is_same("kafka clicks of cluster A", "kafka clicks of cluster B")
    assert not is_same("kafka clicks", "kafka orders")
    # A cluster whose id cannot be asked, or was not when the stream began, may be any.
    assert is_same("kafka clicks", "kafka clicks of cluster B")
    assert is_same("kafka clicks of cluster A", "kafka clicks")


def test_a_cluster_that_does_not_answer_now_keeps_its_id():
    assert kept("kafka clicks of cluster A", "kafka clicks") == "kafka clicks of cluster A"
    assert kept("kafka clicks", "kafka clicks of cluster A") == "kafka clicks of cluster A"
    assert kept("kafka orders", "kafka clicks") == "kafka clicks"
