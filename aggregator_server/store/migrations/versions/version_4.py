"""An audit, people's tokens and invitations; networks of devices and models; who waits for approval."""

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
    _add_tokens_and_invitations()
    # In SQL: Alembic adds a reference only by copying the table, which others refer to.
    op.execute("ALTER TABLE devices ADD COLUMN invitation_id INTEGER REFERENCES invitations (invitation_id)")
    op.add_column("devices", sa.Column("group_name", sa.String(200)))
    op.add_column("devices", sa.Column("waiting", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("devices", sa.Column("rotate", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("devices", sa.Column("secret_since", sa.Double))


def _add_tokens_and_invitations() -> None:
    op.create_table(
        "tokens",
        sa.Column("token_id", sa.Integer, primary_key=True),
        sa.Column("token_hash", sa.String(64), nullable=False, unique=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("role", sa.String(8), nullable=False),
        sa.Column("made_at", sa.Double, nullable=False),
        sa.Column("expires_at", sa.Double),
        sa.Column("revoked_at", sa.Double),
    )
    op.create_table(
        "invitations",
        sa.Column("invitation_id", sa.Integer, primary_key=True),
        sa.Column("token_hash", sa.String(64), nullable=False, unique=True),
        sa.Column("devices", sa.Integer, nullable=False),
        sa.Column("used", sa.Integer, nullable=False),
        sa.Column("group_name", sa.String(200)),
        sa.Column("made_at", sa.Double, nullable=False),
        sa.Column("expires_at", sa.Double),
        sa.Column("revoked_at", sa.Double),
    )
