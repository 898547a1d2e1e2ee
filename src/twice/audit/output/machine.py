"""JSON, SARIF, GitHub annotations and JUnit."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from twice import __version__
from twice.audit.findings import Finding, Severity
from twice.audit.output.summary import Summary
from twice.audit.rules import Rule, rules

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_GITHUB = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def as_json(summary: Summary) -> str:
    """Write one JSON document, a finding per line."""
    data = document(summary)
    encode = json.JSONEncoder(ensure_ascii=False).encode
    findings = ",".join(f"\n    {encode(one)}" for one in data.pop("findings"))
    head = json.dumps(data, indent=2, ensure_ascii=False).removesuffix("\n}")
    return f'{head},\n  "findings": [{findings}\n  ]\n}}'


def document(summary: Summary) -> dict[str, Any]:
    """Return the JSON document as data."""
    known = rules()
    return {
        "version": __version__,
        "files": summary.files,
        "errors": summary.count(Severity.ERROR),
        "warnings": summary.count(Severity.WARNING),
        "infos": summary.count(Severity.INFO),
        "suppressed": summary.suppressed,
        "baseline": summary.baseline,
        "tests": summary.tests,
        "statistics": dict(summary.statistics()),
        "findings": [_finding(one, known) for one in summary.findings],
    }


def _finding(one: Finding, known: Mapping[str, Rule]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "code": one.code,
        "title": known[one.code].title if one.code in known else "",
        "severity": str(one.severity),
        "path": one.path,
        "line": one.line,
        "column": one.column,
        "end_line": one.place.last_line,
        "message": one.message,
        "instead": one.instead,
        "with_twice": one.with_twice,
        "source": one.source,
    }
    if one.fix is not None:
        found["fix"] = {"says": one.fix.says, "safe": one.fix.safe}
    return found


def as_sarif(summary: Summary) -> str:
    """Write SARIF 2.1.0, which code hosts show beside the lines."""
    known = rules()
    used = sorted({one.code for one in summary.findings})
    described = [_sarif_rule(known[code]) for code in used if code in known]
    results = [_sarif_result(one, used) for one in summary.findings]
    run = {
        "tool": {"driver": {"name": "twice audit", "version": __version__, "rules": described}},
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return json.dumps({"$schema": schema, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False)


def _sarif_rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.code,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.documentation},
        "help": {"text": rule.documentation, "markdown": rule.documentation},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
    }


def _sarif_result(one: Finding, used: Sequence[str]) -> dict[str, Any]:
    region: dict[str, Any] = {"startLine": one.line, "startColumn": max(1, one.column)}
    if one.place.last_line > one.line:
        region["endLine"] = one.place.last_line
    return {
        "ruleId": one.code,
        "ruleIndex": used.index(one.code),
        "level": _LEVELS[one.severity],
        "message": {"text": f"{one.message}. Instead: {one.instead}" if one.instead else one.message},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": _uri(one.path)}, "region": region}}],
    }


def _uri(path: str) -> str:
    from urllib.parse import quote

    return quote(path)


def as_github(summary: Summary) -> str:
    """Write the commands that GitHub turns into annotations."""
    return "\n".join(_annotation(one) for one in summary.findings)


def _annotation(one: Finding) -> str:
    place = f"line={one.line},endLine={one.place.last_line},col={one.column}"
    fields = f"file={_property(one.path)},{place},title={_property(one.code)}"
    message = one.message + (f"\nInstead: {one.instead}" if one.instead else "")
    return f"::{_GITHUB[one.severity]} {fields}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def as_junit(summary: Summary, fails: Severity) -> str:
    """Write JUnit XML: one test case per file; findings that fail the audit are failures."""
    by_file: dict[str, list[Finding]] = {}
    for one in summary.findings:
        by_file.setdefault(one.path, []).append(one)
    failing = sum(one.severity >= fails for one in summary.findings)
    clean = summary.files - len(by_file)
    lines = ['<?xml version="1.0" encoding="UTF-8"?>']
    lines.append(
        f'<testsuite name="twice audit" tests="{len(summary.findings) + clean}" failures="{failing}" errors="0">'
    )
    for path, found in by_file.items():
        lines.extend(_test_case(path, one, fails) for one in found)
    if clean > 0:
        lines.extend(
            f'  <testcase classname="twice audit" name="clean file {number}"/>' for number in range(1, clean + 1)
        )
    lines.append("</testsuite>")
    return _printable("\n".join(lines))


def _test_case(path: str, one: Finding, fails: Severity) -> str:
    name = f"{path}:{one.line} {one.code}"
    start = f"  <testcase classname={quoteattr(path)} name={quoteattr(name)}"
    body = escape(f"{one.message}\ninstead: {one.instead}\n{one.source}")
    if one.severity >= fails:
        return (
            f"{start}><failure type={quoteattr(one.code)} message={quoteattr(one.message)}>{body}</failure></testcase>"
        )
    return f"{start}><system-out>{body}</system-out></testcase>"


def _printable(text: str) -> str:
    """XML knows no control characters but tab and line ends."""
    return "".join(
        char
        for char in text
        if char in "\t\n\r" or (ord(char) >= 32 and not 0xD800 <= ord(char) <= 0xDFFF and char not in "\ufffe\uffff")
    )
