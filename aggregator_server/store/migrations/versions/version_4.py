"""An audit, people's tokens, sessions and invitations; networks of devices and models; who waits for approval."""

import sqlalchemy as sa
from alembic import op

revision = "4"
down_revision = "3"


def upgrade() -> None:
    """Add tables and columns, and end the open round: its plan and its uploads are of a form that is no longer read."""
    op.execute(
        "UPDATE rounds SET state = 'failed', closed_at = opened_at, "
        "reason = 'the aggregator was replaced by a newer release while this round was open; open another one' "
        "WHERE state = 'open'"
    )
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
    op.add_column("devices", sa.Column("trouble", sa.String(200)))
    op.add_column("models", sa.Column("network", sa.String(64)))
    op.add_column("participants", sa.Column("other", sa.Boolean, nullable=False, server_default=sa.false()))
    _let_operators_undo()
    _add_conduct()
    _add_tokens_and_invitations()
    op.execute("ALTER TABLE devices ADD COLUMN invitation_id INTEGER REFERENCES invitations (invitation_id)")
    op.add_column("devices", sa.Column("group_name", sa.String(200)))
    op.add_column("devices", sa.Column("waiting", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("devices", sa.Column("rotate", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("devices", sa.Column("secret_since", sa.Double))


def _let_operators_undo() -> None:
    op.add_column("rounds", sa.Column("operation", sa.String(16)))
    # In SQL: Alembic adds a reference only by copying the table, which others refer to.
    op.execute("ALTER TABLE rounds ADD COLUMN restores INTEGER REFERENCES rounds (round_id)")
    op.execute("ALTER TABLE rounds ADD COLUMN undone_by INTEGER REFERENCES rounds (round_id)")
    op.add_column("classes", sa.Column("state", sa.String(8), nullable=False, server_default="active"))
    for column, target in (("merged_into", "classes (class_id)"), ("split_from", "classes (class_id)")):
        op.execute(f"ALTER TABLE classes ADD COLUMN {column} VARCHAR(64) REFERENCES {target}")
    op.execute("ALTER TABLE classes ADD COLUMN proposal VARCHAR(64) REFERENCES blobs (sha256)")


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
        "sessions",
        sa.Column("session_hash", sa.String(64), primary_key=True),
        sa.Column("token_id", sa.Integer, sa.ForeignKey("tokens.token_id")),
        sa.Column("proof", sa.String(64)),
        sa.Column("made_at", sa.Double, nullable=False),
        sa.Column("expires_at", sa.Double, nullable=False),
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


def _add_conduct() -> None:
    op.create_table(
        "conduct",
        sa.Column("device_id", sa.String(32), sa.ForeignKey("devices.device_id"), primary_key=True),
        sa.Column("counted", sa.Integer, nullable=False),
        sa.Column("screened", sa.Integer, nullable=False),
        sa.Column("refused", sa.Integer, nullable=False),
        sa.Column("refused_in", sa.Integer, sa.ForeignKey("rounds.round_id")),
        sa.Column("refusal", sa.String(1000)),
        sa.Column("suspicion", sa.Integer, nullable=False),
        sa.Column("quarantined_at", sa.Double),
        sa.Column("reason", sa.String(1000)),
    )
