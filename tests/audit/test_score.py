"""The labelled jobs: enough of them, and found as promised."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import yaml

FOLDER = Path(__file__).parent


def _module():
    spec = importlib.util.spec_from_file_location("audit_score", FOLDER / "score.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["audit_score"] = module
    spec.loader.exec_module(module)
    return module


def test_precision_and_recall_are_as_promised():
    scores = _module()
    total = scores.Score()
    for labels in sorted((FOLDER / "corpus").glob("*/labels.yml")):
        scores.score_folder(labels.parent, total)
    assert total.jobs >= 100
    assert total.precision >= 0.9, "\n".join(total.lines)
    assert total.recall >= 0.8, "\n".join(total.lines)


def test_every_label_names_a_file_and_a_line_that_exist():
    for labels in (FOLDER / "corpus").glob("*/labels.yml"):
        for entry in yaml.safe_load(labels.read_text(encoding="utf-8")):
            file = labels.parent / entry["file"]
            lines = file.read_text(encoding="utf-8").count("\n") + 1
            for label in (*(entry.get("findings") or []), *(entry.get("also_fine") or [])):
                assert 1 <= label["line"] <= lines, f"{file.name} {label}"


def test_the_strict_score_forgives_nothing(tmp_path):
    scores = _module()
    append = 'spark.table("x").write.mode("append").saveAsTable("core.{}")\n'
    (tmp_path / "job.py").write_text(append.format("a") + append.format("b") + "\n" * 5 + append.format("c"))
    (tmp_path / "labels.yml").write_text(
        "- file: job.py\n  findings: [{code: TW301, line: 1}]\n  also_fine: [{code: TW301, line: 8}]\n"
    )
    score = scores.Score()
    scores.score_folder(tmp_path, score)
    assert (score.precision, score.recall) == (1.0, 1.0)
    assert score.strict_precision == 1 / 3
