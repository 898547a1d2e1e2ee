"""The input is dropped, emptied or moved away at the end.

The job drops the staging table that another job filled, or moves the file that it has read. When a later step
fails and the job is run again, the input is gone: the rerun fails, or it loads nothing and reports success. A crash
between the load and the move loads the file twice.

Tables and files that the job made itself, such as a local copy, may go and are not reported.

**Instead**, leave the input where it is and choose by window; clean up by age, in a job of its own:

    … FROM raw.orders WHERE order_date = :day                    # the input stays, a rerun reads it again
    DELETE FROM staging.orders_incoming WHERE loaded_at < :a_month_ago
    # twice
    reads={"orders": raw_orders}: an input is read at one version for one window, and never changed
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from twice.audit.findings import Finding, Severity
from twice.audit.model import Call, Job, Mode, Write, same_table
from twice.audit.places import Place
from twice.audit.rules import finding

SEVERITY = Severity.WARNING

_MOVES = re.compile(
    r"^(shutil\.(move|rmtree)|os\.(remove|unlink|rename|replace|renames))$"
    r"|(^|\.)(delete_object|delete_objects|delete_blob|delete_file|deleteFile|rename_blob)$"
    r"|(^|\.)fs\.(mv|rm)$|^\.(unlink|rename|delete)$|(^|\.)(S3|GCS)DeleteObjectsOperator$"
)
_READS = re.compile(
    r"(^|\.)(read_csv|read_json|read_parquet|read_excel|read_table|read_fwf|read_orc|csv|json|parquet|orc|text|load|get_object"
    r"|DictReader|reader|open|read_text|read_bytes|download_as_text|download_as_string|download_as_bytes|\w+To\w+Operator)$"
)
_MAKES = re.compile(
    r"(^|\.)(download_file|download_fileobj|download_to_filename|download_blob|download_object|download_key|urlretrieve|copy|copyfile|copy2|to_csv|to_json|to_parquet|to_excel"
    r"|mkdtemp|mkstemp|NamedTemporaryFile|TemporaryDirectory|write_text|write_bytes|extractall|retrbinary|get|dump|savetxt|write_table)$"
)
# A helper of another file whose name says that it writes what it is given.
_LOADS = re.compile(
    r"(^|\.)(load|write|save|insert|store|upsert|append|copy)_(\w+_)?"
    r"(df|dataframe|data|rows|records|table|db|database|postgres|mysql|bigquery|redshift|snowflake|warehouse|dwh|sql)$",
    re.IGNORECASE,
)
_TEMPORARY = re.compile(r"te?mp|scratch|local", re.IGNORECASE)
_REMOVE = re.compile(r"\s*(?:REMOVE|RM)\s+(@[\w.$/]+)", re.IGNORECASE)
_WRITES = frozenset({Mode.CREATE, Mode.APPEND, Mode.OVERWRITE, Mode.OVERWRITE_PARTITIONS, Mode.UPSERT, Mode.MERGE})


def check(job: Job) -> Iterator[Finding]:
    """Look at tables that are emptied after they were read, and at files that are moved after they were read."""
    for write in job.writes:
        reader = _reader_of(job, write)
        if reader is not None:
            what = "dropped" if write.mode is Mode.DROP else "emptied"
            yield finding(
                __name__,
                write.place,
                f"{write.target.name} is {what} after {reader.target.name or 'the target'} was loaded from it: a rerun "
                "has nothing to load",
                instead="leave the input, choose from it by window, and delete it by age in a job of its own",
                with_twice="reads={…}: inputs are pinned to a version and never changed by a step",
            )
    yield from _moved_files(job)
    yield from _emptied_stages(job)


def _emptied_stages(job: Job) -> Iterator[Finding]:
    """Look at Snowflake's REMOVE @stage after a COPY, and at COPY … PURGE = TRUE."""
    for write in job.writes:
        if write.via == "copy" and write.options.get("purge") == "true":
            yield finding(
                __name__,
                write.place,
                f"PURGE removes the files once they are in {write.target.name or 'the table'}: a rerun finds "
                "nothing to load",
                instead="leave the files: COPY remembers what it has loaded; remove them by age in a job of their own",
                with_twice="an extract step gets the window and reads the same files again",
            )
    loads = [write.place.line for write in job.writes if write.via == "copy"]
    for number, line in enumerate(job.lines if loads else (), start=1):
        match = _REMOVE.match(line) if number > loads[0] else None
        if match:
            yield finding(
                __name__,
                Place(number),
                f"the files in {match[1]} are removed after line {loads[0]} has copied them: a rerun finds nothing",
                instead="leave the files: COPY remembers what it has loaded; remove them by age in a job of their own",
                with_twice="an extract step gets the window and reads the same files again",
            )


def _reader_of(job: Job, write: Write) -> Write | None:
    """Return the earlier write that reads a table which this one drops or empties, if another job filled it."""
    empties = write.mode in {Mode.DROP, Mode.TRUNCATE} or (write.mode is Mode.DELETE and write.predicate is None)
    if not empties or write.target.temporary or not write.target.name or write.target.kind in {"view", "path"}:
        return None
    if any(other.mode in _WRITES for other in (*job.earlier(write), *job.later(write))):
        return None
    for other in job.writes:
        if other.order >= write.order or other.query is None or other.target.same(write.target):
            continue
        if any(same_table(write.target.name, name) for name in other.sources):
            return other
    return None


def _moved_files(job: Job) -> Iterator[Finding]:
    # A script that only tidies up loads nothing.
    if not any(_moves(call.name) for call in job.calls):
        return
    if not job.writes and not any(_LOADS.search(call.name) for call in job.calls):
        return
    read: list[Call] = []
    made: set[str] = set()
    for call in sorted(job.calls, key=lambda one: one.order):
        if _moves(call.name):
            moved = _moved(call)
            if not moved or moved in made or _TEMPORARY.search(moved):
                continue
            by = {call.function} if call.function not in {"", "main", "run"} else None
            reader = next((one for one in read if (by is None or one.function in by) and _reads(one, moved)), None)
            if reader is not None:
                yield finding(
                    __name__,
                    call.place,
                    f"{moved} is moved or deleted after line {reader.place.line} has read it: a rerun does not find it",
                    instead="leave the file, choose the input by its date, and clean up by age in a job of its own",
                    with_twice="an extract step gets the window and reads the same files again",
                )
        elif _MAKES.search(call.name):
            made.update(call.texts[-1:])
            read.append(call)
        elif any(text.rpartition("=")[2] in {"w", "wb", "a", "x", "xb"} for text in call.texts[1:]):
            made.update(call.texts[:1])
        elif _READS.search(call.name):
            read.append(call)


@lru_cache(maxsize=4096)
def _moves(name: str) -> bool:
    return bool(_MOVES.search(name))


def _moved(call: Call) -> str:
    """Return the path that is moved, as far as it is known: unknown parts stand in braces."""
    if call.name in {".unlink", ".rename", ".delete"}:
        return f"{{{call.receiver}}}" if call.receiver.isidentifier() and not call.keywords else ""
    for text in call.texts:
        if text.startswith(("Key=", "key=", "keys=", "path=", "src=", "prefix=", "objects=")):
            return text.partition("=")[2]
    return call.texts[0] if call.texts and "=" not in call.texts[0] else ""


def _reads(read: Call, moved: str) -> bool:
    whole = moved.startswith("{") and moved.endswith("}")
    if (
        whole
        and read.receiver == moved[1:-1]
        and read.last.startswith(("download_as", "read_text", "read_bytes", "open"))
    ):
        return True
    # The key of an object is the end of the address under which it is read: s3://bucket/key.
    under = f"{moved.rstrip('/')}/" if "/" in moved else ""  # a folder goes with all that was read from it
    key = f"/{moved.lstrip('/')}" if not whole and "." in moved.rpartition("/")[2] else ""
    return any(
        text.partition("=")[2] == moved
        or text == moved
        or (whole and moved in text)
        or (key and text.endswith(key))
        or (under and text.startswith(under))
        for text in read.texts
    )
