"""Reports: lines for a terminal, JUnit XML and an HTML page say the same, and hold whatever a value holds."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from twice.verify.evidence import Cell, Evidence
from twice.verify.report.junit import as_junit
from twice.verify.report.page import as_html
from twice.verify.report.terminal import finding_lines, headline, table, write_rest
from twice.verify.report.texts import plain
from twice.verify.running import Report
from twice.verify.trial import Finding, Outcome

ODD = "</td><script>alert('x')</script> & \"it's\" ]]> \x00\x1b[31m"
VOID = {"meta", "br"}


def finding(cells: int = 2, changed: int = 2, value: str = "2") -> Finding:
    evidence = Evidence(
        "after one run",
        "after the second run",
        (3, 4),
        0,
        1,
        changed,
        {"o'clock": 0.25},
        {"o'clock": {"value": changed}},
        tuple(Cell(f"id={number}", "o'clock", "1", value, "value") for number in range(cells)),
        ("only after the second run: id=9",),
        looked_at=cells,
    )
    return Finding(
        "run-twice",
        "facts",
        "lake.core.facts",
        "a unit that is run twice has the same rows",
        "its rows differ after the second run",
        "look at current_timestamp (jobs.py:7)",
        "compute the rows from the inputs",
        "twice verify shop --for 2026-04-25 --check run-twice --seed 7",
        evidence,
    )


def report(*found: Finding) -> Report:
    outcomes = [
        Outcome("run-twice", "same rows", "failed" if found else "passed", f"{len(found)} found", found, 2.5),
        Outcome("deterministic", "inputs decide", "passed", "5 clean runs agree", (), 1.25),
        Outcome("crash", "killed anywhere", "not run", "another process cannot import the pipeline", (), 0.0),
    ]
    return Report("shop", "2026-04-25", 7, outcomes, ["each input was sampled"], {"lake.raw.orders": 3}, 4.0)


def test_the_table_has_a_row_for_each_check():
    assert table(report(finding())) == [
        ["run-twice", "failed", "1 found", "2.5"],
        ["deterministic", "passed", "5 clean runs agree", "1.2"],
        ["crash", "not run", "another process cannot import the pipeline", "0.0"],
    ]
    assert headline(report(finding())) == "shop 2026-04-25: 1 passed, 1 failed, 1 not run (seed 7, 4.0 s)"


def test_a_finding_goes_from_the_promise_to_the_command_that_repeats_it():
    assert list(finding_lines(finding())) == [
        "run-twice failed: facts (lake.core.facts): its rows differ after the second run",
        "  promise: a unit that is run twice has the same rows",
        "  3 rows after one run, 4 after the second run; 1 only after the second run; 2 changed",
        "  o'clock: 25.0% agree; value (2)",
        "    row   column   after one run  after the second run  difference",
        "    id=0  o'clock  1              2                     value",
        "    id=1  o'clock  1              2                     value",
        "  only after the second run: id=9",
        "  likely cause: look at current_timestamp (jobs.py:7)",
        "  fix: compute the rows from the inputs",
        "  repeat: twice verify shop --for 2026-04-25 --check run-twice --seed 7",
    ]


def test_the_rest_of_a_long_difference_is_in_a_file(tmp_path: Path):
    [(long, file)] = write_rest(report(finding(cells=30, changed=400)), tmp_path / "new")
    assert file is not None
    lines = list(finding_lines(long, file))
    assert "    … and 20 more cells" in lines
    assert f"  more cells: {file}" in lines
    assert "  o'clock: 25.0% agree; value (400) in 30 of 400 rows" in lines
    text = file.read_text().splitlines()
    assert sum("o'clock  1" in line for line in text) == 30
    assert text[-1] == "these are cells of 30 of the 400 rows that changed"
    assert write_rest(report(finding()), tmp_path / "none") != []
    assert not (tmp_path / "none").exists(), "a short difference needs no file"


def test_names_of_the_sandbox_and_secrets_are_not_shown():
    assert plain("verify_lake.c3_core.facts and verify_c3_app.main.t") == "lake.core.facts and app.main.t"
    assert plain("`verify_lake`.`c12_core`.facts") == "`lake`.`core`.facts"
    assert "s3cret" not in plain("postgresql://ana:s3cret@db/x")


def suite_of(text: str) -> ET.Element:
    return ET.fromstring(text)[0]  # noqa: S314 - our own text


def test_junit_has_one_test_case_for_each_check():
    suite = suite_of(as_junit(report(finding())))
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "3",
        "failures": "1",
        "errors": "0",
        "skipped": "1",
    }
    cases = {case.get("name"): case for case in suite.iter("testcase")}
    assert list(cases) == ["run-twice", "deterministic", "crash"]
    assert "repeat: twice verify shop" in cases["run-twice"].find("failure").text
    assert cases["crash"].find("skipped").get("message") == "another process cannot import the pipeline"
    assert [child.tag for child in cases["deterministic"]] == ["system-out"]


def test_a_pipeline_that_cannot_run_is_one_error_in_junit():
    suite = suite_of(as_junit(Report("shop", "2026-04-25", 1), "step x failed\n  next: mend it"))
    assert (suite.get("tests"), suite.get("errors"), suite.get("failures")) == ("1", "1", "0")
    assert suite.find("testcase/error").get("message") == "step x failed"


class Page(HTMLParser):
    """The tags and texts of a page; a tag that is not closed is an error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.texts.append(data)

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.tags)


def test_the_page_is_complete_and_needs_nothing_beside_it():
    page = Page(as_html(report(finding())))
    text = " ".join(page.texts)
    for said in (
        "✗ failed",
        "✓ passed",
        "– not run",
        "5 clean runs agree",
        "each input was sampled",
        "o'clock",
        "25.0%",
    ):
        assert said in text
    assert "twice verify shop --for 2026-04-25 --check run-twice --seed 7" in text
    assert not {"script", "link", "img", "iframe"} & {name for name, _ in page.tags}
    assert not [attributes for _, attributes in page.tags if {"src", "href", "srcset"} & set(attributes)]
    assert "url(" not in as_html(report(finding()))
    assert ("html", {"lang": "en"}) in page.tags
    assert any(attributes.get("name") == "viewport" for _, attributes in page.tags)
    assert "prefers-color-scheme: dark" in as_html(report())


def test_the_page_is_accessible():
    page = Page(as_html(report(finding())))
    assert page.count("table") == page.count("caption") == page.count("thead") == 4
    assert all(attributes.get("scope") in ("col", "row") for name, attributes in page.tags if name == "th")
    assert (page.count("main"), page.count("h1")) == (1, 1)
    regions = [attributes for _, attributes in page.tags if attributes.get("role") == "region"]
    assert all(attributes["aria-label"] and attributes["tabindex"] == "0" for attributes in regions)
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("write", [as_html, as_junit])
def test_whatever_a_value_holds_is_only_text(write):
    text = write(report(finding(value=ODD)), ODD)
    assert "\x00" not in text
    assert "\x1b" not in text
    if write is as_junit:
        failure = suite_of(text).find(".//failure").text
        assert "</td><script>alert('x')</script> & \"it's\" ]]>" in failure
    else:
        page = Page(text)
        assert page.count("script") == 0
        assert any("<script>alert('x')</script>" in each for each in page.texts)


def test_a_pipeline_that_cannot_run_is_said_on_the_page():
    text = " ".join(Page(as_html(Report("shop", "2026-04-25", 1), "step x failed")).texts)
    assert "The pipeline cannot run" in text
    assert "No check was run." in text
