"""Calls to the outside world, and the scopes whose effects are settled."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def _word(length: int) -> sa.String:
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_INSTANT = _word(27)
_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "effects",
        sa.Column("key", _word(32), primary_key=True),
        sa.Column("subject", _word(32), nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("pipeline", _TEXT, nullable=False),
        sa.Column("effect", _TEXT, nullable=False),
        sa.Column("table_name", _TEXT, nullable=False),
        sa.Column("window_start", _INSTANT),
        sa.Column("window_end", _INSTANT),
        sa.Column("dimensions", _TEXT, nullable=False),
        sa.Column("business_key", _TEXT, nullable=False),
        sa.Column("state", _word(16), nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("fingerprint", _word(64), nullable=False),
        sa.Column("outdated", _word(64), nullable=False),
        sa.Column("payload", _TEXT, nullable=False),
        sa.Column("response", _TEXT, nullable=False),
        sa.Column("error", _TEXT, nullable=False),
        sa.Column("note", _TEXT, nullable=False),
        sa.Column("run", _word(32)),
        sa.Column("claim", _word(32)),
        sa.Column("host", _TEXT),
        sa.Column("pid", sa.BigInteger),
        sa.Column("expires_at", _INSTANT),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("called_at", _INSTANT),
        sa.Column("changed_at", _INSTANT, nullable=False),
        sa.UniqueConstraint("subject", "generation", name="effects_generation"),
    )
    op.create_index("effects_by_claim", "effects", ["claim"])
    op.create_index("effects_by_state", "effects", ["state", "pipeline", "effect"])
    op.create_index("effects_by_effect", "effects", ["pipeline", "effect", "window_start"])
    op.create_table(
        "effect_scopes",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("pipeline", _TEXT, nullable=False),
        sa.Column("effect", _TEXT, nullable=False),
        sa.Column("table_name", _TEXT, nullable=False),
        sa.Column("scope", _TEXT, nullable=False),
        sa.Column("window_start", _INSTANT),
        sa.Column("window_end", _INSTANT),
        sa.Column("dimensions", _TEXT, nullable=False),
        sa.Column("content", _TEXT, nullable=False),
        sa.Column("keys", sa.BigInteger, nullable=False),
        sa.Column("sent", sa.Boolean, nullable=False),
        sa.Column("changed_at", _INSTANT, nullable=False),
        sa.UniqueConstraint("pipeline", "effect", "scope", name="effect_scopes_once"),
    )


def downgrade() -> None:
    op.drop_table("effect_scopes")
    op.drop_table("effects")
