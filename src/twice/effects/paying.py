"""Pay the effects of a step: for every published partition, what is owed by its own state.

It makes no difference whether this run published anything: a run that was killed after its publish is paid for by
the next one, which finds nothing to change.
"""

from __future__ import annotations

import base64
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from functools import cache as cached
from functools import partial
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import functions as F
from pyspark.sql import types as T

from twice.content.filters import partition_filter
from twice.content.rows import column
from twice.effects.calls import Answer, payload_text, without_text
from twice.effects.driving import Due, Paid, drive, fingerprint_of
from twice.effects.once import problem
from twice.effects.policies import SKIPPED, Mode, Policy
from twice.engine.run import task_of
from twice.errors import KeyViolation, SchemaRefused, StepFailed, TwiceError, UsageError
from twice.ledger import CONFIRMED, SUPPRESSED, UNKNOWN, Subject, Wanted
from twice.model.effects import Retry
from twice.model.keys import key_hash
from twice.model.scopes import Scope
from twice.model.tombstones import PROPERTY, Tombstones

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twice.engine.attempt.task import Task
    from twice.engine.plan import PlannedStep
    from twice.engine.run import Runtime
    from twice.ledger import Output
    from twice.model.effects import Effect
    from twice.model.pipelines import Pipeline
    from twice.model.windows import Window

# As many problems as a message names.
_SHOWN = 5
_AT_ONCE = 500
_PROGRESS_SECONDS = 2.0
_RECALLED = "the table knows that it was settled; the ledger did not"


@dataclass
class EffectResult:
    """What a run did about one effect of one scope."""

    effect: str
    scope: str
    states: Counter[str] = field(default_factory=Counter)
    called: int = 0
    errors: list[TwiceError] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The result in words."""
        states = ", ".join(f"{count} {state}" for state, count in sorted(self.states.items()))
        return f"{states} ({self.called} called now)" if states else "nothing owed"

    def to_json(self) -> dict[str, object]:
        """Return the result as JSON scalars."""
        return {
            "effect": self.effect,
            "scope": self.scope,
            "states": dict(self.states),
            "called": self.called,
            "errors": [str(error) for error in self.errors],
        }


def pay(
    runtime: Runtime,
    pipeline: Pipeline,
    planned: PlannedStep,
    run: str,
    *,
    mode: Mode = "normal",
    suppress: Literal["", "undeclared", "all"] = "",
    names: Sequence[str] = (),
    keys: Sequence[str] = (),
    abandoned: Callable[[], bool] = lambda: False,
) -> list[EffectResult]:
    """Pay, or record as suppressed, the effects after a step's table for the partitions of a planned step.

    `suppress`: nothing, what is not declared with `in_backfill=True`, or all. `names` and `keys` select effects and
    business keys.
    """
    wanted = [each for each in pipeline.effects_after(planned.step.writes) if not names or each.name in names]
    if not wanted or planned.step.shadow_of is not None:
        return []
    task = replace(task_of(runtime, pipeline, planned, run), abandoned=abandoned)
    known = cached(lambda: Tombstones.read(task.store.remembered(task.session, planned.step.writes, PROPERTY)))
    outputs = {
        output.scope: output for output in task.ledger.outputs.held(planned.step.writes.name, planned.target.scope)
    }
    return [
        _Paying(task, effect, partition, outputs[partition], mode, frozenset(keys), known).pay(
            suppress=suppress == "all" or (suppress == "undeclared" and not effect.in_backfill)
        )
        for effect in wanted
        for partition in planned.target.partitions
        if partition in outputs  # a partition that its gates refused is not published
    ]


@dataclass
class _Paying:
    """One effect for one partition."""

    task: Task
    effect: Effect
    partition: Scope
    output: Output
    mode: Mode
    keys: frozenset[str]
    # What the table itself knows of its effects.
    known: Callable[[], Tombstones]

    def pay(self, *, suppress: bool) -> EffectResult:
        ledger, effect, subject = self.task.ledger, self.effect, self._subject()
        result = EffectResult(effect.name, self.task.target.name(self.partition))
        paid_for = ledger.effects.paid(self.task.pipeline.name, effect.name, [subject.scope]).get(subject.scope)
        several = suppress and len(self._units()) > 1  # only the last of them may be paid
        if self.mode == "normal" and paid_for == self.output.digest and not several:
            return result
        if suppress:
            return self._suppress(result, recall=paid_for is None)
        settled = True
        policy = Policy(effect.on_unknown, effect.on_change, effect.attempts, effect.timeout, self.mode)
        try:
            if self.mode != "again" and paid_for is None:
                self._recall()
            paid = drive(
                ledger, self._due(), policy, run=self.task.run, parallel=effect.parallel, pace=self._pace,
                stop=self.task.abandoned,
            )  # fmt: skip
            for each in self._reported(paid, result):
                settled &= self._count(each, result)
        except TwiceError as error:
            result.errors.append(error)
            return result
        if settled and not self.keys and not self.task.abandoned():
            sent = set(result.states) <= {CONFIRMED}
            ledger.effects.set_paid(subject, self.output.digest, sum(result.states.values()), sent=sent)
        return result

    def _reported(self, paid: Iterator[Paid], result: EffectResult) -> Iterator[Paid]:
        """Report the progress at intervals, and at the end if something was called."""
        reported = time.monotonic()
        for each in paid:
            yield each
            if time.monotonic() - reported > _PROGRESS_SECONDS:
                reported = time.monotonic()
                self.task.report("sending", f"{self.effect.name}: {result.text}")
        if result.called:
            self.task.report("sending", f"{self.effect.name}: {result.text}")

    def _suppress(self, result: EffectResult, *, recall: bool) -> EffectResult:
        """Record what is not sent, key by key: what comes later is sent, and what is known stays as it is."""
        try:
            if recall:
                self._recall()
            for batch in self._subjects():
                result.states[SUPPRESSED] += self.task.ledger.effects.suppress(batch)
        except TwiceError as error:
            result.errors.append(error)
        return result

    def _recall(self) -> None:
        """Record what the table knows and the ledger does not: it was restored from a backup."""
        name = f"{self.task.pipeline.name}.{self.effect.name}"
        if self.known().cover(name, self._subject().scope):
            for batch in self._subjects():
                self.task.ledger.effects.adopt(batch, _RECALLED)

    def _subjects(self) -> Iterator[list[Wanted]]:
        """Yield what the effect is about, in batches, without what it would send."""
        subjects = (
            (self._subject(key) for key, _ in self._groups(only_keys=True))
            if self.effect.key
            else (self._subject(unit=unit) for unit in self._units())
        )
        while batch := [Wanted(subject, "") for subject in islice(subjects, _AT_ONCE)]:
            yield batch

    def _count(self, paid: Paid, result: EffectResult) -> bool:
        """Count an effect; return whether nothing is owed and no person has to decide."""
        record = paid.record
        result.states[record.state] += 1
        result.called += paid.called
        settled = record.state in (CONFIRMED, SUPPRESSED) or (record.state == UNKNOWN and record.note == SKIPPED)
        doubled = paid.why == "lost" and paid.called and not isinstance(self.effect.on_unknown, Retry)
        wrong = not settled or doubled or paid.why == "changed"
        if wrong and paid.why != "held" and len(result.errors) < _SHOWN:
            result.errors.append(problem(str(record.subject), record, paid.why))
        return settled and paid.is_current and paid.why not in ("changed", "held")

    def _subject(self, business_key: str = "", unit: Scope | None = None) -> Subject:
        scope = unit or self._units()[-1]
        return Subject(self.task.pipeline.name, self.effect.name, scope, business_key, self.task.step.writes.name)

    def _units(self) -> list[Scope]:
        """Return what an effect without a key can be about: the partition.

        Of a table without partitions, the units of the run: what is sent is about the last of them, however many a
        run or a chunk takes together.
        """
        task, window = self.task, self.task.scope.window
        if self.partition.window or window is None:
            return [self.partition if self.partition.window else task.scope]
        units = task.pipeline.grain.partitions(window, task.pipeline.zone)
        return [Scope(unit, task.scope.dimensions) for unit in units]

    def _rows(self) -> DataFrame:
        task, table = self.task, self.task.step.writes
        rows = task.store.read(task.session, table, task.store.version(task.session, table))
        return rows.where(partition_filter(task.target, self.partition))

    def _due(self) -> Iterator[Due]:
        if not self.effect.key:
            rows = self._rows()
            about = {"rows": self.output.rows, "digest": self.output.digest}
            if (due := self._one(self._subject(), rows, about)) is not None:
                yield due
            return
        for business_key, rows_of_key in self._groups():
            if self.keys and business_key not in self.keys:
                continue
            # In a fixed order: Spark's differs from run to run.
            listed = sorted((_plain(row.asDict(recursive=True)) for row in rows_of_key), key=payload_text)
            if (due := self._one(self._subject(business_key), listed, listed, business_key)) is not None:
                yield due

    def _groups(self, *, only_keys: bool = False) -> Iterator[tuple[str, Iterator[Any]]]:
        """Yield the rows of each business key; refuse rows without one before anything is sent."""
        rows, names = self._rows(), self.effect.key
        if missing := [name for name in names if name not in rows.columns]:
            raise SchemaRefused(
                f"effect {self.effect.name}: {self.task.step.writes.name} has no column {', '.join(missing)}, which "
                f"its key needs; it has {', '.join(rows.columns)}",
                unchanged="nothing was sent",
            )
        missing_key = (column(name).isNull() | (column(name).cast("string") == "") for name in names)
        nulls = F.greatest(*missing_key, F.lit(False))
        if without := rows.where(nulls).count():
            raise KeyViolation(
                f"effect {self.effect.name}: {without} rows of {self.task.target.name(self.partition)} have no "
                f"{', '.join(names)}: without a key nothing can be sent once",
                unchanged="nothing was sent",
                next_step="filter these rows out in the step, or give them a key",
            )
        # Python would show instants in the zone of its machine: a key must not depend on that.
        instants = [each.name for each in rows.schema.fields if isinstance(each.dataType, T.TimestampType)]
        rows = rows.withColumns({name: column(name).cast("string") for name in instants})
        rows = rows.select(*(column(name) for name in names)).distinct() if only_keys else rows
        ordered = rows.orderBy(*(column(name) for name in names)).toLocalIterator()
        for values, group in groupby(ordered, key=lambda row: tuple(row[name] for name in names)):
            shown = [str(_plain(value)) for value in values]
            if set(names) & set(self.task.step.writes.personal):
                yield key_hash(*shown), group
            else:
                yield shown[0] if len(shown) == 1 else json.dumps(shown), group

    def _one(self, subject: Subject, rows: object, about: object, business_key: str = "") -> Due | None:
        """Describe one effect; None if its function has nothing to send."""
        effect = self.effect
        offered = {"rows": rows, "window": self._window(), "business_key": business_key}
        if effect.to is None:
            text = payload_text(about)
            due = Due(self._wanted(subject, text), partial(_called, effect, offered))
        else:
            payload = self._payload(offered)
            if payload is None:
                return None
            text = self._text(payload)
            private = bool(self.task.step.writes.personal)
            due = Due(self._wanted(subject, text), partial(_sent, effect, payload, private=private))
        if not callable(effect.on_change):
            return due
        return replace(due, correct=partial(_corrected, effect.on_change, json.loads(text)))

    def _wanted(self, subject: Subject, text: str) -> Wanted:
        # Personal values stay out of the ledger: only the fingerprint of what may hold them is kept.
        return Wanted(subject, fingerprint_of(text), "" if self.task.step.writes.personal else text)

    def _payload(self, offered: Mapping[str, object]) -> Any:
        try:
            return self.effect.function(**{name: offered[name] for name in self.effect.wants})
        except TwiceError:
            raise
        except Exception as error:
            raise StepFailed(
                f"effect {self.effect.name} raised {type(error).__name__} while it made its payload for "
                f"{self.task.target.name(self.partition)}: {error}",
                unchanged="effects sent earlier are recorded; the table is published",
                next_step="correct the function and run it again: the effect is still owed",
            ) from error

    def _text(self, payload: object) -> str:
        try:
            return payload_text(payload)
        except UsageError as error:
            raise StepFailed(
                f"effect {self.effect.name}: {error.message}",
                unchanged="effects sent earlier are recorded; the table is published",
                next_step=error.next_step,
            ) from None

    def _window(self) -> Window | None:
        return self._units()[-1].window

    def _pace(self) -> None:
        if self.effect.rate is not None:
            name = f"effect {self.task.pipeline.name}.{self.effect.name}"
            time.sleep(self.task.ledger.pacing.next_call(name, self.effect.rate.apart))


def _called(effect: Effect, offered: Mapping[str, object], key: str) -> Any:
    known = {**offered, "key": key}
    return effect.function(**{name: known[name] for name in effect.wants})


def _sent(effect: Effect, payload: object, key: str, *, private: bool) -> Any:
    assert effect.to is not None  # noqa: S101 - there is a payload for it
    if not private:
        return effect.to.send(payload, key=key, timeout=effect.timeout)
    # An answer or an error may repeat personal values of the payload: neither is kept.
    try:
        answer = effect.to.send(payload, key=key, timeout=effect.timeout)
    except Exception as error:  # noqa: BLE001 - judged, and raised again without its text
        raise without_text(error) from None
    return Answer(None, answer.note if isinstance(answer, Answer) else "")


def _corrected(change: Callable[..., Any], new: object, key: str, old: object, answer: object) -> Any:
    return change(key=key, old_payload=old, old_response=answer, new_payload=new)


def _plain(value: Any) -> Any:
    """Write a value of a row as JSON has it: exact numbers, dates and bytes as text."""
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    return value
