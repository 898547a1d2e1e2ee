"""The fleet on one page, for readers who decide and do not read code."""

from __future__ import annotations

from html import escape

from twice.audit.output.markdown import cell, code_cell
from twice.audit.ranking import FAMILIES, Fleet, Ranked

_MOST = 100


def headline(fleet: Fleet) -> str:
    """Return the state of the fleet in one sentence."""
    jobs = len(fleet.jobs)
    if not jobs:
        return "No jobs were found."
    if not fleet.unsafe and not fleet.doubtful:
        return f"Nothing was found in {jobs} jobs."
    text = f"{fleet.unsafe} of {jobs} jobs corrupt data when they run twice"
    if fleet.retried_and_unsafe:
        text += f", and {fleet.retried_and_unsafe} of these are retried automatically"
    if fleet.doubtful:
        text += f"; {fleet.doubtful} more are doubtful"
    return f"{text}."


def where_to_start(fleet: Fleet) -> str:
    """Return how much the first few repairs improve."""
    count = min(10, sum(job.risk > 0 for job in fleet.jobs))
    if count < 1:
        return ""
    first = "The first job carries" if count == 1 else f"The first {count} jobs carry"
    return f"{first} {fleet.share_of_first(count)} % of the risk."


def _why(job: Ranked) -> str:
    return job.worst.message if job.worst is not None else ""


def _runs(job: Ranked) -> str:
    parts = [job.schedule] if job.schedule and job.schedule != "None" else []
    if job.retries:
        parts.append(f"{job.retries} {'retry' if job.retries == 1 else 'retries'}")
    return ", ".join(parts)


def _more(risky: list[Ranked]) -> str:
    return f"… and {len(risky) - _MOST} more with less risk."


def as_markdown(fleet: Fleet) -> str:
    """Write the page as Markdown."""
    lines = ["# Which jobs break when they run twice", "", headline(fleet), where_to_start(fleet), ""]
    lines += [
        "| Jobs | Count |",
        "|---|---|",
        f"| a rerun corrupts data | {fleet.unsafe} |",
        f"| a rerun may do harm | {fleet.doubtful} |",
        f"| nothing found | {fleet.clean} |",
        "",
    ]
    families = [row for row in fleet.families() if row[0] in FAMILIES]
    if families:
        lines += ["## What is wrong", "", "| What | Jobs | What it means |", "|---|---|---|"]
        lines += [
            f"| {FAMILIES[family][0]} ({family}xx) | {jobs} | {FAMILIES[family][1]} |" for family, jobs in families
        ]
        lines.append("")
    risky = [job for job in fleet.jobs if job.risk > 0]
    if risky:
        lines += [
            "## In which order to repair them",
            "",
            "| # | Job | Risk | Errors | Warnings | Runs | On the second run |",
            "|---|---|---|---|---|---|---|",
        ]
        lines += [
            f"| {number} | {code_cell(job.path)} | {job.risk:g} | {job.errors} | {job.warnings} "
            f"| {cell(_runs(job))} | {cell(_why(job))} |"
            for number, job in enumerate(risky[:_MOST], start=1)
        ]
        if len(risky) > _MOST:
            lines += ["", _more(risky)]
    lines += [
        "",
        "Risk = weight of the findings × how often the job is repeated (retries, schedule) × how much it writes.",
    ]
    return "\n".join(lines).rstrip() + "\n"


_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}"
    "body{color:#1a1a1a;background:#fff}"
    "h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2rem}table{border-collapse:collapse;width:100%}"
    "th,td{text-align:left;padding:.35rem .6rem;border-bottom:1px solid #ddd;vertical-align:top}td.n{text-align:right}"
    ".bar{display:flex;height:1.4rem;border-radius:4px;overflow:hidden;margin:1rem 0}"
    ".bar span{color:#fff;font-size:.8rem;padding-left:.4rem;white-space:nowrap;overflow:hidden}"
    ".e{background:#b3261e}.w{background:#b26a00}.c{background:#2e7d32}code{font-size:.9em}"
    "@media(prefers-color-scheme:dark){body{background:#161616;color:#eee}th,td{border-color:#444}}"
)


def as_html(fleet: Fleet) -> str:
    """Write the page as HTML that needs nothing beside it."""
    total = max(1, len(fleet.jobs))
    bars = "".join(
        f'<span class="{kind}" style="width:{100 * count / total:.1f}%" title="{escape(name)}">{count}</span>'
        for kind, count, name in (
            ("e", fleet.unsafe, "a rerun corrupts data"),
            ("w", fleet.doubtful, "a rerun may do harm"),
            ("c", fleet.clean, "nothing found"),
        )
        if count
    )
    families = "".join(
        f"<tr><td>{escape(FAMILIES[family][0])} ({escape(family)}xx)</td><td class=n>{jobs}</td>"
        f"<td>{escape(FAMILIES[family][1])}</td></tr>"
        for family, jobs in fleet.families()
        if family in FAMILIES
    )
    risky = [job for job in fleet.jobs if job.risk > 0]
    rows = "".join(
        f"<tr><td class=n>{number}</td><td><code>{escape(job.path)}</code></td><td class=n>{job.risk:g}</td>"
        f"<td class=n>{job.errors}</td>"
        f"<td class=n>{job.warnings}</td><td>{escape(_runs(job))}</td><td>{escape(_why(job))}</td></tr>"
        for number, job in enumerate(risky[:_MOST], start=1)
    )
    more = f"<p>{_more(risky)}</p>" if len(risky) > _MOST else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Which jobs break when they run twice</title><style>{_STYLE}</style></head><body>"
        f"<h1>Which jobs break when they run twice</h1><p>{escape(headline(fleet))} {escape(where_to_start(fleet))}</p>"
        f'<div class="bar" role="img" aria-label="{fleet.unsafe} unsafe, {fleet.doubtful} doubtful, '
        f'{fleet.clean} clean">{bars}</div>'
        f"<h2>What is wrong</h2><table><tr><th>What<th>Jobs<th>What it means</tr>{families}</table>"
        "<h2>In which order to repair them</h2>"
        "<table><tr><th>#<th>Job<th>Risk<th>Errors<th>Warnings<th>Runs<th>On the second run</tr>"
        f"{rows}</table>{more}<p>Risk = weight of the findings × how often the job is repeated (retries, schedule) × "
        "how much it writes.</p>"
        "</body></html>\n"
    )
