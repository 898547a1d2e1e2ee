"""The wall clock decides what is loaded.

A filter, a join, a partition value, a path or a stored value is computed from the moment at which the job happens to
run: `CURRENT_DATE`, `GETDATE()`, `'today'::date`, `datetime.now()`, `F.current_date()`.

**On the second run** the clock says something else. The rerun of last Tuesday loads this Tuesday and leaves the
wanted day as it was; a job that waits in the queue past midnight skips a day; a backfill of a month loads one day
thirty times; two statements of one run may see two dates.

A clock that only leaves out rows of the future (`event_time <= now()`) is reported as `info`.

**Instead** take the date from outside and compute from it: a required argument, Airflow's `{{ ds }}` or
`data_interval_start`, a dbt variable, a bound parameter.

```sql
WHERE order_date = :run_date                    -- not CURRENT_DATE - 1
```

```python
orders.where(F.col("order_date") == F.lit(run_date))
```

With `twice` a step never asks for the time: it is handed its input cut to the window of the run (`twice run shop
--for 2026-04-25`), and there is no default date.

**Not meant** are clocks in logs, metrics, timers, mails, retention deletes and credentials. Columns that only say
when a row was loaded have their own code, TW102; a clock behind a missing parameter is TW103; one in a key is TW207.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from twice.audit.expressions import bounds
from twice.audit.findings import Finding, Severity
from twice.audit.model import DECIDING, Job, Mode, Use
from twice.audit.places import Place
from twice.audit.rules import finding
from twice.audit.rules.appends import is_record, records_run
from twice.audit.rules.stored import as_written, decides_call, declares, evidence, once

SEVERITY = Severity.ERROR
_PUTS = frozenset(
    {
        "put_object",
        "upload_file",
        "upload_fileobj",
        "blob",
        "upload_blob",
        "load_string",
        "load_file",
        "load_bytes",
        "put_file",
    }
)
_TIME_IN_NAME = re.compile(
    r"^(?!Body=)[^{]*\{[^}]*(now|today|date|time|stamp|\bts\b|day|year|month|%Y|\bdt\b|strftime)", re.IGNORECASE
)
_NO_DATA = re.compile(r"log|tmp|temp|backup|archive|error|metric|/test", re.IGNORECASE)
_SHELL_CLOCK = re.compile(r"\$\(date\b|`date\b")
_SHELL_DATE = re.compile(r"(date|day|dt|ds|month|start|end)\w*[ =]+[\"']?(\$\(date\b|`date\b)", re.IGNORECASE)
# What a session or token says about its own end is meant to be compared with the clock.
_EXPIRY = ("expir", "valid_until", "ttl", "locked_until", "lease_")


def check(job: Job) -> Iterator[Finding]:
    """Report each place that asks the clock and lets it decide data."""
    yield from _in_shell(job)
    yield from _uploads(job)
    yield from _handed(job)
    for use in once(use for use in job.used("clock", *(DECIDING - {"key"})) if _counts(job, use)):
        severity = evidence(job, use, SEVERITY) or SEVERITY
        if job.dbt is not None and job.dbt.materialized in {"view", "ephemeral"}:
            severity = Severity.WARNING
        if _leaves_out_future(use):
            severity = Severity.INFO
        yield finding(
            __name__,
            use.place,
            _message(job, use),
            severity=severity,
            instead=_instead(job, use),
            with_twice="let the step read its input, which is already cut to the window of the run; it needs no date",
        )


def _leaves_out_future(use: Use) -> bool:
    """Return whether the clock only keeps rows away that lie in the future: event_time <= now()."""
    if use.context != "filter" or use.query is None:
        return False
    clocks = [bound for filter_ in use.query.filters for bound in bounds(filter_) if bound.value.has("clock")]
    return bool(clocks) and all(bound.op in {"<", "<="} and not bound.value.args for bound in clocks)


def _in_shell(job: Job) -> Iterator[Finding]:
    """Yield commands of an orchestrator that pass `$(date …)` as a job's date."""
    for call in job.calls:
        if call.last.endswith("Operator") and any(_SHELL_DATE.search(text) for text in call.texts):
            lines = range(call.place.line, call.place.last_line + 1)
            line = next((number for number in lines if _SHELL_CLOCK.search(job.line(number))), call.place.line)
            yield finding(
                __name__,
                Place(line),
                "`$(date …)` is the date that the command passes on, so a rerun of an old day runs the job for today",
                instead=_instead(job, None),
                with_twice="twice run … --for {{ ds }}",
            )


def _uploads(job: Job) -> Iterator[Finding]:
    """Yield objects that are put into a bucket under a name that holds the time."""
    for use in once(use for use in job.used("clock", "argument") if use.detail.rpartition(".")[2] in _PUTS):
        names = [text for call in job.calls if call.place.line == use.used_at.line for text in call.texts]
        if not use.fallback and any(_TIME_IN_NAME.search(name) and not _NO_DATA.search(name) for name in names):
            yield finding(
                __name__,
                use.place,
                f"`{as_written(job, use)}` is part of the name under which the object is stored, so a rerun leaves a "
                "second copy beside the first",
                severity=Severity.WARNING,
                instead="name it by the date of the data, so that a rerun replaces it",
                with_twice="yield the rows from an extract: the run's window decides where they go",
            )


def _handed(job: Job) -> Iterator[Finding]:
    """Yield calls of procedures that are handed today as their date."""
    for use in once(use for use in job.used("clock", "argument") if decides_call(job, use)):
        if not use.fallback and not use.origin.fallback:
            yield finding(
                __name__,
                use.place,
                f"`{as_written(job, use)}` is the date that {use.detail} is called with, so a rerun of an old day "
                "works on today",
                severity=Severity.WARNING,
                instead="hand it the day that the run is for, as a parameter of the script",
                with_twice="twice run … --for 2026-04-25: the window of the run is given",
            )


def _counts(job: Job, use: Use) -> bool:
    """Return whether a use is judged here at all, so that a temporary file does not hide the input behind it."""
    return not _other_rule(job, use) and evidence(job, use, SEVERITY) is not None and not _only_read(job, use)


def _other_rule(job: Job, use: Use) -> bool:
    """Return whether it is not data (a default, an expiry), a fallback (TW103), or read when Airflow parses."""
    if (use.write is not None and declares(use.write)) or use.column.startswith(_EXPIRY):
        return True
    record = use.write is not None and (is_record(use.write.target) or records_run(job, use.write))
    if use.context == "stored" and record:
        return True  # a row per run says when it ran
    return use.fallback or use.origin.fallback or (use.origin.module_level and job.orchestration.system == "airflow")


def _only_read(job: Job, use: Use) -> bool:
    """In a SQL file a SELECT that writes nothing is a report, which may well be about today."""
    return job.language == "sql" and use.write is None and use.context in {"filter", "join", "input", "stored"}


def _message(job: Job, use: Use) -> str:
    target = use.write.target.name if use.write is not None else ""
    of, into = (f" of {target}", f" into {target}") if target else ("", "")
    column = f"`{use.column}`" if use.column else "a column"
    which = f"which {column} is loaded" if use.column else f"which rows{of} are loaded"
    changed = "changed" if use.write is not None and use.write.mode is Mode.UPDATE else "replaced"
    loads = f"decides {which}, so a rerun on another day loads other rows{into} than the run that it repeats"
    says = {
        "filter": loads,
        "join": loads,
        "predicate": f"decides which rows{of} are {changed}, so on another day a rerun reaches other rows",
        "partition": f"becomes the partition {column}{of}, so a rerun on another day writes another partition",
        "target": "is part of where the rows go, so a rerun on another day leaves a second copy beside the first",
        "input": "is part of what is read, so a rerun on another day reads another input",
    }
    stored = f"is stored in {column}{of}, so the same input gives another value on every run"
    return f"`{as_written(job, use)}` {says.get(use.context, stored)}"


def _instead(job: Job, use: Use | None) -> str:
    parameter = job.has_date_parameter()
    if parameter is not None:
        return f"use {parameter.expression or parameter.name}, which this job is already given"
    if job.orchestration.system == "airflow":
        return "use the logical date of the run: {{ ds }} in a template, data_interval_start in a callable"
    if job.dbt is not None:
        return "use a variable, '{{ var(\"as_of\") }}', that the scheduler passes with --vars"
    name = use.column if use is not None and use.context in {"filter", "predicate"} else ""
    return f"take the date as a required parameter and write {name or 'the column'} = :run_date"
