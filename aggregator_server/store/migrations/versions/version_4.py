"""An audit; whose network a device and a shared model have."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "4"
down_revision = "3"


def upgrade() -> None:
    """Add tables and columns."""
    op.create_table(
        "audit",
        sa.Column("audit_id", sa.Integer, primary_key=True),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("who", sa.String(300), nullable=False),
        sa.Column("address", sa.String(64)),
        sa.Column("what", sa.String(32), nullable=False),
        sa.Column("details", sa.JSON, nullable=False),
    )
    op.add_column("devices", sa.Column("network", sa.String(64)))
    op.add_column("models", sa.Column("network", sa.String(64)))
    op.add_column("participants", sa.Column("other", sa.Boolean, nullable=False, server_default=sa.false()))
