"""Streams, and what each of their batches read and wrote."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def _word(length: int) -> sa.String:
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_INSTANT = _word(27)
_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "streams",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("pipeline", _TEXT, nullable=False),
        sa.Column("stream", _TEXT, nullable=False),
        sa.Column("table_name", _TEXT, nullable=False),
        sa.Column("source", _TEXT, nullable=False),
        sa.Column("source_table", _TEXT, nullable=False),
        sa.Column("query", _word(64), nullable=False),
        sa.Column("checkpoint", _TEXT, nullable=False),
        sa.Column("run", _word(32), nullable=False),
        sa.Column("stop", sa.Boolean, nullable=False),
        sa.Column("changed_at", _INSTANT, nullable=False),
        sa.UniqueConstraint("pipeline", "stream", name="streams_once"),
    )
    op.create_table(
        "stream_batches",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("pipeline", _TEXT, nullable=False),
        sa.Column("stream", _TEXT, nullable=False),
        sa.Column("query", _word(64), nullable=False),
        sa.Column("batch", sa.BigInteger, nullable=False),
        sa.Column("run", _word(32), nullable=False),
        sa.Column("offsets", _TEXT, nullable=False),
        sa.Column("version", _TEXT),
        sa.Column("rows_in", sa.BigInteger),
        sa.Column("rows_out", sa.BigInteger),
        sa.Column("duplicates", sa.BigInteger),
        sa.Column("late", sa.BigInteger),
        sa.Column("state_rows", sa.BigInteger),
        sa.Column("started_at", _INSTANT, nullable=False),
        sa.Column("ended_at", _INSTANT),
        sa.Column("replayed_at", _INSTANT),
        sa.UniqueConstraint("pipeline", "stream", "query", "batch", name="stream_batches_once"),
    )
    op.create_index("stream_batches_by_time", "stream_batches", ["pipeline", "stream", "started_at"])


def downgrade() -> None:
    op.drop_table("stream_batches")
    op.drop_table("streams")
