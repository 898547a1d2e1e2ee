"""What a run was made with: the commit of its code, versions, and the settings of Spark that decide results."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def _word(length: int) -> sa.String:
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "environments",
        sa.Column("id", _word(64), primary_key=True),
        sa.Column("content", _TEXT, nullable=False),
    )
    # Null for earlier runs.
    op.add_column("runs", sa.Column("environment", _word(64)))


def downgrade() -> None:
    op.drop_column("runs", "environment")
    op.drop_table("environments")
