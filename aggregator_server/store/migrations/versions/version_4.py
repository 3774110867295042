"""What release 0.2 adds: an audit."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "4"
down_revision = "3"


def upgrade() -> None:
    """Add the audit."""
    op.create_table(
        "audit",
        sa.Column("audit_id", sa.Integer, primary_key=True),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("who", sa.String(300), nullable=False),
        sa.Column("address", sa.String(64)),
        sa.Column("what", sa.String(32), nullable=False),
        sa.Column("details", sa.JSON, nullable=False),
    )
