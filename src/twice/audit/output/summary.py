"""The few numbers at the end of every audit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from twice.audit.findings import Finding, Severity


@dataclass(frozen=True)
class Summary:
    """How much was read and found."""

    files: int
    findings: Sequence[Finding]
    suppressed: int = 0
    baseline: int = 0
    gone: int = 0
    tests: int = 0  # files of test code, which are not judged

    def count(self, severity: Severity) -> int:
        """Count the findings of one severity."""
        return sum(one.severity is severity for one in self.findings)

    def sentence(self) -> str:
        """Return the summary in one line."""
        parts = [
            f"{self.count(level)} {_plural(str(level), self.count(level))}"
            for level in (Severity.ERROR, Severity.WARNING)
        ]
        if self.count(Severity.INFO):
            parts.append(f"{self.count(Severity.INFO)} info")
        found = ", ".join(parts) if self.findings else "nothing found"
        text = f"{found} in {self.files} {_plural('file', self.files)}"
        if self.tests:
            text += f"; {self.tests} test {_plural('file', self.tests)} not judged"
        if self.suppressed:
            text += f"; {self.suppressed} suppressed"
        if self.baseline:
            text += f"; {self.baseline} in the baseline"
        if self.gone:
            text += f" ({self.gone} of its entries {'is' if self.gone == 1 else 'are'} no longer needed)"
        return text

    def statistics(self) -> list[tuple[str, int]]:
        """Count the findings of each code, most frequent first."""
        counts = Counter(one.code for one in self.findings)
        return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"
