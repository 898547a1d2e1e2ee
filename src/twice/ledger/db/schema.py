"""The ledger's tables. A change here needs a migration beside it; a test compares the two."""

from __future__ import annotations

from datetime import datetime, timezone
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

# Every revision that this package understands, oldest first. Anything else was written by a newer one.
REVISIONS = ("0001", "0002", "0003", "0004", "0005", "0006")
VERSION_TABLE = "twice_ledger_version"

# States of a claim.
LIVE, TAKEN, SETTLED, RELEASED, RECORDED = "live", "taken", "settled", "released", "recorded"
OPEN = (LIVE, TAKEN)
# States of an output.
PENDING, CURRENT, SUPERSEDED = "pending", "current", "superseded"


def _word(length: int) -> sa.String:
    """Text that sorts by its bytes in every database, whatever its locale is."""
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


_Text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


class Instant(sa.types.TypeDecorator[datetime]):
    """An instant as UTC text of fixed width: it sorts as text and reads well in any database shell."""

    impl = _word(27)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> str | None:  # noqa: ARG002
        return None if value is None else instant_text(value)

    def process_result_value(self, value: Any | None, dialect: sa.Dialect) -> datetime | None:  # noqa: ARG002
        return None if value is None else instant_of(value)


def instant_text(value: datetime) -> str:
    """Write an instant so that later ones sort later."""
    naive = value.astimezone(timezone.utc).replace(tzinfo=None)
    return naive.isoformat(timespec="microseconds") + "Z"


# Neighbouring windows share their ends, and long lists share the moment of their record.
@lru_cache(maxsize=4096)
def instant_of(text: str) -> datetime:
    """Read what `instant_text` wrote."""
    return datetime.fromisoformat(text[:-1]).replace(tzinfo=timezone.utc)


# SQLite counts rows in INTEGER only; elsewhere an id may grow beyond 32 bits.
_Id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

metadata = sa.MetaData()


def _scope() -> tuple[sa.Column[Any], ...]:
    """The columns of a scope: its window, without one the whole table, and its dimensions."""
    return (
        sa.Column("window_start", Instant),
        sa.Column("window_end", Instant),
        sa.Column("dimensions", _Text, nullable=False),
    )


runs = sa.Table(
    "runs",
    metadata,
    sa.Column("id", _word(32), primary_key=True),
    sa.Column("pipeline", _Text, nullable=False),
    *_scope(),
    sa.Column("command", _Text, nullable=False),
    sa.Column("tags", _Text, nullable=False),
    sa.Column("host", _Text, nullable=False),
    sa.Column("pid", sa.BigInteger, nullable=False),
    sa.Column("status", _word(16), nullable=False),
    sa.Column("error", _Text, nullable=False),
    sa.Column("started_at", Instant, nullable=False),
    sa.Column("seen_at", Instant, nullable=False),
    sa.Column("finished_at", Instant),
    # Null where a run has computed nothing, or an earlier version of twice recorded it.
    sa.Column("environment", _word(64)),
    sa.Index("runs_by_time", "started_at"),
    sa.Index("runs_by_pipeline", "pipeline", "started_at"),
)

# What runs were made with: nearly all runs share a few, so each distinct one is stored once.
environments = sa.Table(
    "environments",
    metadata,
    sa.Column("id", _word(64), primary_key=True),
    sa.Column("content", _Text, nullable=False),
)

attempts = sa.Table(
    "attempts",
    metadata,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("run", _word(32), sa.ForeignKey("runs.id"), nullable=False),
    sa.Column("pipeline", _Text, nullable=False),
    sa.Column("step", _Text, nullable=False),
    sa.Column("table_name", _Text, nullable=False),
    sa.Column("number", sa.Integer, nullable=False),
    *_scope(),
    sa.Column("code", _Text, nullable=False),
    sa.Column("inputs", _word(64), nullable=False),
    sa.Column("token", sa.BigInteger),
    sa.Column("base_version", _Text),
    sa.Column("version", _Text),
    sa.Column("row_count", sa.BigInteger),
    sa.Column("status", _word(16), nullable=False),
    sa.Column("error", _Text, nullable=False),
    sa.Column("transient", sa.Boolean, nullable=False),
    sa.Column("details", _Text, nullable=False),
    sa.Column("started_at", Instant, nullable=False),
    sa.Column("finished_at", Instant),
    sa.Index("attempts_by_run", "run"),
    sa.Index("attempts_by_step", "pipeline", "step", "window_start"),
    # Ids are never reused, not even after a prune.
    sqlite_autoincrement=True,
)

# The highest token ever given for a table: the only row of a table's leases that outlives every prune.
tokens = sa.Table(
    "tokens",
    metadata,
    sa.Column("table_name", _Text, primary_key=True),
    sa.Column("highest", sa.BigInteger, nullable=False),
)

claims = sa.Table(
    "claims",
    metadata,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("table_name", _Text, nullable=False),
    sa.Column("token", sa.BigInteger, nullable=False),
    sa.Column("scopes", _Text, nullable=False),
    sa.Column("run", _word(32)),
    sa.Column("attempt", sa.BigInteger),
    sa.Column("host", _Text, nullable=False),
    sa.Column("pid", sa.BigInteger, nullable=False),
    sa.Column("since", Instant, nullable=False),
    sa.Column("expires_at", Instant, nullable=False),
    sa.Column("state", _word(16), nullable=False),
    sa.Column("ended_at", Instant),
    sa.UniqueConstraint("table_name", "token", name="claims_token"),
    # Few claims are open at a time: looking for overlaps never reads the closed ones.
    sa.Index("claims_by_state", "state", "table_name"),
)

# Pinned inputs are the same for many outputs of one attempt: each distinct list is stored once.
input_sets = sa.Table(
    "input_sets",
    metadata,
    sa.Column("id", _word(64), primary_key=True),
    sa.Column("content", _Text, nullable=False),
)

outputs = sa.Table(
    "outputs",
    metadata,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("table_name", _Text, nullable=False),
    sa.Column("scope", _Text, nullable=False),
    *_scope(),
    sa.Column("row_count", sa.BigInteger, nullable=False),
    sa.Column("digest", _Text, nullable=False),
    sa.Column("files", _Text, nullable=False),
    sa.Column("version", _Text),
    sa.Column("pipeline", _Text, nullable=False),
    sa.Column("step", _Text, nullable=False),
    sa.Column("code", _Text, nullable=False),
    sa.Column("inputs", _word(64), nullable=False),
    sa.Column("run", _word(32)),
    sa.Column("token", sa.BigInteger, nullable=False),
    sa.Column("state", _word(16), nullable=False),
    sa.Column("recorded_at", Instant, nullable=False),
    sa.Column("superseded_at", Instant),
    # One current output per scope, enforced by the database itself.
    sa.Index(
        "outputs_current",
        "table_name",
        "scope",
        unique=True,
        sqlite_where=sa.text("state = 'current'"),
        postgresql_where=sa.text("state = 'current'"),
    ),
    sa.Index("outputs_by_window", "table_name", "state", "window_start", "window_end"),
    sa.Index("outputs_by_token", "table_name", "token"),
)

# What a code fingerprint is made of, so that a later reader can name what changed; a row per version of a step.
codes = sa.Table(
    "codes",
    metadata,
    sa.Column("id", _Text, primary_key=True),
    sa.Column("parts", _Text, nullable=False),
)

backfills = sa.Table(
    "backfills",
    metadata,
    sa.Column("id", _word(32), primary_key=True),
    sa.Column("pipeline", _Text, nullable=False),
    sa.Column("window_start", Instant, nullable=False),
    sa.Column("window_end", Instant, nullable=False),
    sa.Column("dimensions", _Text, nullable=False),
    sa.Column("tables", _Text, nullable=False),
    sa.Column("request", _Text, nullable=False),
    sa.Column("code", _Text, nullable=False),
    sa.Column("plan", _Text, nullable=False),
    sa.Column("command", _Text, nullable=False),
    sa.Column("status", _word(16), nullable=False),
    sa.Column("parallel", sa.Integer, nullable=False),
    # How many of its steps have been cut into chunks.
    sa.Column("step_index", sa.Integer, nullable=False),
    sa.Column("error", _Text, nullable=False),
    # The shadows that it builds; empty if it works on the tables themselves.
    sa.Column("shadow", _Text, nullable=False),
    sa.Column("started_at", Instant, nullable=False),
    sa.Column("finished_at", Instant),
    sa.Index("backfills_by_status", "status", "started_at"),
)

# The processes that work on a backfill; one without a heartbeat until `expires_at` is gone.
workers = sa.Table(
    "workers",
    metadata,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("backfill", _word(32), sa.ForeignKey("backfills.id", ondelete="CASCADE"), nullable=False),
    sa.Column("host", _Text, nullable=False),
    sa.Column("pid", sa.BigInteger, nullable=False),
    sa.Column("expires_at", Instant, nullable=False),
    sa.UniqueConstraint("backfill", "host", "pid", name="workers_once"),
)

chunks = sa.Table(
    "chunks",
    metadata,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("backfill", _word(32), sa.ForeignKey("backfills.id", ondelete="CASCADE"), nullable=False),
    sa.Column("step_index", sa.Integer, nullable=False),
    sa.Column("step", _Text, nullable=False),
    sa.Column("position", sa.BigInteger, nullable=False),
    sa.Column("window_start", Instant, nullable=False),
    sa.Column("window_end", Instant, nullable=False),
    sa.Column("dimensions", _Text, nullable=False),
    sa.Column("partitions", sa.Integer, nullable=False),
    sa.Column("state", _word(16), nullable=False),
    sa.Column("spot_check", sa.Boolean, nullable=False),
    sa.Column("tries", sa.Integer, nullable=False),
    sa.Column("host", _Text),
    sa.Column("pid", sa.BigInteger),
    sa.Column("run", _word(32)),
    sa.Column("row_count", sa.BigInteger),
    sa.Column("refused", _Text, nullable=False),
    sa.Column("error", _Text, nullable=False),
    sa.Column("not_before", Instant),
    sa.Column("started_at", Instant),
    sa.Column("finished_at", Instant),
    sa.Index("chunks_by_step", "backfill", "step_index", "state", "position"),
)

# When a source may be called next, across all processes that share the ledger.
rates = sa.Table(
    "rates",
    metadata,
    sa.Column("name", _Text, primary_key=True),
    sa.Column("next_at", Instant, nullable=False),
)

# Calls to the outside world, one row per generation. A claim is held by the process that works on the row.
effects = sa.Table(
    "effects",
    metadata,
    sa.Column("key", _word(32), primary_key=True),
    sa.Column("subject", _word(32), nullable=False),
    sa.Column("generation", sa.Integer, nullable=False),
    sa.Column("pipeline", _Text, nullable=False),
    sa.Column("effect", _Text, nullable=False),
    sa.Column("table_name", _Text, nullable=False),
    *_scope(),
    sa.Column("business_key", _Text, nullable=False),
    sa.Column("state", _word(16), nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("fingerprint", _word(64), nullable=False),
    # The fingerprint of a later payload that was not sent; empty while what was sent is what would be sent now.
    sa.Column("outdated", _word(64), nullable=False),
    sa.Column("payload", _Text, nullable=False),
    sa.Column("response", _Text, nullable=False),
    sa.Column("error", _Text, nullable=False),
    sa.Column("note", _Text, nullable=False),
    sa.Column("run", _word(32)),
    sa.Column("claim", _word(32)),
    sa.Column("host", _Text),
    sa.Column("pid", sa.BigInteger),
    sa.Column("expires_at", Instant),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("called_at", Instant),
    sa.Column("changed_at", Instant, nullable=False),
    sa.UniqueConstraint("subject", "generation", name="effects_generation"),
    sa.Index("effects_by_claim", "claim"),
    sa.Index("effects_by_state", "state", "pipeline", "effect"),
    sa.Index("effects_by_effect", "pipeline", "effect", "window_start"),
)

# The scopes whose effects are all settled, with the content that they were paid for.
effect_scopes = sa.Table(
    "effect_scopes",
    metadata,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("pipeline", _Text, nullable=False),
    sa.Column("effect", _Text, nullable=False),
    sa.Column("table_name", _Text, nullable=False),
    sa.Column("scope", _Text, nullable=False),
    *_scope(),
    # Empty: a person recorded that something of it was not sent.
    sa.Column("content", _Text, nullable=False),
    sa.Column("keys", sa.BigInteger, nullable=False),
    # Whether all of it was sent, and nothing suppressed or skipped.
    sa.Column("sent", sa.Boolean, nullable=False),
    sa.Column("changed_at", Instant, nullable=False),
    sa.UniqueConstraint("pipeline", "effect", "scope", name="effect_scopes_once"),
)

# Streams as they ran last. `query` is the id that Spark keeps in the checkpoint.
streams = sa.Table(
    "streams",
    metadata,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("pipeline", _Text, nullable=False),
    sa.Column("stream", _Text, nullable=False),
    sa.Column("table_name", _Text, nullable=False),
    sa.Column("source", _Text, nullable=False),
    # The table that is read; empty where the source is not a table.
    sa.Column("source_table", _Text, nullable=False),
    sa.Column("query", _word(64), nullable=False),
    sa.Column("checkpoint", _Text, nullable=False),
    sa.Column("run", _word(32), nullable=False),
    sa.Column("stop", sa.Boolean, nullable=False),
    sa.Column("changed_at", Instant, nullable=False),
    sa.UniqueConstraint("pipeline", "stream", name="streams_once"),
)

# What each batch of a stream read and wrote. `offsets` is what Spark wrote into the checkpoint before the batch.
stream_batches = sa.Table(
    "stream_batches",
    metadata,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("pipeline", _Text, nullable=False),
    sa.Column("stream", _Text, nullable=False),
    sa.Column("query", _word(64), nullable=False),
    sa.Column("batch", sa.BigInteger, nullable=False),
    sa.Column("run", _word(32), nullable=False),
    sa.Column("offsets", _Text, nullable=False),
    sa.Column("version", _Text),
    sa.Column("rows_in", sa.BigInteger),
    sa.Column("rows_out", sa.BigInteger),
    sa.Column("duplicates", sa.BigInteger),
    # Null until the query has reported how many rows were too old.
    sa.Column("late", sa.BigInteger),
    sa.Column("state_rows", sa.BigInteger),
    sa.Column("started_at", Instant, nullable=False),
    sa.Column("ended_at", Instant),
    sa.Column("replayed_at", Instant),
    sa.UniqueConstraint("pipeline", "stream", "query", "batch", name="stream_batches_once"),
    sa.Index("stream_batches_by_time", "pipeline", "stream", "started_at"),
)
