"""What operators did gets a table of its own."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "6"
down_revision = "5"


def upgrade() -> None:
    """Move what operators did out of the rounds that have its results."""
    op.create_table(
        "operations",
        sa.Column("round_id", sa.Integer, sa.ForeignKey("rounds.round_id"), primary_key=True),
        sa.Column("what", sa.String(16), nullable=False),
        sa.Column("restores", sa.Integer, sa.ForeignKey("rounds.round_id")),
        sa.Column("details", sa.JSON, nullable=False),
    )
    found = sa.text("SELECT round_id, operation, restores, details FROM rounds WHERE operation IS NOT NULL")
    for round_id, what, restores, text in op.get_bind().execute(found).all():
        details = json.loads(text)
        moved = {"what": what, "restores": restores, "details": json.dumps(details.pop("operation", {}))}
        op.get_bind().execute(
            sa.text("INSERT INTO operations VALUES (:round_id, :what, :restores, :details)"),
            moved | {"round_id": round_id},
        )
        op.get_bind().execute(
            sa.text("UPDATE rounds SET details = :details WHERE round_id = :round_id"),
            {"details": json.dumps(details), "round_id": round_id},
        )
    # The columns refer to another table, so the table is copied without them.
    with op.batch_alter_table("rounds", recreate="always") as rounds:
        rounds.drop_column("operation")
        rounds.drop_column("restores")
