"""Precision and recall over the labelled jobs: `make audit-score`; the last line is JSON.

`strict` forgives nothing: what is repeated on a neighbouring line, and what the labels call arguable (`also_fine`),
counts as wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from twice.audit.config import AuditConfig
from twice.audit.files import collect
from twice.audit.findings import Finding, Severity
from twice.audit.running import audit_files

CORPUS = Path(__file__).parent / "corpus"
NEAR = 2
_WIDTHS = (5, 6, 5, 8)


@dataclass
class Score:
    found: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    forgiven: Counter[str] = field(default_factory=Counter)  # told again beside a label, or arguable
    jobs: int = 0
    lines: list[str] = field(default_factory=list)

    @property
    def precision(self) -> float:
        told = self.found.total() + self.wrong.total()
        return self.found.total() / told if told else 1.0

    @property
    def strict_precision(self) -> float:
        told = self.found.total() + self.wrong.total() + self.forgiven.total()
        return self.found.total() / told if told else 1.0

    @property
    def recall(self) -> float:
        labelled = self.found.total() + self.missed.total()
        return self.found.total() / labelled if labelled else 1.0


def _near(finding: Finding, label: dict) -> bool:
    if finding.code != label["code"]:
        return False
    first, last = finding.place.line, finding.place.line
    return first - NEAR <= label["line"] <= last + NEAR


def score_folder(folder: Path, score: Score) -> None:
    """Compare what is found in a folder with its labels."""
    labels = yaml.safe_load((folder / "labels.yml").read_text(encoding="utf-8"))
    by_dialect = defaultdict(list)
    for entry in labels:
        by_dialect[entry.get("dialect", "")].append(folder / entry["file"])
    results = {}
    for dialect, files in by_dialect.items():
        config = AuditConfig(root=folder, dialect=dialect)
        wanted = collect([file for file in files if file.is_file()], config)
        for result in audit_files(wanted, config, use_cache=False).results:
            results[result.path] = result
    for entry in labels:
        score.jobs += 1
        result = results.get(entry["file"])
        expected = list(entry.get("findings") or [])
        fine = list(entry.get("also_fine") or [])
        told = list(result.findings) if result is not None else []
        for finding in told:
            hit = min(
                (label for label in expected if _near(finding, label)),
                key=lambda label: abs(label["line"] - finding.line),
                default=None,
            )
            if hit is not None:
                expected.remove(hit)
                score.found[finding.code] += 1
            elif finding.severity > Severity.INFO:
                if any(_near(finding, label) for label in (*fine, *(entry.get("findings") or []))):
                    score.forgiven[finding.code] += 1  # arguable, or the same defect told on a neighbouring line too
                    continue
                score.wrong[finding.code] += 1
                score.lines.append(
                    f"wrong   {folder.name}/{entry['file']}:{finding.line} {finding.code} {finding.message}"
                )
        for label in expected:
            score.missed[label["code"]] += 1
            score.lines.append(f"missed  {folder.name}/{entry['file']}:{label['line']} {label['code']}")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "folders", nargs="*", type=Path, default=sorted(file.parent for file in CORPUS.glob("*/labels.yml"))
    )
    parser.add_argument("--verbose", action="store_true", help="show what was missed and what was wrong")
    options = parser.parse_args(argv)
    total = Score()
    answer = {}
    for folder in options.folders:
        score = Score()
        score_folder(folder, score)
        answer[folder.name] = {
            "jobs": score.jobs,
            "precision": round(score.precision, 3),
            "recall": round(score.recall, 3),
            "strict_precision": round(score.strict_precision, 3),
        }
        for name in ("found", "missed", "wrong", "forgiven"):
            getattr(total, name).update(getattr(score, name))
        total.jobs += score.jobs
        total.lines += score.lines
        print(
            f"{folder.name:<8} {score.jobs:>4} jobs  precision {score.precision:6.1%} "
            f"(strict {score.strict_precision:6.1%})  recall {score.recall:6.1%}"
        )
    if options.verbose:
        print("\n".join(total.lines))
    print(f"\n{'code':<6} {'found':>5} {'missed':>6} {'wrong':>5} {'forgiven':>8}")
    counters = (total.found, total.missed, total.wrong, total.forgiven)
    for code in sorted({code for counter in counters for code in counter}):
        print(f"{code:<6} " + " ".join(f"{one[code]:>{width}}" for one, width in zip(counters, _WIDTHS, strict=True)))
    print(f"{'all':<6} " + " ".join(f"{one.total():>{width}}" for one, width in zip(counters, _WIDTHS, strict=True)))
    summary = {
        "jobs": total.jobs,
        "precision": round(total.precision, 3),
        "recall": round(total.recall, 3),
        "strict_precision": round(total.strict_precision, 3),
    }
    print(json.dumps({**summary, **answer}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
