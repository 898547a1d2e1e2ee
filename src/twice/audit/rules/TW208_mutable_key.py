"""Rows are found by what people change.

The merge key, the conflict target or dbt's `unique_key` is an e-mail address, a phone number, an address or a name.

**On the second run**, or in the first after a change, the row is not found: the customer with a new address becomes a
second customer and the old one stays for ever. A rerun of an older day brings the old address back as a row of its
own. And two people can share a name.

**Instead** merge by an identifier that never changes, and keep the other as a column:

```sql
MERGE INTO customers t USING changes s ON t.customer_id = s.customer_id
```

With `twice`: `Table(…, key=["customer_id"], mutable=["email"])`: a mutable column in the key is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from twice.audit.findings import Finding, Severity
from twice.audit.model import Job, Mode, Write
from twice.audit.places import Place
from twice.audit.rules import finding
from twice.audit.vocabulary import is_mutable_column

SEVERITY = Severity.WARNING
_BY_KEY = frozenset({Mode.MERGE, Mode.UPSERT, Mode.INSERT_NEW})
_OF_PEOPLE = re.compile(
    r"e_?mail|phone|mobile|telephone|address|street|(first|last|full|sur|given|family|middle|display|customer|company"
    r"|employee|contact|account|nick)_?name",
    re.IGNORECASE,
)
_PEOPLE = re.compile(
    r"customer|user|person|people|contact|employee|member|patient|client|supplier|vendor|student|lead", re.IGNORECASE
)

_NAMED_PERSON = re.compile(
    r"^(customer|person|contact|employee|member|patient|client|student|host|guest|author|reviewer|buyer|seller|driver"
    r"|passenger|teacher|doctor|manager)_?(full_?)?name$",
    re.IGNORECASE,
)


def check(job: Job) -> Iterator[Finding]:
    """Look at merge keys that are made of mutable columns only."""
    for write in job.writes:
        if write.mode not in _BY_KEY or not write.key or write.target.is_scratch:
            continue
        mutable = all(is_mutable_column(column) for column in write.key)
        if any(_names_person(column, write.key) or (mutable and _changes(column, write)) for column in write.key):
            key = ", ".join(write.key)
            yield finding(
                __name__,
                _place(job, write),
                f"{write.target.name or 'the table'} finds its rows by {key}: when that changes, the next run adds a "
                "second row and the old one stays",
                instead="merge by an identifier that never changes, such as an id",
                with_twice=f'Table(…, key=["…_id"], mutable=["{write.key[0]}"])',
            )


def _names_person(column: str, key: tuple[str, ...]) -> bool:
    """Return whether a person is found by name, though next to another id: listing_id, reviewer_name."""
    person = _NAMED_PERSON.match(column)
    others = [name for name in key if name != column]
    return person is not None and not any(name.startswith(person[1]) or name in {"id", "key"} for name in others)


def _changes(column: str, write: Write) -> bool:
    return bool(_OF_PEOPLE.search(column)) or (column == "name" and bool(_PEOPLE.search(write.target.last)))


def _place(job: Job, write: Write) -> Place:
    if job.dbt is not None and write.origin == "model":
        first = job.dbt.place.line
        lines = range(first, len(job.lines) + 1)
        return Place(next((number for number in lines if "unique_key" in job.line(number)), first))
    return write.merge.on.place if write.merge is not None and write.merge.on is not None else write.place
