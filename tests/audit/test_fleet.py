"""`--rank` and its pages: every job counted once, every path in its cell."""

from __future__ import annotations

from pathlib import PurePath

from twice.audit.auditing import Facts, FileResult, audit_text
from twice.audit.config import AuditConfig
from twice.audit.findings import Finding, Severity
from twice.audit.output import fleet as pages
from twice.audit.output.markdown import as_markdown
from twice.audit.output.summary import Summary
from twice.audit.places import Place
from twice.audit.ranking import Fleet, rank


def finding(code, path="a.py", line=1):
    return Finding(code, Severity.ERROR, Place(line), "it breaks", path=path)


def fleet(*results):
    return Fleet(rank(results))


def test_families_are_counted_from_all_findings():
    often = [finding(f"TW30{number}", line=line) for number in range(1, 7) for line in (1, 2)]
    result = FileResult("a.py", (*often, finding("TW501")), facts=Facts(writes=1))
    assert fleet(result).families() == [("TW3", 1), ("TW5", 1)]


def test_only_jobs_are_counted_as_jobs():
    texts = {
        "helpers.py": "def double(x):\n    return 2 * x\n",
        "settings.py": "COLUMNS = ['a', 'b']\n",
        "tests/test_a.py": 'spark.table("x").write.mode("append").saveAsTable("core.b")\n',
        "write.py": 'spark.table("x").write.mode("overwrite").saveAsTable("core.b")\n',
        "send.py": 'import requests\n\nrequests.post("https://x/y", json={})\n',
        "dag.py": 'from airflow import DAG\n\nwith DAG("a", schedule="@daily") as dag:\n    pass\n',
    }
    results = [audit_text(path, text, AuditConfig()) for path, text in texts.items()]
    assert sorted(PurePath(job.path).name for job in fleet(*results).jobs) == ["dag.py", "send.py", "write.py"]


def test_a_page_that_is_cut_says_so():
    results = [FileResult(f"{number}.py", (finding("TW301"),), facts=Facts(writes=1)) for number in range(130)]
    assert "… and 30 more with less risk." in pages.as_html(fleet(*results))
    assert "… and 30 more with less risk." in pages.as_markdown(fleet(*results))
    assert "more with less risk" not in pages.as_html(fleet(*results[:100]))


def test_a_path_stays_in_its_cell():
    path = "jobs/a|b `c`.py"
    shown = "`` jobs/a\\|b `c`.py ``"
    page = pages.as_markdown(fleet(FileResult(path, (finding("TW301", path),), facts=Facts(writes=1))))
    (row,) = [line for line in page.splitlines() if "jobs/a" in line]
    assert row.startswith(f"| 1 | {shown} | ")
    assert f"## {shown}".replace("\\|", "|") in as_markdown(Summary(1, [finding("TW301", path)]))
