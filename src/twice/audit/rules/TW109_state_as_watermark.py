"""A remembered value decides where the next run starts.

An Airflow Variable, an XCom of an earlier run, a state file or a sensor's cursor holds how far the last run came; the
job reads it, loads what is newer, and writes the new value back.

**On the second run** it starts where the first one ended: what the first run loaded wrongly cannot be loaded again.
If the job dies between the write and the update of the value, the same rows come twice; in the other order they never
come. Two runs at the same time overwrite each other's value, and clearing an old task reads today's value.

**Instead** load the window that the scheduler names, and let the target say nothing about progress:

```python
def sync(data_interval_start, data_interval_end): ...
```

With `twice` the ledger holds which windows are published, in the same step in which they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from twice.audit.findings import Finding, Severity
from twice.audit.model import Call, Job
from twice.audit.places import Place
from twice.audit.rules import finding

SEVERITY = Severity.WARNING
_WATERMARK = re.compile(
    r"last|latest|watermark|water_mark|checkpoint|cursor|since|offset|bookmark|state|high_?water|max_?(id|date|ts|updated)"
    r"|(updated|modified|processed|synced|loaded)_(at|until|to|id|date)",
    re.IGNORECASE,
)
_FILE_WRITES = frozenset({"write_text", "write_bytes"})
_FILE_READS = frozenset({"read_text", "read_bytes"})


def check(job: Job) -> Iterator[Finding]:
    """Look for a value that the same file reads and writes back."""
    for read in (*_variables(job), *_prior_xcoms(job), *_cursors(job), *_files(job)):
        name = read.texts[0] if read.texts and read.last != "update_cursor" else read.receiver or read.name
        yield finding(
            __name__,
            _asked(job, read) if read.last == "update_cursor" else read.place,
            f"the next run starts where {name} says, so a rerun skips what the first run loaded, and a crash before "
            "the value is written back loads it twice",
            instead="load the window of the run (data_interval_start to data_interval_end), not what is newer than "
            "last time",
            with_twice="twice run … --for DAY; the ledger holds which windows are published",
        )


def _variables(job: Job) -> Iterator[Call]:
    """Yield reads of an Airflow Variable that the same file sets."""
    written = {call.texts[0] for call in job.calls if _is_variable(call, "set") and call.texts}
    for call in job.calls:
        if _is_variable(call, "get") and call.texts and call.texts[0] in written:
            yield call


def _is_variable(call: Call, verb: str) -> bool:
    return call.name.endswith(f"Variable.{verb}")


def _prior_xcoms(job: Job) -> Iterator[Call]:
    """Yield XComs that are taken from earlier runs."""
    pushes = any(call.last == "xcom_push" for call in job.calls)
    for call in job.calls:
        if call.last == "xcom_pull" and pushes and "include_prior_dates" in call.keywords:
            yield call


def _cursors(job: Job) -> Iterator[Call]:
    """Yield where a Dagster cursor is moved by hand."""
    if job.orchestration.system == "dagster" or any(name.startswith("dagster") for name in job.imports):
        yield from (call for call in job.calls if call.last == "update_cursor")


def _asked(job: Job, write: Call) -> Place:
    """Return where the cursor is read that a call moves, or the call."""
    for number in range(1, write.place.line):
        column = job.line(number).find(f"{write.receiver}.cursor")
        if column >= 0:
            return Place(number, column + 1)
    return write.place


def _files(job: Job) -> Iterator[Call]:
    """Yield reads of a file of state that the same file writes back."""
    written = {_file_of(call) for call in job.calls if _opens(call, "w") or call.last in _FILE_WRITES} - {""}
    for call in job.calls:
        if (_opens(call, "r") or call.last in _FILE_READS) and _file_of(call) in written:
            yield call


def _opens(call: Call, mode: str) -> bool:
    if call.last != "open" or call.receiver or not call.texts:
        return False
    given = call.texts[1].strip("'\"") if len(call.texts) > 1 else "r"
    return given.startswith("w") if mode == "w" else given.startswith("r")


def _file_of(call: Call) -> str:
    """Return the file as written, if its name says that it holds progress."""
    text = call.texts[0] if call.last == "open" and call.texts else call.receiver
    return text if _WATERMARK.search(text) else ""
