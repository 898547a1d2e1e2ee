"""A dbt incremental model appends.

Without `unique_key`, or with `incremental_strategy='append'`, dbt inserts whatever the model returns: running it
again for the same rows adds them again, also after a failure of a later model in the same build. A `unique_key`
beside `append` looks safe and is not used.

`insert_overwrite` and `microbatch` replace partitions and are fine; so is a pre-hook that deletes what the model
inserts. What `dbt_project.yml` and the model's properties set counts like its own config. It is a warning where no
project is found around a model without a config, and where the model leaves out the keys that it already has.

**Instead**:

    {{ config(materialized='incremental', unique_key='order_id', incremental_strategy='merge') }}
    {{ config(materialized='incremental', incremental_strategy='insert_overwrite', partition_by={…}) }}
    {{ config(materialized='incremental', incremental_strategy='microbatch', event_time='…', batch_size='day', …) }}
    # twice
    Table("lake.mart.orders", key=["order_id"], write=Merge(version="updated_at"))
"""

from __future__ import annotations

from collections.abc import Iterator

from twice.audit.findings import Finding, Severity
from twice.audit.model import DbtModel, Job, Mode, Write
from twice.audit.places import Place
from twice.audit.rules import finding
from twice.audit.rules.appends import known_by, removed_before

SEVERITY = Severity.ERROR

_NEEDS_KEY = frozenset({"", "merge", "delete+insert", "delete_insert", "default"})


def check(job: Job) -> Iterator[Finding]:
    """Look at the model's config."""
    model = job.dbt
    if model is None or model.materialized != "incremental":
        return
    reason = _reason(model)
    writes = [write for write in job.writes if write.origin == "model"]
    if not reason or any(_is_safe(job, write) for write in writes):
        return
    asks = any(known_by(write) is not None for write in writes)
    if asks and model.strategy == "append" and not model.unique_key:
        return  # that is what it wants: new keys only, and it says so
    name = next((write.target.last for write in job.writes if write.origin == "model"), "") or "the model"
    yield finding(
        __name__,
        _where(job, model),
        f"a second run of {name} inserts the same rows again: {reason}"
        + (", and only its check for existing rows prevents that" if asks else ""),
        severity=Severity.WARNING if (asks and not model.unique_key) or model.assumed else SEVERITY,
        instead="give it a unique_key with incremental_strategy='merge' or 'delete+insert', or use 'insert_overwrite' "
        "with partition_by",
        with_twice='Table("…", key=[…], write=Merge(version="…")) or Overwrite() by partition',
    )


def _reason(model: DbtModel) -> str:
    keyed = bool(model.unique_key) or bool(model.unique_key_text.strip())
    if model.strategy == "append":
        return "incremental_strategy 'append' does not use its unique_key" if keyed else "its strategy is 'append'"
    if model.strategy in _NEEDS_KEY and not keyed:
        strategy = f"incremental_strategy '{model.strategy}'" if model.strategy else "an incremental model"
        return f"{strategy} without unique_key only appends"
    return ""


def _where(job: Job, model: DbtModel) -> Place:
    """Return the line of the config that says it: the strategy, or else that the model is incremental."""
    word = "incremental_strategy" if model.strategy else "materialized"
    lines = range(model.place.line, min(len(job.lines), model.place.line + 30) + 1)
    return next((Place(number) for number in lines if word in job.line(number)), model.place)


def _is_safe(job: Job, write: Write) -> bool:
    before = removed_before(job, write)
    return before is not None and before.mode in {Mode.DELETE, Mode.TRUNCATE}
