"""A report as JUnit XML: one test case for each check; a check that was not run is skipped."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from twice.verify.report.terminal import finding_lines
from twice.verify.report.texts import plain

if TYPE_CHECKING:
    from twice.verify.running import Report
    from twice.verify.trial import Outcome


def as_junit(report: Report, problem: str = "") -> str:
    """Return the XML; `problem` kept the pipeline from running at all, and becomes one test case with an error."""
    count = len(report.outcomes)
    skipped = sum(each.status == "not run" for each in report.outcomes)
    suite = ET.Element(
        "testsuite",
        name=f"twice verify {report.pipeline} {report.unit}",
        tests=str(count + bool(problem)),
        failures=str(len(report.failed)),
        errors=str(int(bool(problem))),
        skipped=str(skipped),
        time=f"{report.seconds:.3f}",
    )
    properties = ET.SubElement(suite, "properties")
    for name, value in (("unit", report.unit), ("seed", str(report.seed))):
        ET.SubElement(properties, "property", name=name, value=value)
    group = f"twice.verify.{report.pipeline}"
    if problem:
        case = ET.SubElement(suite, "testcase", classname=group, name="a clean run", time="0.000")
        ET.SubElement(case, "error", message=plain(problem.splitlines()[0])).text = plain(problem)
    for outcome in report.outcomes:
        _case(suite, group, outcome)
    if report.warnings:
        ET.SubElement(suite, "system-out").text = "\n".join(map(plain, report.warnings))
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=False).join(
        ('<?xml version="1.0" encoding="UTF-8"?>\n', "\n")
    )


def _case(suite: ET.Element, group: str, outcome: Outcome) -> None:
    case = ET.SubElement(suite, "testcase", classname=group, name=outcome.check, time=f"{outcome.seconds:.3f}")
    if outcome.status == "not run":
        ET.SubElement(case, "skipped", message=plain(outcome.summary))
    elif outcome.status == "failed":
        text = "\n\n".join("\n".join(finding_lines(finding)) for finding in outcome.findings)
        first = outcome.findings[0].what if outcome.findings else outcome.summary
        ET.SubElement(case, "failure", message=plain(first), type=outcome.check).text = text or plain(outcome.summary)
    else:
        ET.SubElement(case, "system-out").text = plain(outcome.summary)
