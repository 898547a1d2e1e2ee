"""The relay: sends what outboxes hold, each message until it is answered; any number of relays may run at once.

Messages are found by their state, never by a number that grows: a number is given before its transaction commits, so
that a lower one may appear after a higher one was read. Rows are locked while they are sent (`SKIP LOCKED`): a relay
that is killed lets go of them, and another one sends them again with the same id. About one row of a table messages go
out in order, one at a time; about different rows in any order.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from twice.effects.calls import call
from twice.errors import TransientError, UsageError
from twice.failpoints import fail_point
from twice.store.sql.outbox import DEAD, NAME, PENDING, SENT, SKIPPED, UNSENT, key_mark, outbox

if TYPE_CHECKING:
    from twice.model.tables import Table
    from twice.store.sql.database import Database

_LONGEST_WAIT = 300.0
_POLL_SECONDS = 1.0
_PRUNED_AT_ONCE = 1_000
_PRUNE_SECONDS = 60.0
_LONGEST_TEXT = 2_000


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
    note: str = ""
    # Seconds until the next try.
    wait: float = 0.0


class Relay:
    """Sends the messages of one table's outbox."""

    def __init__(self, database: Database, table: Table) -> None:
        if table.outbox is None:
            raise UsageError(f"{table.name} has no outbox: declare Table(…, outbox=Outbox(to=…))")
        self._database, self.table, self._how = database, table, table.outbox
        self._rows = outbox(database, table.id)
        self._mine = self._rows.c.table_name == table.id.parts[-1]
        self._found = False

    def exists(self) -> bool:
        """Return whether the outbox is there: the first publish creates it."""
        if not self._found:
            with self._database.look() as connection:
                self._found = bool(sa.inspect(connection).has_table(NAME, schema=self._rows.schema))
        return self._found

    def deliver(self) -> list[Delivered]:
        """Send the next messages that are due, as many as go out at the same time; none: there is nothing to do now."""
        found: list[Delivered] = []
        try:
            with self._database.settled() as connection:
                # A suspended relay must not hold its messages forever.
                limit = int(self._how.timeout + 60) * 1000
                connection.exec_driver_sql(f"SET LOCAL idle_in_transaction_session_timeout = {limit}")
                due = [self._message(row) for row in connection.execute(self._due())]
                if not due:
                    return []
                fail_point("outbox.locked")
                with ThreadPoolExecutor(len(due), thread_name_prefix="twice-relay") as pool:
                    found = list(pool.map(self._send, due))
                fail_point("outbox.sent")
                self._record(connection, found)
        except TransientError:
            if not found:
                raise
            # The connection was closed during the calls: try once more to record the answers.
            with self._database.settled() as connection:
                self._record(connection, found)
        return found

    def prune(self) -> int:
        """Remove messages that were sent long ago, some at a time; return how many."""
        old = sa.func.now() - _seconds(self._how.keep.exact + timedelta(days=self._how.keep.days))
        ended = self._rows.c.state.in_((SENT, SKIPPED)), self._rows.c.changed_at < old
        some = sa.select(self._rows.c.id).where(self._mine, *ended).limit(_PRUNED_AT_ONCE)
        some = some.with_for_update(skip_locked=True)
        removed = 0
        while True:
            with self._database.settled() as connection:
                done = connection.execute(sa.delete(self._rows).where(self._rows.c.id.in_(some)))
            removed += int(done.rowcount)
            if done.rowcount < _PRUNED_AT_ONCE:
                return removed

    def counts(self) -> dict[str, int]:
        """Count the messages by state."""
        query = sa.select(self._rows.c.state, sa.func.count()).where(self._mine).group_by(self._rows.c.state)
        with self._database.look() as connection:
            return {state: int(count) for state, count in connection.execute(query)}

    def messages(self, states: Sequence[str] = (), limit: int | None = None, id_: str = "") -> list[Message]:
        """List messages, dead ones first, then the oldest; `id_`: the beginning of an id."""
        dead_first = sa.case((self._rows.c.state == DEAD, 0), else_=1)
        query = sa.select(self._rows).where(self._mine).order_by(dead_first, self._rows.c.seq).limit(limit)
        if states:
            query = query.where(self._rows.c.state.in_(states))
        if id_:
            query = query.where(self._rows.c.id.startswith(id_, autoescape=True))
        with self._database.look() as connection:
            return [self._message(row) for row in connection.execute(query)]

    def resolve(self, ids: Sequence[str], *, send: bool, note: str) -> int:
        """Let unsent messages be tried again, or skip them, so that later ones about their rows go out; count them."""
        now = sa.func.clock_timestamp()
        values = {"state": PENDING, "attempts": 0, "next_at": now} if send else {"state": SKIPPED}
        unsent = self._rows.c.id.in_(ids), self._rows.c.state.in_(UNSENT)
        update = sa.update(self._rows).where(self._mine, *unsent).values(**values, note=_clean(note), changed_at=now)
        with self._database.settled() as connection:
            return int(connection.execute(update).rowcount)

    def _due(self) -> sa.Select[Any]:
        """Select and lock the first message of each row that has none under way."""
        rows, earlier = self._rows, self._rows.alias("earlier")
        first = ~sa.exists().where(
            earlier.c.table_name == rows.c.table_name,
            key_mark(earlier) == key_mark(rows),
            earlier.c.key == rows.c.key,
            earlier.c.seq < rows.c.seq,
            earlier.c.state.in_([sa.literal_column(f"'{state}'") for state in UNSENT]),
        )
        pending = rows.c.state == sa.literal_column(f"'{PENDING}'")
        return (
            sa.select(rows)
            .where(self._mine, pending, rows.c.next_at <= sa.func.clock_timestamp(), first)
            .order_by(rows.c.seq)
            .limit(self._how.parallel)
            .with_for_update(of=rows, skip_locked=True)
        )

    def _send(self, message: Message) -> Delivered:
        ended = call(lambda: self._how.to.send(message.body, key=message.id, timeout=self._how.timeout))
        if ended.kind == "made":
            return Delivered(message, SENT, note=ended.note)
        # The receiver could not be reached: the message waits, however long that takes.
        waits = ended.kind == "not_sent" or (ended.kind == "unknown" and message.attempts + 1 < self._how.attempts)
        pause = ended.wait if ended.wait is not None else 2.0 ** min(message.attempts, 10)
        return Delivered(message, PENDING if waits else DEAD, ended.error, ended.note, min(pause, _LONGEST_WAIT))

    def _record(self, connection: sa.Connection, found: Sequence[Delivered]) -> None:
        """Write how messages ended, unless another relay has handled them meanwhile."""
        rows, now = self._rows, sa.func.clock_timestamp()
        update = (
            sa.update(rows)
            .where(
                rows.c.id == sa.bindparam("message"),
                rows.c.state == PENDING,
                rows.c.attempts == sa.bindparam("tried"),
            )
            .values(
                state=sa.bindparam("end"),
                attempts=rows.c.attempts + 1,
                error=sa.bindparam("problem"),
                note=sa.func.coalesce(sa.func.nullif(sa.bindparam("remark"), ""), rows.c.note),
                next_at=now + sa.cast(sa.bindparam("pause", type_=sa.Text), sa.Interval),
                changed_at=now,
            )
        )
        values = [
            {
                "message": done.message.id,
                "tried": done.message.attempts,
                "end": done.state,
                "problem": _clean(done.error),
                "remark": _clean(done.note),
                "pause": f"{done.wait} seconds",
            }
            for done in found
        ]
        connection.execute(update, values)

    def _message(self, row: Any) -> Message:
        return Message(
            id=row.id,
            table=self.table.name,
            key=row.key,
            change=row.change,
            row=row.payload,
            state=row.state,
            attempts=row.attempts,
            error=row.error,
            note=row.note,
            next_at=row.next_at.astimezone(timezone.utc),
            created_at=row.created_at.astimezone(timezone.utc),
            changed_at=row.changed_at.astimezone(timezone.utc),
        )


def run(relays: Sequence[Relay], *, drain: bool = False, stop: threading.Event | None = None) -> Iterator[Delivered]:
    """Send until `stop` is set, which lets the calls under way end; `drain`: until nothing is due.

    Each table has its own thread: a slow receiver delays no other. An error is raised once all have ended.
    """
    stop = stop or threading.Event()
    done: queue.Queue[Delivered | BaseException | None] = queue.Queue()
    how = {"drain": drain, "stop": stop, "done": done}
    threads = [threading.Thread(target=_serve, args=(relay,), kwargs=how, daemon=True) for relay in relays]
    for thread in threads:
        thread.start()
    problem, left = None, len(threads)
    try:
        while left:
            found = done.get()
            if found is None:
                left -= 1
            elif isinstance(found, Delivered):
                yield found
            else:
                problem = found
    finally:
        if left:
            stop.set()
    if problem is not None:
        raise problem


def _serve(
    relay: Relay, *, drain: bool, stop: threading.Event, done: queue.Queue[Delivered | BaseException | None]
) -> None:
    """Send the messages of one table; wait for a database that cannot be reached, unless `drain`."""
    pruned = 0.0
    try:
        while not stop.is_set():
            try:
                found = relay.deliver() if relay.exists() else []
                if relay.exists() and time.monotonic() - pruned > _PRUNE_SECONDS:
                    relay.prune()
                    pruned = time.monotonic()
            except TransientError:
                if drain:
                    raise
                found = []
            for each in found:
                done.put(each)
            if not found:
                if drain:
                    return
                stop.wait(_POLL_SECONDS)
    except BaseException as error:  # noqa: BLE001 - raised by the reader of the queue
        done.put(error)
    finally:
        done.put(None)


def _clean(text: str) -> str:
    """Return a text in a form that Postgres accepts."""
    return text.replace("\x00", "").encode(errors="replace").decode()[:_LONGEST_TEXT]


def _seconds(length: timedelta) -> sa.ColumnElement[Any]:
    return sa.cast(f"{length.total_seconds()} seconds", sa.Interval)
