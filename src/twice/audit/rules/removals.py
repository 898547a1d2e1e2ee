"""Files and folders that a job removes before it writes them again."""

from __future__ import annotations

import re

from twice.audit.model import Job, Write

_REMOVES = re.compile(
    r"(^|\.)(fs\.(rm|delete)|rmtree|rmdir|unlink|os\.remove|delete_(objects?|dir|directory|folder|prefix|blobs?|files?)|rm|fs_rm)$"
)


def removes_files(job: Job, write: Write) -> bool:
    """Return whether the file or folder that is added to is removed in a line above: dbutils.fs.rm, shutil.rmtree."""
    name = write.target.name.rstrip("/")
    if write.target.kind != "path" or not name:
        return False
    return any(
        call.place.line < write.place.line and _REMOVES.search(call.name) and _names(call.texts, name)
        for call in job.calls
    )


def _names(texts: tuple[str, ...], target: str) -> bool:
    return any(text.lower().rstrip("/") == target for text in texts)
