"""Which effects reach their receivers a second time when the job runs twice."""

from __future__ import annotations

import re
from collections.abc import Iterator

from twice.audit.model import Effect, Job
from twice.audit.rules.appends import was_done_before

_SENDS = frozenset({"POST", "PUT", "PATCH"})
# The receiver finds the row by its key: PostgREST's on_conflict, an upsert endpoint, a search index's own id.
_UPSERTS = re.compile(r"[?&]on_conflict=|[/_?&=-]upserts?([/?&=_-]|$)|(merge|ignore)-duplicates", re.IGNORECASE)
# The end of an address that names the thing: putting the same there again changes nothing.
_NAMES_THE_THING = re.compile(r"[/=]\{[^/{}]+\}/?$|[/=][^/]*\{[^{}]+\}[^/]*$")


def repeated(job: Job, *kinds: str, inside: bool = False) -> Iterator[Effect]:
    """Yield the effects of some kinds that carry no key, have no guard, and do more than ask or warn; one per line."""
    told: set[tuple[str, int]] = set()
    for effect in job.effects:
        if effect.kind not in kinds or effect.has_key or was_done_before(effect.guarded_by):
            continue
        if bool(effect.inside) is not inside:
            continue
        if effect.purpose in {"token", "query", "alert"}:
            continue
        if effect.kind == "http" and not _changes_something(effect):
            continue
        if (effect.kind, effect.place.line) not in told:
            told.add((effect.kind, effect.place.line))
            yield effect


def _changes_something(effect: Effect) -> bool:
    method = effect.method.upper()
    if any(_UPSERTS.search(text) for text in (effect.url, *effect.arguments)):
        return False
    return method in _SENDS and not (method == "PUT" and bool(_NAMES_THE_THING.search(effect.url)))
