"""A report as one HTML page that needs nothing beside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from typing import TYPE_CHECKING

from twice.verify.report.terminal import headline
from twice.verify.report.texts import plain

if TYPE_CHECKING:
    from twice.verify.evidence import Evidence
    from twice.verify.running import Report
    from twice.verify.trial import Finding, Outcome, Status

# A status is a word and a sign; colour only repeats it.
_SIGNS: dict[Status, str] = {"passed": "✓", "failed": "✗", "not run": "–"}
_CLASSES: dict[Status, str] = {"passed": "passed", "failed": "failed", "not run": "not-run"}
# Columns of numbers, which stand below their names.
_NUMBERS = ("Seconds", "Agree", "Rows")
_NUMBER = ' class="number"'


def as_html(report: Report, problem: str = "") -> str:
    """Return the page; `problem` is what kept the pipeline from running at all."""
    title = f"twice verify: {report.pipeline} {report.unit}"
    parts = [f"<h1>{_text(title)}</h1>", f"<p>{_text(headline(report))}</p>"]
    if problem:
        parts.append(f"<h2>The pipeline cannot run</h2><pre>{_text(problem)}</pre><p>No check was run.</p>")
    if report.warnings:
        parts.append("<h2>Warnings</h2><ul>" + "".join(f"<li>{_text(each)}</li>" for each in report.warnings) + "</ul>")
    if report.outcomes:
        rows = (_row(outcome) for outcome in report.outcomes)
        parts.append("<h2>Checks</h2>" + _table(("Check", "Status", "What was seen", "Seconds"), rows, "Every check"))
    findings = list(report.findings)
    if findings:
        parts.append("<h2>Findings</h2>")
        parts += [_finding(number, finding) for number, finding in enumerate(findings, start=1)]
    if report.inputs:
        rows = (f'<tr><th scope="row">{_text(name)}</th><td class="number">{count:,}</td></tr>'
                for name, count in report.inputs.items())  # fmt: skip
        parts.append("<h2>Inputs</h2>" + _table(("Table", "Rows"), rows, "Rows that were copied"))
    style = (resources.files(__package__) / "page.css").read_text(encoding="utf-8")
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>{_text(title)}</title><style>{style}</style>"
    )
    body = "\n".join(parts)
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body><main>{body}</main></body></html>\n'


def _row(outcome: Outcome) -> str:
    status = f'<td class="status {_CLASSES[outcome.status]}">{_SIGNS[outcome.status]} {_text(outcome.status)}</td>'
    return (
        f'<tr><th scope="row">{_text(outcome.check)}<br><small>{_text(outcome.promise)}</small></th>{status}'
        f'<td>{_text(outcome.summary)}</td><td class="number">{outcome.seconds:.1f}</td></tr>'
    )


def _finding(number: int, finding: Finding) -> str:
    name = f"finding-{number}"
    title = _text(f"{finding.check}: {finding.step} ({finding.table})")
    parts = [f'<section aria-labelledby="{name}"><h3 id="{name}">{title}</h3><p>{_text(finding.what)}</p>']
    if finding.evidence is not None:
        parts += _evidence(finding.evidence)
    texts = {"Promise": finding.promise, "Likely cause": finding.cause, "Fix": finding.fix}
    parts.append("<dl>" + "".join(f"<dt>{name}</dt><dd>{_text(text)}</dd>" for name, text in texts.items()))
    parts.append(f"<dt>Repeat</dt><dd><code>{_text(finding.repeat)}</code></dd></dl></section>")
    return "".join(parts)


def _evidence(evidence: Evidence) -> Iterable[str]:
    yield f"<p>{_text(evidence.text)}</p>"
    if evidence.matches:
        kinds = {
            name: ", ".join(f"{kind} ({count:,})" for kind, count in evidence.kinds.get(name, {}).items())
            for name in evidence.matches
        }
        rows = (
            f'<tr><th scope="row">{_text(name)}</th><td class="number">{share:.1%}</td>'
            f"<td>{_text(kinds[name])}</td></tr>"
            for name, share in evidence.matches.items()
        )
        yield _table(("Column", "Agree", "Differences"), rows, "Columns that differ")
    if evidence.cells:
        rows = (
            "<tr>" + "".join(f"<td>{_text(text)}</td>"
                             for text in (cell.row, cell.column, cell.left, cell.right, cell.kind)) + "</tr>"
            for cell in evidence.cells
        )  # fmt: skip
        heads = ("Row", "Column", _capital(evidence.left), _capital(evidence.right), "Difference")
        yield _table(heads, rows, "Changed cells", "cells")
    if evidence.samples:
        yield "<ul>" + "".join(f"<li>{_text(each)}</li>" for each in evidence.samples) + "</ul>"


def _table(heads: Sequence[str], rows: Iterable[str], caption: str, kind: str = "") -> str:
    """Draw a table that scrolls by itself where the screen is narrow; keys can scroll it, too."""
    columns = "".join(f'<th scope="col"{_NUMBER * (head in _NUMBERS)}>{_text(head)}</th>' for head in heads)
    return (
        f'<div class="wide" role="region" aria-label="{_text(caption)}" tabindex="0"><table class="{kind}">'
        f"<caption>{_text(caption)}</caption><thead><tr>{columns}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _text(text: str) -> str:
    return escape(plain(text))
