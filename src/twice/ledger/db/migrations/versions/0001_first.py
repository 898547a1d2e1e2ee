"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def _word(length: int) -> sa.String:
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_INSTANT = _word(27)
_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "runs",
        sa.Column("id", _word(32), primary_key=True),
        sa.Column("pipeline", _TEXT, nullable=False),
        sa.Column("window_start", _INSTANT),
        sa.Column("window_end", _INSTANT),
        sa.Column("dimensions", _TEXT, nullable=False),
        sa.Column("command", _TEXT, nullable=False),
        sa.Column("tags", _TEXT, nullable=False),
        sa.Column("host", _TEXT, nullable=False),
        sa.Column("pid", sa.BigInteger, nullable=False),
        sa.Column("status", _word(16), nullable=False),
        sa.Column("error", _TEXT, nullable=False),
        sa.Column("started_at", _INSTANT, nullable=False),
        sa.Column("seen_at", _INSTANT, nullable=False),
        sa.Column("finished_at", _INSTANT),
    )
    op.create_index("runs_by_time", "runs", ["started_at"])
    op.create_index("runs_by_pipeline", "runs", ["pipeline", "started_at"])
    op.create_table(
        "attempts",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("run", _word(32), sa.ForeignKey("runs.id"), nullable=False),
        sa.Column("pipeline", _TEXT, nullable=False),
        sa.Column("step", _TEXT, nullable=False),
        sa.Column("table_name", _TEXT, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("window_start", _INSTANT),
        sa.Column("window_end", _INSTANT),
        sa.Column("dimensions", _TEXT, nullable=False),
        sa.Column("code", _TEXT, nullable=False),
        sa.Column("inputs", _word(64), nullable=False),
        sa.Column("token", sa.BigInteger),
        sa.Column("base_version", _TEXT),
        sa.Column("version", _TEXT),
        sa.Column("row_count", sa.BigInteger),
        sa.Column("status", _word(16), nullable=False),
        sa.Column("error", _TEXT, nullable=False),
        sa.Column("transient", sa.Boolean, nullable=False),
        sa.Column("details", _TEXT, nullable=False),
        sa.Column("started_at", _INSTANT, nullable=False),
        sa.Column("finished_at", _INSTANT),
        sqlite_autoincrement=True,
    )
    op.create_index("attempts_by_run", "attempts", ["run"])
    op.create_index("attempts_by_step", "attempts", ["pipeline", "step", "window_start"])
    op.create_table(
        "tokens",
        sa.Column("table_name", _TEXT, primary_key=True),
        sa.Column("highest", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "claims",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("table_name", _TEXT, nullable=False),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("scopes", _TEXT, nullable=False),
        sa.Column("run", _word(32)),
        sa.Column("attempt", sa.BigInteger),
        sa.Column("host", _TEXT, nullable=False),
        sa.Column("pid", sa.BigInteger, nullable=False),
        sa.Column("since", _INSTANT, nullable=False),
        sa.Column("expires_at", _INSTANT, nullable=False),
        sa.Column("state", _word(16), nullable=False),
        sa.Column("ended_at", _INSTANT),
        sa.UniqueConstraint("table_name", "token", name="claims_token"),
    )
    op.create_index("claims_by_state", "claims", ["state", "table_name"])
    op.create_table(
        "input_sets",
        sa.Column("id", _word(64), primary_key=True),
        sa.Column("content", _TEXT, nullable=False),
    )
    op.create_table(
        "outputs",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("table_name", _TEXT, nullable=False),
        sa.Column("scope", _TEXT, nullable=False),
        sa.Column("window_start", _INSTANT),
        sa.Column("window_end", _INSTANT),
        sa.Column("dimensions", _TEXT, nullable=False),
        sa.Column("row_count", sa.BigInteger, nullable=False),
        sa.Column("digest", _TEXT, nullable=False),
        sa.Column("files", _TEXT, nullable=False),
        sa.Column("version", _TEXT),
        sa.Column("pipeline", _TEXT, nullable=False),
        sa.Column("step", _TEXT, nullable=False),
        sa.Column("code", _TEXT, nullable=False),
        sa.Column("inputs", _word(64), nullable=False),
        sa.Column("run", _word(32)),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("state", _word(16), nullable=False),
        sa.Column("recorded_at", _INSTANT, nullable=False),
        sa.Column("superseded_at", _INSTANT),
    )
    op.create_index(
        "outputs_current",
        "outputs",
        ["table_name", "scope"],
        unique=True,
        sqlite_where=sa.text("state = 'current'"),
        postgresql_where=sa.text("state = 'current'"),
    )
    op.create_index("outputs_by_window", "outputs", ["table_name", "state", "window_start", "window_end"])
    op.create_index("outputs_by_token", "outputs", ["table_name", "token"])


def downgrade() -> None:
    for name in ("outputs", "input_sets", "claims", "tokens", "attempts", "runs"):
        op.drop_table(name)
