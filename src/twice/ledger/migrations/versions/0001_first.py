"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_INSTANT = sa.String(27)
_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "runs",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("pipeline", sa.Text, nullable=False),
        sa.Column("window_start", _INSTANT),
        sa.Column("window_end", _INSTANT),
        sa.Column("dimensions", sa.Text, nullable=False),
        sa.Column("command", sa.Text, nullable=False),
        sa.Column("tags", sa.Text, nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("pid", sa.BigInteger, nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("started_at", _INSTANT, nullable=False),
        sa.Column("seen_at", _INSTANT, nullable=False),
        sa.Column("finished_at", _INSTANT),
    )
    op.create_index("runs_by_time", "runs", ["started_at"])
    op.create_index("runs_by_pipeline", "runs", ["pipeline", "started_at"])
    op.create_table(
        "attempts",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("run", sa.String(32), sa.ForeignKey("runs.id"), nullable=False),
        sa.Column("pipeline", sa.Text, nullable=False),
        sa.Column("step", sa.Text, nullable=False),
        sa.Column("table_name", sa.Text, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("window_start", _INSTANT),
        sa.Column("window_end", _INSTANT),
        sa.Column("dimensions", sa.Text, nullable=False),
        sa.Column("code", sa.Text, nullable=False),
        sa.Column("inputs", sa.String(64), nullable=False),
        sa.Column("token", sa.BigInteger),
        sa.Column("base_version", sa.Text),
        sa.Column("version", sa.Text),
        sa.Column("row_count", sa.BigInteger),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("transient", sa.Boolean, nullable=False),
        sa.Column("details", sa.Text, nullable=False),
        sa.Column("started_at", _INSTANT, nullable=False),
        sa.Column("finished_at", _INSTANT),
        sqlite_autoincrement=True,
    )
    op.create_index("attempts_by_run", "attempts", ["run"])
    op.create_index("attempts_by_step", "attempts", ["pipeline", "step", "window_start"])
    op.create_table(
        "tokens",
        sa.Column("table_name", sa.Text, primary_key=True),
        sa.Column("highest", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "claims",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("table_name", sa.Text, nullable=False),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("scopes", sa.Text, nullable=False),
        sa.Column("run", sa.String(32)),
        sa.Column("attempt", sa.BigInteger),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("pid", sa.BigInteger, nullable=False),
        sa.Column("since", _INSTANT, nullable=False),
        sa.Column("expires_at", _INSTANT, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("ended_at", _INSTANT),
        sa.UniqueConstraint("table_name", "token", name="claims_token"),
    )
    op.create_index("claims_by_state", "claims", ["state", "table_name"])
    op.create_table(
        "input_sets",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("content", sa.Text, nullable=False),
    )
    op.create_table(
        "outputs",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("table_name", sa.Text, nullable=False),
        sa.Column("scope", sa.Text, nullable=False),
        sa.Column("window_start", _INSTANT),
        sa.Column("window_end", _INSTANT),
        sa.Column("dimensions", sa.Text, nullable=False),
        sa.Column("row_count", sa.BigInteger, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("files", sa.Text, nullable=False),
        sa.Column("version", sa.Text),
        sa.Column("pipeline", sa.Text, nullable=False),
        sa.Column("step", sa.Text, nullable=False),
        sa.Column("code", sa.Text, nullable=False),
        sa.Column("inputs", sa.String(64), nullable=False),
        sa.Column("run", sa.String(32)),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
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
