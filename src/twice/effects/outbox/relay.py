"""The relay: sends what outboxes hold, each message until it is answered; any number of relays may run at once.

Messages are found by their state, never by a number that grows: a number is given before its transaction commits, so
that a lower one may appear after a higher one was read. Rows are locked while they are sent (`SKIP LOCKED`): a relay
that is killed lets go of them, and another one sends them again with the same id. About one row of a table messages go
out in order, one at a time; about different rows in any order.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from twice.effects.calls import Ended, call
from twice.errors import UsageError
from twice.failpoints import fail_point
from twice.store.sql.outbox import DEAD, NAME, PENDING, SENT, SKIPPED, UNSENT, outbox

if TYPE_CHECKING:
    from twice.model.tables import Table
    from twice.store.sql.database import Database

_LONGEST_WAIT = 300.0
_POLL_SECONDS = 1.0
_PRUNED_AT_ONCE = 1_000
_LONGEST_ERROR = 2_000


@dataclass(frozen=True)
class Message:
    """One message of an outbox."""

    id: str
    table: str
    key: Mapping[str, Any]
    change: str
    row: Mapping[str, Any] | None
    state: str
    attempts: int
    error: str
    note: str
    next_at: datetime
    created_at: datetime
    changed_at: datetime

    @property
    def body(self) -> dict[str, Any]:
        """What the receiver gets."""
        return {"id": self.id, "table": self.table, "key": self.key, "change": self.change, "row": self.row}

    def to_json(self) -> dict[str, object]:
        return {
            **self.body,
            "state": self.state,
            "attempts": self.attempts,
            "error": self.error,
            "note": self.note,
            "next_at": self.next_at.isoformat(),
            "created_at": self.created_at.isoformat(),
            "changed_at": self.changed_at.isoformat(),
        }


@dataclass(frozen=True)
class Delivered:
    """How one message ended this time."""

    message: Message
    state: str
    error: str = ""


class Relay:
    """Sends the messages of one table's outbox."""

    def __init__(self, database: Database, table: Table) -> None:
        if table.outbox is None:
            raise UsageError(f"{table.name} has no outbox: declare Table(…, outbox=Outbox(to=…))")
        self._database, self.table, self._how = database, table, table.outbox
        self._rows = outbox(database, table.id)
        self._mine = self._rows.c.table_name == str(table.id)

    def exists(self) -> bool:
        """Tell whether the outbox is there: the first publish creates it."""
        with self._database.look() as connection:
            return bool(sa.inspect(connection).has_table(NAME, schema=self._rows.schema))

    def deliver(self) -> list[Delivered]:
        """Send the next messages that are due, as many as go out at the same time; none: there is nothing to do now."""
        with self._database.settled() as connection:
            # A relay that was stopped in its sleep must not hold its messages for ever.
            limit = int(self._how.timeout + 60) * 1000
            connection.exec_driver_sql(f"SET LOCAL idle_in_transaction_session_timeout = {limit}")
            due = [_message(row) for row in connection.execute(self._due())]
            if not due:
                return []
            fail_point("outbox.locked")
            with ThreadPoolExecutor(len(due), thread_name_prefix="twice-relay") as pool:
                answers = list(pool.map(self._send, due))
            fail_point("outbox.sent")
            found = [self._judged(message, ended) for message, ended in zip(due, answers, strict=True)]
            for message, ended, done in zip(due, answers, found, strict=True):
                connection.execute(self._settled(message, ended, done))
        return found

    def prune(self) -> int:
        """Remove messages that were sent long ago, some at a time; return how many."""
        old = sa.func.now() - _seconds(self._how.keep.exact + timedelta(days=self._how.keep.days))
        ended = self._rows.c.state.in_((SENT, SKIPPED)), self._rows.c.changed_at < old
        some = sa.select(self._rows.c.seq).where(self._mine, *ended).limit(_PRUNED_AT_ONCE)
        with self._database.settled() as connection:
            return int(connection.execute(sa.delete(self._rows).where(self._rows.c.seq.in_(some))).rowcount)

    def counts(self) -> dict[str, int]:
        """Count the messages by state."""
        query = sa.select(self._rows.c.state, sa.func.count()).where(self._mine).group_by(self._rows.c.state)
        with self._database.look() as connection:
            return {state: int(count) for state, count in connection.execute(query)}

    def messages(self, states: Sequence[str] = (), limit: int | None = None) -> list[Message]:
        """List messages, the oldest first."""
        query = sa.select(self._rows).where(self._mine).order_by(self._rows.c.seq).limit(limit)
        if states:
            query = query.where(self._rows.c.state.in_(states))
        with self._database.look() as connection:
            return [_message(row) for row in connection.execute(query)]

    def resolve(self, message: str, *, send: bool, note: str) -> Message:
        """Let a dead message be sent again, or skip it: then the later ones about its row go out."""
        named = self._mine, self._rows.c.id.startswith(message, autoescape=True)
        with self._database.settled() as connection:
            found = connection.execute(sa.select(self._rows).where(*named).with_for_update().limit(2)).all()
            if len(found) != 1:
                many = "several messages have ids that begin" if found else "no message has an id that begins"
                raise UsageError(f"{self.table.name}: {many} with {message}", safe="nothing was changed")
            (row,) = found
            if row.state not in UNSENT:
                raise UsageError(
                    f"message {row.id} is {row.state}: only pending and dead ones can be resolved",
                    safe="nothing was changed",
                )
            now = sa.func.clock_timestamp()
            values = {"state": PENDING, "attempts": 0, "next_at": now} if send else {"state": SKIPPED}
            update = sa.update(self._rows).where(self._rows.c.seq == row.seq)
            done = connection.execute(update.values(**values, note=note, changed_at=now).returning(self._rows))
            return _message(done.one())

    def _due(self) -> sa.Select[Any]:
        """Select and lock the first message of each row that has none under way."""
        rows, earlier = self._rows, self._rows.alias("earlier")
        first = ~sa.exists().where(
            earlier.c.table_name == rows.c.table_name,
            earlier.c.key == rows.c.key,
            earlier.c.seq < rows.c.seq,
            earlier.c.state.in_(UNSENT),
        )
        return (
            sa.select(rows)
            .where(self._mine, rows.c.state == PENDING, rows.c.next_at <= sa.func.clock_timestamp(), first)
            .order_by(rows.c.seq)
            .limit(self._how.parallel)
            .with_for_update(of=rows, skip_locked=True)
        )

    def _send(self, message: Message) -> Ended:
        return call(lambda: self._how.to.send(message.body, key=message.id, timeout=self._how.timeout))

    def _judged(self, message: Message, ended: Ended) -> Delivered:
        # A receiver that knows the id has the message: an earlier relay was killed after sending it.
        if ended.kind == "made" or (ended.kind == "key_used" and message.attempts > 0):
            return Delivered(message, SENT)
        last = message.attempts + 1 >= self._how.attempts
        state = PENDING if ended.kind in ("not_sent", "unknown") and not last else DEAD
        return Delivered(message, state, ended.error[:_LONGEST_ERROR])

    def _settled(self, message: Message, ended: Ended, done: Delivered) -> sa.Update:
        now = sa.func.clock_timestamp()
        values: dict[str, Any] = {
            "state": done.state,
            "attempts": message.attempts + 1,
            "error": done.error.replace("\x00", ""),
            "note": ended.note,
            "changed_at": now,
        }
        if done.state == PENDING:
            pause = ended.wait if ended.wait is not None else 2.0**message.attempts
            values["next_at"] = now + _seconds(timedelta(seconds=min(pause, _LONGEST_WAIT)))
        return sa.update(self._rows).where(self._rows.c.id == message.id).values(**values)


def run(relays: Sequence[Relay], *, drain: bool = False, stop: threading.Event | None = None) -> Iterator[Delivered]:
    """Send until `stop` is set, which lets the calls under way end; `drain`: until nothing is due."""
    stop = stop or threading.Event()
    while not stop.is_set():
        there = [relay for relay in relays if relay.exists()]
        found = [done for relay in there for done in relay.deliver()]
        yield from found
        if found:
            continue
        for relay in there:
            relay.prune()
        if drain:
            return
        stop.wait(_POLL_SECONDS)


def _message(row: Any) -> Message:
    return Message(
        id=row.id,
        table=row.table_name,
        key=row.key,
        change=row.change,
        row=row.payload,
        state=row.state,
        attempts=row.attempts,
        error=row.error,
        note=row.note,
        next_at=row.next_at,
        created_at=row.created_at,
        changed_at=row.changed_at,
    )


def _seconds(length: timedelta) -> sa.ColumnElement[Any]:
    return sa.cast(f"{length.total_seconds()} seconds", sa.Interval)
