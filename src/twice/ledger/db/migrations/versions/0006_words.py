"""Columns get the names of what they hold: `step_index` (was `stage`) and `spot_check` (was `solo`)."""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"

_INDEX = ["backfill", "step_index", "state", "position"]


def upgrade() -> None:
    op.drop_index("chunks_by_stage", "chunks")
    op.alter_column("backfills", "stage", new_column_name="step_index")
    op.alter_column("chunks", "stage", new_column_name="step_index")
    op.alter_column("chunks", "solo", new_column_name="spot_check")
    op.create_index("chunks_by_step", "chunks", _INDEX)


def downgrade() -> None:
    op.drop_index("chunks_by_step", "chunks")
    op.alter_column("chunks", "spot_check", new_column_name="solo")
    op.alter_column("chunks", "step_index", new_column_name="stage")
    op.alter_column("backfills", "step_index", new_column_name="stage")
    op.create_index("chunks_by_stage", "chunks", ["backfill", "stage", "state", "position"])
