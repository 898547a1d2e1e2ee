"""Backfills, their workers and chunks, the pace of sources, and what code fingerprints are made of."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def _word(length: int) -> sa.String:
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_INSTANT = _word(27)
_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table("codes", sa.Column("id", _TEXT, primary_key=True), sa.Column("parts", _TEXT, nullable=False))
    op.create_table(
        "backfills",
        sa.Column("id", _word(32), primary_key=True),
        sa.Column("pipeline", _TEXT, nullable=False),
        sa.Column("window_start", _INSTANT, nullable=False),
        sa.Column("window_end", _INSTANT, nullable=False),
        sa.Column("dimensions", _TEXT, nullable=False),
        sa.Column("tables", _TEXT, nullable=False),
        sa.Column("request", _TEXT, nullable=False),
        sa.Column("code", _TEXT, nullable=False),
        sa.Column("plan", _TEXT, nullable=False),
        sa.Column("command", _TEXT, nullable=False),
        sa.Column("status", _word(16), nullable=False),
        sa.Column("parallel", sa.Integer, nullable=False),
        sa.Column("stage", sa.Integer, nullable=False),
        sa.Column("error", _TEXT, nullable=False),
        sa.Column("shadow", _TEXT, nullable=False),
        sa.Column("started_at", _INSTANT, nullable=False),
        sa.Column("finished_at", _INSTANT),
    )
    op.create_index("backfills_by_status", "backfills", ["status", "started_at"])
    op.create_table(
        "workers",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("backfill", _word(32), sa.ForeignKey("backfills.id", ondelete="CASCADE"), nullable=False),
        sa.Column("host", _TEXT, nullable=False),
        sa.Column("pid", sa.BigInteger, nullable=False),
        sa.Column("expires_at", _INSTANT, nullable=False),
        sa.UniqueConstraint("backfill", "host", "pid", name="workers_once"),
    )
    op.create_table(
        "chunks",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("backfill", _word(32), sa.ForeignKey("backfills.id", ondelete="CASCADE"), nullable=False),
        sa.Column("stage", sa.Integer, nullable=False),
        sa.Column("step", _TEXT, nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("window_start", _INSTANT, nullable=False),
        sa.Column("window_end", _INSTANT, nullable=False),
        sa.Column("dimensions", _TEXT, nullable=False),
        sa.Column("partitions", sa.Integer, nullable=False),
        sa.Column("state", _word(16), nullable=False),
        sa.Column("solo", sa.Boolean, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("host", _TEXT),
        sa.Column("pid", sa.BigInteger),
        sa.Column("run", _word(32)),
        sa.Column("row_count", sa.BigInteger),
        sa.Column("refused", _TEXT, nullable=False),
        sa.Column("error", _TEXT, nullable=False),
        sa.Column("not_before", _INSTANT),
        sa.Column("started_at", _INSTANT),
        sa.Column("finished_at", _INSTANT),
    )
    op.create_index("chunks_by_stage", "chunks", ["backfill", "stage", "state", "position"])
    op.create_table(
        "rates",
        sa.Column("name", _TEXT, primary_key=True),
        sa.Column("next_at", _INSTANT, nullable=False),
    )


def downgrade() -> None:
    for name in ("rates", "chunks", "workers", "backfills", "codes"):
        op.drop_table(name)
