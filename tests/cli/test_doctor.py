"""`twice doctor`: what is wrong with a machine is a finding, what is wrong with twice is not."""

from __future__ import annotations

import builtins


def test_a_broken_import_in_twice_is_not_a_finding_about_a_store(project, monkeypatch):
    def broken(_config):
        raise ImportError("cannot import name 'quoted' from 'twice.model.names'")

    monkeypatch.setattr("twice.engine.doctor.stores", broken)
    said = project.call("doctor", "--deep")
    assert said.code == 3
    assert "an unexpected error occurred in twice itself: ImportError" in said.err


def test_without_pyspark_the_stores_are_a_finding(project, monkeypatch):
    monkeypatch.setattr("twice.engine.doctor.examine", lambda _config: [])
    real = builtins.__import__

    def without_pyspark(name, *rest, **more):
        if name.split(".")[0] == "pyspark":
            raise ImportError("No module named 'pyspark'", name="pyspark")
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without_pyspark)
    said = project.call("doctor", "--deep")
    assert said.code == 1
    assert "PySpark is not installed" in said.out
