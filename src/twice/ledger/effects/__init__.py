"""Effects in the ledger: the intent is written before the call, the outcome only by the holder of the claim."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from twice.errors import LedgerBusy, UsageError
from twice.ledger.db.database import insert_missing
from twice.ledger.db.encoding import scope_columns, scope_of, scope_text, storable
from twice.ledger.db.part import LedgerPart
from twice.ledger.db.schema import effect_scopes, effects
from twice.ledger.effects.records import (
    CONFIRMED,
    DEAD,
    FAILED,
    INTENT,
    STATES,
    SUPPRESSED,
    UNKNOWN,
    Claimed,
    Decide,
    EffectRecord,
    Outcome,
    Subject,
    Verdict,
    Wanted,
)
from twice.ledger.values import Owner
from twice.model.scopes import Scope
from twice.model.windows import Window

# Subjects per query: every database takes that many parameters.
_AT_ONCE = 500
# Seconds between the tries to record answers.
_WAITS = (0.2, 1.0, 3.0)
# Rows are locked in one order, so that no two processes wait for each other.
_LOCK_ORDER = (effects.c.subject, effects.c.generation)


class Effects(LedgerPart):
    """The part of the ledger that knows which calls to the outside world were made."""

    def claim(
        self, wanted: Sequence[Wanted], decide: Decide, *, ttl: timedelta, run: str | None = None
    ) -> list[Claimed]:
        """Decide about every wanted effect, and claim those that are to be called or reconciled, in one transaction."""
        claim, owner = secrets.token_hex(16), Owner.here()
        with self._write() as connection:
            subjects = [each.subject.id for each in wanted]
            known, now = _newest(connection, subjects), self._now(connection)
            holder: dict[str, object] = {
                "claim": claim,
                "host": owner.host,
                "pid": owner.pid,
                "run": run,
                "expires_at": now + ttl,
            }
            new = {
                each.subject.id: _row(each, 1, now) | holder
                for each in wanted
                if each.subject.id not in known and decide(None, each, now).action == "call"
            }
            insert_missing(connection, effects, [new[subject] for subject in sorted(new)])
            # Locked only now: a transaction that waits for a row holds no row that comes after it. Another process
            # may have been first with some of the new ones.
            found = _newest(connection, subjects, lock=True)
            now = self._now(connection)
            holder["expires_at"] = now + ttl
            return [_decided(connection, each, found.get(each.subject.id), decide, holder, now) for each in wanted]

    def renew(self, claim: str, ttl: timedelta) -> bool:
        """Prolong the claim of a batch; False if nothing of it is left."""
        with self._write() as connection:
            mine = effects.c.claim == claim
            connection.execute(sa.select(effects.c.key).where(mine).order_by(*_LOCK_ORDER).with_for_update()).all()
            until = self._now(connection) + ttl
            return bool(connection.execute(sa.update(effects).where(mine).values(expires_at=until)).rowcount)

    def settle(self, claim: str, outcomes: Sequence[Outcome]) -> dict[str, EffectRecord]:
        """Write how claimed effects ended; return them by key, without those whose claim was taken over."""
        if not outcomes:
            return {}
        # An answer that is not recorded is an unknown outcome: worth more than one try.
        recorded: dict[str, EffectRecord] = {}
        for wait in _WAITS:
            try:
                return self._settle(claim, outcomes) | recorded
            except LedgerBusy:
                time.sleep(wait)
                recorded = self._recorded(outcomes)
        return self._settle(claim, outcomes) | recorded

    def _recorded(self, outcomes: Sequence[Outcome]) -> dict[str, EffectRecord]:
        """Return what has these outcomes already: a commit whose answer was lost has landed."""
        by_key = {outcome.key: outcome for outcome in outcomes}
        found: list[Any] = []
        with self._read() as connection:
            now = self._now(connection)
            for keys in _pieces(sorted(by_key)):
                ended = sa.select(effects).where(effects.c.key.in_(keys), effects.c.claim.is_(None))
                found += connection.execute(ended).all()
        same = [row for row in found if (row.state, row.response) == (by_key[row.key].state, by_key[row.key].response)]
        return {row.key: EffectRecord.of(row, now) for row in same}

    def _settle(self, claim: str, outcomes: Sequence[Outcome]) -> dict[str, EffectRecord]:
        by_key = {outcome.key: outcome for outcome in outcomes}
        with self._write() as connection:
            query = sa.select(effects).where(effects.c.claim == claim).order_by(*_LOCK_ORDER).with_for_update()
            rows = [row for row in connection.execute(query) if row.key in by_key]
            now = self._now(connection)
            if rows:
                connection.execute(_SETTLE, [_settled(by_key[row.key], row.attempts) | {"now": now} for row in rows])
        return {row.key: EffectRecord.of(row, now).ended(by_key[row.key]) for row in rows}

    def suppress(self, wanted: Sequence[Wanted]) -> int:
        """Record effects that are not sent, unless something is known about them; return how many were new."""
        return self._add(wanted, {"state": SUPPRESSED})

    def adopt(self, wanted: Sequence[Wanted], note: str) -> int:
        """Record effects as sent that the table has recorded, unless the ledger knows something about them."""
        return self._add(wanted, {"state": CONFIRMED, "note": note})

    def _add(self, wanted: Sequence[Wanted], values: dict[str, object]) -> int:
        with self._write() as connection:
            now = self._now(connection)
            rows = [_row(each, 1, now) | {"attempts": 0, "called_at": None} | values for each in wanted]
            known = _newest(connection, [str(row["subject"]) for row in rows])
            new = [row for row in rows if row["subject"] not in known]
            new.sort(key=lambda row: str(row["subject"]))
            insert_missing(connection, effects, new)
        return len(new)

    def generations(self, key: str) -> list[EffectRecord]:
        """Return all generations of the effect that a key, or the beginning of one, names; the newest first."""
        with self._read() as connection:
            now = self._now(connection)
            subjects = set(
                connection.scalars(sa.select(effects.c.subject).where(effects.c.key.startswith(key, autoescape=True)))
            )
            if len(subjects) > 1:
                raise UsageError(f"{len(subjects)} effects have keys that begin with {key}: give more of it")
            if not subjects:
                raise UsageError(f"no effect has the key {key}", next_step="twice effects list")
            query = sa.select(effects).where(effects.c.subject == subjects.pop())
            rows = connection.execute(query.order_by(effects.c.generation.desc())).all()
        return [EffectRecord.of(row, now) for row in rows]

    def resolve(self, key: str, state: str, note: str) -> EffectRecord:
        """Record what a person found out: an unknown or dead effect was sent or was not, an outdated one may stay."""
        if state not in (CONFIRMED, FAILED):
            raise UsageError(f"an effect is resolved as {CONFIRMED} or {FAILED}, not {state!r}")
        record = self.generations(key)[0]
        with self._write() as connection:
            query = sa.select(effects).where(effects.c.key == record.key)
            now = self._now(connection)
            seen = EffectRecord.of(connection.execute(query.with_for_update()).one(), now)
            values: dict[str, object] = {"note": storable(note), "changed_at": now}
            if seen.state == CONFIRMED and seen.outdated and state == CONFIRMED:
                values |= {"fingerprint": seen.outdated, "outdated": ""}
            elif seen.is_held or seen.state not in (UNKNOWN, DEAD, FAILED):
                held = f", and {seen.owner} works on it" if seen.owner else ""
                raise UsageError(
                    f"effect {seen.key} is {seen.state}{held}: unknown, failed, dead or outdated ones can be resolved",
                    unchanged="nothing was changed",
                )
            else:
                values |= {"state": state, "claim": None, "expires_at": None}
            if state == FAILED:
                values |= {"attempts": 0, "called_at": None}
                named = {"pipeline": seen.subject.pipeline, "effect": seen.subject.effect}
                named["scope"] = scope_text(seen.subject.scope)
                mine = (effect_scopes.c[name] == value for name, value in named.items())
                connection.execute(sa.update(effect_scopes).where(*mine).values(content="", sent=False))
            connection.execute(sa.update(effects).where(effects.c.key == seen.key).values(**values))
        return self.generations(record.key)[0]

    def paid(self, pipeline: str, effect: str, scopes: Sequence[Scope]) -> dict[Scope, str]:
        """Return for the scopes whose effects were all paid the content that they were paid for."""
        by_text = {scope_text(scope): scope for scope in scopes}
        found: dict[Scope, str] = {}
        with self._read() as connection:
            for texts in _pieces(sorted(by_text)):
                query = sa.select(effect_scopes).where(
                    effect_scopes.c.pipeline == pipeline,
                    effect_scopes.c.effect == effect,
                    effect_scopes.c.scope.in_(texts),
                )
                found |= {by_text[row.scope]: row.content for row in connection.execute(query)}
        return found

    def settled(self, pipeline: str, effects: Sequence[str], limit: int = 10_000) -> list[tuple[str, Scope]]:
        """List the scopes whose effects were all sent, by "pipeline.effect", the latest ones."""
        named = effect_scopes.c.pipeline == pipeline, effect_scopes.c.effect.in_(effects)
        query = (
            sa.select(effect_scopes)
            .where(*named, effect_scopes.c.sent)
            .order_by(effect_scopes.c.changed_at.desc(), effect_scopes.c.id.desc())
            .limit(limit)
        )
        with self._read() as connection:
            return [(f"{row.pipeline}.{row.effect}", scope_of(row)) for row in connection.execute(query)]

    def set_paid(self, subject: Subject, content: str, keys: int, *, sent: bool = True) -> None:
        """Record that all effects of a scope are settled for a content; `sent`: none was suppressed or skipped."""
        named = {"pipeline": subject.pipeline, "effect": subject.effect, "scope": scope_text(subject.scope)}
        with self._write() as connection:
            values = {"content": content, "keys": keys, "sent": sent, "changed_at": self._now(connection)}
            row = named | values | {"table_name": subject.table} | scope_columns(subject.scope)
            insert_missing(connection, effect_scopes, [row])
            mine = (effect_scopes.c[name] == value for name, value in named.items())
            connection.execute(sa.update(effect_scopes).where(*mine).values(**values))

    def list(
        self,
        *,
        states: Iterable[str] = (),
        pipeline: str | None = None,
        effect: str | None = None,
        window: Window | None = None,
        attention: bool = False,
        limit: int | None = None,
    ) -> list[EffectRecord]:
        """List the newest generation of each effect, the latest change first."""
        wanted = set(states)
        newer = effects.alias("newer")
        query = sa.select(effects).where(
            ~sa.exists().where(newer.c.subject == effects.c.subject, newer.c.generation > effects.c.generation)
        )
        if pipeline is not None:
            query = query.where(effects.c.pipeline == pipeline)
        if effect is not None:
            query = query.where(effects.c.effect == effect)
        if window is not None:
            query = query.where(effects.c.window_start < window.end, effects.c.window_end > window.start)
        if attention:
            query = query.where(sa.or_(effects.c.state.in_((FAILED, UNKNOWN, INTENT, DEAD)), effects.c.outdated != ""))
        if wanted:
            # A call whose caller has vanished is stored as an intent.
            query = query.where(effects.c.state.in_(wanted | ({INTENT} if UNKNOWN in wanted else set())))
        with self._read() as connection:
            now = self._now(connection)
            rows = connection.execute(query.order_by(effects.c.changed_at.desc(), effects.c.key)).all()
        found = [EffectRecord.of(row, now) for row in rows]
        if attention:
            found = [record for record in found if record.needs_attention]
        if wanted:
            found = [record for record in found if record.state in wanted]
        return found[:limit]


def _decided(
    connection: sa.Connection, wanted: Wanted, row: Any, decide: Decide, holder: dict[str, object], now: datetime
) -> Claimed:
    """Decide about one effect, and record the decision."""
    if row is not None and row.claim == holder["claim"]:
        return Claimed(wanted, EffectRecord.of(row, now), Verdict("call", "new"), row.claim)
    before = EffectRecord.of(row, now) if row is not None else None
    verdict = decide(before, wanted, now)
    if before is None:
        return Claimed(wanted, EffectRecord.of(_Row(_row(wanted, 1, now) | {"state": FAILED}), now), verdict, None)
    key, changes = before.key, dict(verdict.changes)
    if verdict.action == "resend":
        new = _row(wanted, before.generation + 1, now) | holder
        connection.execute(sa.insert(effects).values(**new))
        key = str(new["key"])
    elif verdict.action != "leave":
        # Until an answer is recorded the outcome is unknown: an intent without an owner means that.
        state = INTENT if verdict.action == "call" else UNKNOWN
        called_at = before.called_at or now
        changes = {"state": state, "attempts": before.attempts + 1, "called_at": called_at} | changes | holder
    if verdict.action != "resend" and changes:
        values = changes | {"changed_at": now}
        connection.execute(sa.update(effects).where(effects.c.key == key).values(**values))
    elif verdict.action == "leave":
        return Claimed(wanted, before, verdict, None, before)
    after = connection.execute(sa.select(effects).where(effects.c.key == key)).one()
    claim = str(holder["claim"]) if verdict.action != "leave" else None
    return Claimed(wanted, EffectRecord.of(after, now), verdict, claim, before)


def _newest(connection: sa.Connection, subjects: Sequence[str], *, lock: bool = False) -> dict[str, Any]:
    """Read the newest generation of each subject."""
    found: dict[str, Any] = {}
    for ids in _pieces(sorted(set(subjects))):
        query = sa.select(effects).where(effects.c.subject.in_(ids)).order_by(*_LOCK_ORDER)
        for row in connection.execute(query.with_for_update() if lock else query):
            found[row.subject] = row
    return found


def _row(wanted: Wanted, generation: int, now: datetime) -> dict[str, object]:
    subject = wanted.subject
    return {
        "key": subject.key(generation),
        "subject": subject.id,
        "generation": generation,
        "pipeline": subject.pipeline,
        "effect": subject.effect,
        "table_name": subject.table,
        **scope_columns(subject.scope),
        "business_key": subject.business_key,
        "state": INTENT,
        "attempts": 1,
        "fingerprint": wanted.fingerprint,
        "outdated": "",
        "payload": wanted.payload,
        "response": "",
        "error": "",
        "note": "",
        "run": None,
        "claim": None,
        "host": None,
        "pid": None,
        "expires_at": None,
        "created_at": now,
        "called_at": now,
        "changed_at": now,
    }


class _Row:
    def __init__(self, values: Mapping[str, object]) -> None:
        self.__dict__.update(values)


_SETTLE = (
    sa.update(effects)
    .where(effects.c.key == sa.bindparam("settled"))
    .values(
        state=sa.bindparam("end"),
        response=sa.bindparam("answer"),
        error=sa.bindparam("problem"),
        note=sa.bindparam("remark"),
        attempts=sa.bindparam("tried"),
        fingerprint=sa.func.coalesce(sa.bindparam("print"), effects.c.fingerprint),
        payload=sa.func.coalesce(sa.bindparam("content"), effects.c.payload),
        outdated=sa.case((sa.bindparam("print").is_(None), effects.c.outdated), else_=""),
        claim=None,
        host=None,
        pid=None,
        expires_at=None,
        changed_at=sa.bindparam("now"),
    )
)


def _settled(outcome: Outcome, attempts: int) -> dict[str, object]:
    if outcome.state not in STATES:
        raise UsageError(f"an effect cannot be {outcome.state!r}")
    return {
        "settled": outcome.key,
        "end": outcome.state,
        "answer": outcome.response,
        "problem": storable(outcome.error),
        "remark": storable(outcome.note),
        "tried": attempts - 1 + outcome.calls,
        "print": outcome.sent.fingerprint if outcome.sent else None,
        "content": outcome.sent.payload if outcome.sent else None,
    }


def _pieces(values: Sequence[str]) -> Iterable[Sequence[str]]:
    for start in range(0, len(values), _AT_ONCE):
        yield values[start : start + _AT_ONCE]
